//! Packs, taken apart while they arrive.

use std::collections::VecDeque;
use std::io::{self, Write};

use wellspring_tree::Modified;

use super::{NewFile, TreeTarget};

/// A file that is wanted out of a pack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its path in the tree.
    pub path: String,
    /// Its length \[bytes\]; not zero.
    pub size: u64,
    /// Its permissions.
    pub mode: u16,
    /// Last modification.
    pub modified: Modified,
}

/// Writes the files of a pack, each into its place as soon as its last byte is there. Bytes beyond
/// the last file are an error.
pub struct Unpack {
    target: TreeTarget,
    files: VecDeque<Wanted>,
    /// The file that is written, and what of it is missing \[bytes\].
    open: Option<(NewFile, u64)>,
    done: Box<dyn FnMut(&Wanted) + Send>,
}

impl Unpack {
    /// Takes a pack of those files apart into `target`; `done` hears of each file in its place.
    pub fn new(
        target: TreeTarget,
        files: Vec<Wanted>,
        done: impl FnMut(&Wanted) + Send + 'static,
    ) -> Self {
        Unpack { target, files: files.into(), open: None, done: Box::new(done) }
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(wanted) = self.files.front() else {
            return Err(io::Error::other("a pack with more bytes than its files have"));
        };
        let (file, missing) = match &mut self.open {
            Some(open) => open,
            none => none.insert((self.target.begin_file(&wanted.path)?, wanted.size)),
        };
        let len = bytes.len().min(usize::try_from(*missing).unwrap_or(usize::MAX));
        file.write_all(&bytes[..len])?;
        *missing -= len as u64;
        if *missing == 0
            && let Some((file, _)) = self.open.take()
        {
            file.finish(wanted.mode, wanted.modified)?;
            (self.done)(wanted);
            self.files.pop_front();
        }
        Ok(len)
    }
}

impl Write for Unpack {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let path = self.files.front().map(|wanted| wanted.path.clone());
        self.take(bytes).map_err(|error| match path {
            Some(path) => io::Error::new(error.kind(), format!("{path}: {error}")),
            None => error,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.files.front() {
            None => Ok(()),
            Some(wanted) => {
                let text = format!("{}: the pack ends before the file does", wanted.path);
                Err(io::Error::other(text))
            }
        }
    }
}
