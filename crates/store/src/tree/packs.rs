//! Packs of the files of a tree that are moved together.

use wellspring_tree::{Content, Cursor, ListingError, Place, Selection};

use super::file::PACKED;
use super::{Meta, Wanted};

/// A pack is closed when it has so many bytes.
pub(super) const PACK_LEN: u64 = 4 << 20;
/// Or so many files.
const PACK_FILES: u32 = 4_096;
/// Longest text of a selection that is asked for \[bytes\]: a message has room for that, and for the directory.
const LONGEST_NAME: usize = 960;

/// Files that are fetched together.
#[derive(Clone, Debug)]
pub struct Pack {
    /// Their numbers.
    pub files: Selection,
    /// Their length \[bytes\].
    pub len: u64,
    /// Where the listing begins with them.
    pub place: Place,
}

/// The files of a selection as they are to be; `cursor` stands at or before the first.
///
/// # Errors
/// The listing is none.
pub fn wanted(mut cursor: Cursor<'_>, files: &Selection) -> Result<Vec<Wanted>, ListingError> {
    let mut wanted = Vec::with_capacity(files.count() as usize);
    for run in files.runs() {
        while cursor.files() < run.end {
            let number = cursor.files();
            let Some(entry) = cursor.next_entry()? else { return Ok(wanted) };
            let Content::File { size, .. } = entry.content else { continue };
            if number >= run.start {
                let (path, meta) = (entry.path.to_owned(), Meta::from(&entry));
                wanted.push(Wanted { path, size, meta });
            }
        }
    }
    Ok(wanted)
}

/// Packs of files, as full as may be.
#[derive(Default, Debug)]
pub struct Packer {
    packs: Vec<Pack>,
    open: Option<Pack>,
    /// Length of the name of a pack without its selection.
    name_len: usize,
}

impl Packer {
    /// Nothing packed; the name of a pack has so many bytes beside its selection.
    pub fn new(name_len: usize) -> Self {
        Packer { name_len, ..Packer::default() }
    }

    /// Takes a file of that length; `place` gives its number, and, if asked to, where the listing stands before it.
    ///
    /// # Errors
    /// Those of `place`.
    pub fn push<E>(
        &mut self,
        size: u64,
        place: impl FnOnce(bool) -> Result<(u32, Place), E>,
    ) -> Result<(), E> {
        // A pack has no place for one without bytes.
        let alone = size >= PACKED || size == 0;
        if alone || self.is_full(size) {
            self.close();
        }
        let (number, place) = place(self.open.is_none())?;
        let pack =
            self.open.get_or_insert_with(|| Pack { files: Selection::default(), len: 0, place });
        pack.files.push(number);
        pack.len += size;
        if alone {
            self.close();
        }
        Ok(())
    }

    fn is_full(&self, more: u64) -> bool {
        self.open.as_ref().is_some_and(|pack| {
            pack.len + more > PACK_LEN
                || pack.files.count() >= PACK_FILES
                // One more run has at most 22 characters.
                || pack.files.runs().len() > 40
                    && self.name_len + pack.files.to_string().len() + 22 > LONGEST_NAME
        })
    }

    fn close(&mut self) {
        self.packs.extend(self.open.take());
    }

    /// The packs, in the order of their files.
    pub fn finish(mut self) -> Vec<Pack> {
        self.close();
        self.packs
    }
}
