//! Packs, taken apart while they arrive.

use std::collections::VecDeque;
use std::io::{self, Write};

use super::{Meta, NewFile, TreeTarget};
use crate::existing::Existing;

/// A file that is wanted out of a pack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its path in the tree.
    pub path: String,
    /// Its length \[bytes\]; not zero in a pack.
    pub size: u64,
    /// What else it is to have.
    pub meta: Meta,
}

/// Writes the files of a pack, each into its place as soon as its last byte is there. Bytes beyond
/// the last file are an error.
pub struct Unpack {
    target: TreeTarget,
    files: VecDeque<Wanted>,
    /// The file that is written, and what of it is missing \[bytes\]; no file if it is there already.
    open: Option<(Option<NewFile>, u64)>,
    existing: Existing,
    /// Whether the file of that path is the caller's own, and is replaced whatever `existing` says.
    is_ours: Box<dyn Fn(&str) -> bool + Send>,
    /// Files that are there already are left alone.
    keeps_same: bool,
    done: Box<dyn FnMut(&Wanted) + Send>,
}

impl Unpack {
    /// Takes a pack of those files apart into `target`; `done` hears of each file in its place.
    pub fn new(
        target: TreeTarget,
        files: Vec<Wanted>,
        done: impl FnMut(&Wanted) + Send + 'static,
    ) -> Self {
        let (existing, keeps_same) = (Existing::Replace, false);
        let (files, is_ours) = (files.into(), Box::new(|_: &str| false));
        Unpack { target, files, open: None, existing, is_ours, keeps_same, done: Box::new(done) }
    }

    /// The same, which replaces files only if `existing` says so, or if `is_ours` says that the caller has put them there.
    #[must_use]
    pub fn over(
        mut self,
        existing: Existing,
        is_ours: impl Fn(&str) -> bool + Send + 'static,
    ) -> Self {
        (self.existing, self.is_ours) = (existing, Box::new(is_ours));
        self
    }

    /// The same, which leaves files alone that are there with the length and time they are to have, and replaces
    /// others only if `existing` says so. If `by_digests`, what was asked for was not there by its bytes: length and time
    /// say nothing of that, and it is replaced, too.
    #[must_use]
    pub fn of_put(mut self, existing: Existing, by_digests: bool) -> Self {
        self.existing = existing;
        self.keeps_same = !(by_digests && existing == Existing::Replace);
        self
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(wanted) = self.files.front() else {
            return Err(io::Error::other("a pack with more bytes than its files have"));
        };
        let (file, missing) = match &mut self.open {
            Some(open) => open,
            none => {
                let Wanted { path, size, meta } = wanted;
                let mode = meta.mode;
                let is_there = self.keeps_same && self.target.has(path, *size, meta.modified);
                let file = if is_there { None } else { Some(self.target.begin_file(path, mode)?) };
                none.insert((file, *size))
            }
        };
        let len = bytes.len().min(usize::try_from(*missing).unwrap_or(usize::MAX));
        if let Some(file) = file {
            file.write_all(&bytes[..len])?;
        }
        *missing -= len as u64;
        if *missing == 0
            && let Some((file, _)) = self.open.take()
        {
            let Wanted { path, size, meta } = wanted;
            let is_ours = (self.is_ours)(path);
            let existing = match is_ours || self.target.is_in_doubt(path, *size, meta.modified) {
                // An earlier try at this very file.
                true => Existing::Replace,
                false => self.existing,
            };
            match file.map_or(Ok(()), |file| file.finish(meta, existing)) {
                // Another session was faster with the same file.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && self.keeps_same
                        && self.target.has(path, *size, meta.modified) => {}
                finished => finished?,
            }
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
