//! A regular file of a tree while it is written.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, futimens, renameat, unlinkat};
use rustix::io::Errno;

use super::attributes::{Meta, set_attributes};
use super::file::times_of;
use crate::existing::Existing;
use crate::objects::{Disk, SystemDisk};

/// So many zeros, at a multiple of so many bytes, become a hole \[bytes\].
const HOLE: usize = 4_096;

/// A regular file of a tree while it is written, beside its place. Dropped before it is
/// [finished](Self::finish), it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    parent: Arc<OwnedFd>,
    part_name: String,
    name: String,
    in_place: bool,
    /// What it was given \[bytes\].
    len: u64,
    /// Its length on the disk, which ends before a hole \[bytes\].
    written: u64,
}

impl NewFile {
    /// One that is open, and that name of it in a directory.
    pub(super) fn new(
        file: File,
        (parent, part_name): (Arc<OwnedFd>, String),
        name: String,
    ) -> Self {
        NewFile { file, parent, part_name, name, in_place: false, len: 0, written: 0 }
    }

    /// Gives the complete file its owner, attributes, mode, time and name, in the place of what has that if `existing`
    /// says so.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(mut self, meta: &Meta, existing: Existing) -> io::Result<()> {
        if self.written < self.len {
            self.file.set_len(self.len)?;
        }
        let attributes = meta.attributes.as_ref();
        if !attributes.keeps.is_nothing() {
            set_attributes(self.file.as_fd(), attributes)?;
        }
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(meta.mode.into()))?;
        futimens(&self.file, &times_of(meta.modified))?;
        match existing {
            Existing::Replace => take_name(&self.parent, &self.part_name, &self.name)?,
            Existing::Keep => {
                SystemDisk.rename(&self.parent, &self.part_name, &self.name, false)?
            }
        }
        self.in_place = true;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (len, is_hole) = first_run(self.len, rest);
            if !is_hole {
                self.file.write_all_at(&rest[..len], self.len)?;
                self.written = self.len + len as u64;
            }
            self.len += len as u64;
            rest = &rest[len..];
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How many of these bytes, which stand at `at` in a file, are a hole or are none, and which of both.
fn first_run(at: u64, bytes: &[u8]) -> (usize, bool) {
    let first = HOLE - (at % HOLE as u64) as usize;
    let (head, rest) = bytes.split_at(first.min(bytes.len()));
    let is_hole = |piece: &[u8]| piece.len() == HOLE && piece.iter().all(|byte| *byte == 0);
    let kind = is_hole(head);
    let more = rest.chunks(HOLE).take_while(|piece| is_hole(piece) == kind);
    (head.len() + more.map(<[u8]>::len).sum::<usize>(), kind)
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.in_place {
            // Gone already, or a disk in trouble: there is no caller left to return an error to.
            let _ = unlinkat(&self.parent, &self.part_name, AtFlags::empty());
        }
    }
}

/// Gives a file its name, in the place of what has it; of a directory only if that is empty.
pub(super) fn take_name(parent: &OwnedFd, temporary: &str, name: &str) -> Result<(), Errno> {
    match renameat(parent, temporary, parent, name) {
        // A directory makes room if it is empty.
        Err(Errno::ISDIR) => {
            unlinkat(parent, name, AtFlags::REMOVEDIR)?;
            renameat(parent, temporary, parent, name)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_of_zeros_are_holes_wherever_writes_are_cut() {
        let mut file = vec![0; 5 * HOLE];
        file[HOLE] = 1;
        file[3 * HOLE - 1] = 1;
        let mut ends = Vec::new();
        let mut at = 0;
        while at < file.len() {
            let (len, is_hole) = first_run(at as u64, &file[at..]);
            at += len;
            ends.push((at / HOLE, is_hole));
        }
        assert_eq!(ends, [(1, true), (3, false), (5, true)]);
        // Part of a block is none, at whatever place.
        assert_eq!(first_run(0, &file[..HOLE - 1]), (HOLE - 1, false));
        assert_eq!(first_run(1, &[0; 2 * HOLE - 1]), (HOLE - 1, false));
    }
}
