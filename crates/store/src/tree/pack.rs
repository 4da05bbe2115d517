//! Contents of files of a tree, one behind the other.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, openat};
use wellspring_tree::{Content, Cursor, ListingError, Modified, Selection};

use super::file::{LinksOut, reading, state};
use super::packs::PACK_LEN;
use crate::objects::{Fingerprint, open_directory_beneath, split_path};

/// Longest pack \[bytes\].
pub const MAX_PACK_LEN: u64 = 16 << 20;

/// Why files cannot be packed.
#[derive(Debug)]
#[non_exhaustive]
pub enum PackError {
    /// The listing is none.
    Listing(ListingError),
    /// It has no file of such a number.
    NoSuchFile,
    /// The files are longer than a pack may be \[bytes\].
    TooLong(u64),
    /// A file is not any more what the listing says.
    Changed(String),
    /// A file cannot be read.
    Io(String, io::Error),
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::Listing(error) => error.fmt(f),
            PackError::NoSuchFile => f.write_str("the tree has no such file"),
            PackError::TooLong(len) => {
                write!(f, "a pack of {len} bytes (limit {MAX_PACK_LEN})")
            }
            PackError::Changed(path) => write!(f, "{path} has changed since it was listed"),
            PackError::Io(path, error) => write!(f, "{path}: {error}"),
        }
    }
}

impl PackError {
    /// Whether files are not any more what was listed.
    pub fn is_change(&self) -> bool {
        matches!(self, PackError::Changed(_))
    }
}

impl std::error::Error for PackError {}

impl From<ListingError> for PackError {
    fn from(error: ListingError) -> Self {
        PackError::Listing(error)
    }
}

/// Reads files of a tree into one pack, in the order of their numbers in its listing, from where
/// `cursor` stands. Each must be what the listing says, before and after it is read. Links that lead out are taken as the
/// walk took them.
///
/// # Errors
/// [`PackError`].
pub fn read_pack(
    root: &OwnedFd,
    cursor: Cursor<'_>,
    files: &Selection,
    links_out: LinksOut,
) -> Result<Vec<u8>, PackError> {
    read_pack_and_state(root, cursor, files, links_out).map(|(pack, _)| pack)
}

/// The same, and the state that the files were in before they were read; none if one was written so shortly before that
/// another write would not show.
///
/// # Errors
/// [`PackError`].
pub fn read_pack_and_state(
    root: &OwnedFd,
    cursor: Cursor<'_>,
    files: &Selection,
    links_out: LinksOut,
) -> Result<(Vec<u8>, Option<PackState>), PackError> {
    // Most are as long as packs are made; memory that is not written to costs nothing.
    let mut pack = Vec::with_capacity(PACK_LEN as usize);
    let (mut states, mut are_settled) = (blake3::Hasher::new(), true);
    let began = SystemTime::now();
    each_file(root, (cursor, files), links_out, |file, size, listed| {
        let before = Fingerprint::of(file)?;
        are_settled &= before.settled_at(began);
        states.update(&before.to_bytes());
        if state(file)? != listed {
            return Ok(false);
        }
        // Whether there is more shows behind it, by the length.
        Ok(read_exactly(file, size, &mut pack)? && state(file)? == listed)
    })?;
    Ok((pack, are_settled.then(|| PackState(states.finalize().into()))))
}

/// The state of the files of a pack as they are now.
///
/// # Errors
/// [`PackError`].
pub fn pack_state(
    root: &OwnedFd,
    cursor: Cursor<'_>,
    files: &Selection,
    links_out: LinksOut,
) -> Result<PackState, PackError> {
    let mut states = blake3::Hasher::new();
    each_file(root, (cursor, files), links_out, |file, _, _| {
        states.update(&Fingerprint::of(file)?.to_bytes());
        Ok(true)
    })?;
    Ok(PackState(states.finalize().into()))
}

/// What the inodes of the files of a pack say, all together: another state may mean other bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackState([u8; 32]);

/// Opens files of a tree one after the other, and has each looked at with its length and what the listing says; false means
/// that it is not what was listed.
fn each_file(
    root: &OwnedFd,
    (mut cursor, files): (Cursor<'_>, &Selection),
    links_out: LinksOut,
    mut look: impl FnMut(&File, u64, (u64, Modified)) -> io::Result<bool>,
) -> Result<(), PackError> {
    let (mut at, mut all) = (Place::below(root, links_out), 0_u64);
    for run in files.runs() {
        while cursor.files() < run.end {
            let number = cursor.files();
            let entry = cursor.next_entry()?.ok_or(PackError::NoSuchFile)?;
            let Content::File { size, .. } = entry.content else { continue };
            if number < run.start || size == 0 {
                continue;
            }
            all = all.saturating_add(size);
            if all > MAX_PACK_LEN {
                return Err(PackError::TooLong(all));
            }
            let listed = (size, entry.modified);
            match at.open(entry.path).and_then(|file| look(&file, size, listed)) {
                Ok(true) => {}
                Ok(false) => return Err(PackError::Changed(entry.path.to_owned())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(PackError::Changed(entry.path.to_owned()));
                }
                Err(error) => return Err(PackError::Io(entry.path.to_owned(), error)),
            }
        }
    }
    Ok(())
}

/// Reads so many bytes of a file behind what `pack` holds; false if it has fewer.
fn read_exactly(file: &File, size: u64, pack: &mut Vec<u8>) -> io::Result<bool> {
    Ok(file.take(size).read_to_end(pack)? as u64 == size)
}

/// Opens the file of that number, which must be what the listing says. Links that lead out are taken as the walk took
/// them.
///
/// # Errors
/// [`PackError`].
pub fn open_listed(
    root: &OwnedFd,
    mut cursor: Cursor<'_>,
    number: u32,
    links_out: LinksOut,
) -> Result<(File, Fingerprint), PackError> {
    loop {
        let at = cursor.files();
        let entry = cursor.next_entry()?.ok_or(PackError::NoSuchFile)?;
        let Content::File { size, .. } = entry.content else { continue };
        if at < number {
            continue;
        }
        let trouble = |error| PackError::Io(entry.path.to_owned(), error);
        let mut place = Place::below(root, links_out);
        let file = match place.open(entry.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(PackError::Changed(entry.path.to_owned()));
            }
            opened => opened.map_err(trouble)?,
        };
        let fingerprint = Fingerprint::of(&file).map_err(trouble)?;
        if state(&file).map_err(trouble)? != (size, entry.modified) {
            return Err(PackError::Changed(entry.path.to_owned()));
        }
        return Ok((file, fingerprint));
    }
}

/// Keeps bytes in a file without a name, which the system can move out of the memory.
///
/// # Errors
/// The system's.
pub fn unnamed_file(bytes: &[u8]) -> io::Result<(File, Fingerprint)> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    let fingerprint = Fingerprint::of(&file)?;
    Ok((file, fingerprint))
}

/// The directory of the file that was opened last: the next one mostly is in the same.
struct Place<'a> {
    root: &'a OwnedFd,
    reading: OFlags,
    directory: String,
    opened: Option<OwnedFd>,
}

impl<'a> Place<'a> {
    fn below(root: &'a OwnedFd, links_out: LinksOut) -> Self {
        Place { root, reading: reading(links_out), directory: String::new(), opened: None }
    }

    fn open(&mut self, path: &str) -> io::Result<File> {
        let (directory, name) = split_path(path);
        if directory.is_empty() {
            return Ok(File::from(openat(self.root, name, self.reading, Mode::empty())?));
        }
        if self.opened.is_none() || self.directory != directory {
            self.opened = Some(open_directory_beneath(self.root, directory)?);
            directory.clone_into(&mut self.directory);
        }
        let parent = self.opened.as_ref().expect("was opened above");
        Ok(File::from(openat(parent, name, self.reading, Mode::empty())?))
    }
}
