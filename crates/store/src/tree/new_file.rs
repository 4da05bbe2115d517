//! A regular file of a tree while it is written.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::attributes::Meta;
use super::nameless;
use crate::existing::Existing;
use crate::objects::{Disk, SystemDisk, claim, part_file_name};

/// So many zeros, at a multiple of so many bytes, become a hole \[bytes\].
const HOLE: usize = 4_096;

/// Names tried before giving up: each has 64 random bits.
const ATTEMPTS: usize = 8;

/// A regular file of a tree while it is written: without a name where the file system has such files, else beside its
/// place. Dropped before it is [finished](Self::finish), it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    parent: Arc<OwnedFd>,
    /// The name that it has until it is finished, if it has any.
    part_name: Option<String>,
    name: String,
    /// What it was given \[bytes\].
    len: u64,
    /// Its length so far, which ends before a hole \[bytes\].
    written: u64,
}

impl NewFile {
    /// Begins a file that is to have that name in a directory, and that mode.
    pub(super) fn begin(parent: Arc<OwnedFd>, name: &str, mode: u16) -> io::Result<Self> {
        let (file, part_name) = match nameless::open(&parent, mode) {
            Some(file) => (file, None),
            None => {
                let (file, part_name) = open_part(&parent, name)?;
                (file, Some(part_name))
            }
        };
        Ok(NewFile { file, parent, part_name, name: name.to_owned(), len: 0, written: 0 })
    }

    /// Gives the complete file its owner, attributes, mode, time and name, in the place of what has that if `existing`
    /// says so.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(mut self, meta: &Meta, existing: Existing) -> io::Result<()> {
        if self.written < self.len {
            // Whose length is set has it on the disk before its bytes: a power cut would leave zeros that pass for it.
            self.file.write_all_at(&[0], self.len - 1)?;
        }
        meta.give(self.file.as_fd())?;
        match &self.part_name {
            None => self.link(existing)?,
            Some(part_name) => {
                match existing {
                    Existing::Replace => take_name(&self.parent, part_name, &self.name)?,
                    Existing::Keep => {
                        SystemDisk.rename(&self.parent, part_name, &self.name, false)?
                    }
                }
                self.part_name = None;
            }
        }
        Ok(())
    }

    /// Gives a file without a name its own.
    fn link(&mut self, existing: Existing) -> io::Result<()> {
        match nameless::link(&self.file, &self.parent, &self.name) {
            Err(Errno::EXIST) if existing == Existing::Replace => {}
            linked => return Ok(linked?),
        }
        // A name is replaced by a rename alone. Locked before it has a name, it is never taken for stale.
        claim(&SystemDisk, &self.file);
        for _ in 0..ATTEMPTS {
            let part_name = part_file_name(&self.name, SystemDisk.random()?);
            match nameless::link(&self.file, &self.parent, &part_name) {
                Err(Errno::EXIST) => continue,
                linked => linked?,
            }
            self.part_name = Some(part_name.clone());
            take_name(&self.parent, &part_name, &self.name)?;
            self.part_name = None;
            return Ok(());
        }
        Err(Errno::EXIST.into())
    }
}

/// A file beside its place, and its name there.
fn open_part(parent: &OwnedFd, name: &str) -> io::Result<(File, String)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..ATTEMPTS {
        let part_name = part_file_name(name, SystemDisk.random()?);
        match openat(parent, &part_name, flags, Mode::from_raw_mode(0o600)) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
            Ok(fd) => {
                let file = File::from(fd);
                // Else taken for stale in the moment before it was ours.
                if claim(&SystemDisk, &file) {
                    return Ok((file, part_name));
                }
            }
        }
    }
    Err(Errno::EXIST.into())
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
        if let Some(part_name) = &self.part_name {
            // Gone already, or a disk in trouble: there is no caller left to return an error to.
            let _ = unlinkat(&self.parent, part_name, AtFlags::empty());
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

    /// A directory, the names in it, and the bytes of `f`.
    fn look(dir: &std::path::Path) -> (Vec<String>, Vec<u8>) {
        let entries = std::fs::read_dir(dir).expect("directory");
        let name = |entry: io::Result<std::fs::DirEntry>| entry.expect("entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).into_string().expect("UTF-8")).collect();
        names.sort();
        (names, std::fs::read(dir.join("f")).unwrap_or_default())
    }

    #[test]
    fn with_a_name_before_its_end_or_without_a_file_is_complete_or_not_there() {
        let meta = Meta { mode: 0o640, ..Meta::default() };
        for is_nameless in [true, false] {
            let dir = tempfile::tempdir().expect("directory");
            let open = || Arc::new(OwnedFd::from(File::open(dir.path()).expect("open")));
            let begin = || {
                let parent = open();
                if is_nameless {
                    return NewFile::begin(parent, "f", meta.mode).expect("begun");
                }
                let (file, part_name) = open_part(&parent, "f").expect("open");
                let (part_name, name) = (Some(part_name), "f".to_owned());
                NewFile { file, parent, part_name, name, len: 0, written: 0 }
            };
            let write = |bytes: &[u8]| {
                let mut file = begin();
                file.write_all(bytes).expect("written");
                file
            };
            drop(write(b"dropped"));
            assert_eq!(look(dir.path()).0, [""; 0]);
            write(b"first").finish(&meta, Existing::Keep).expect("in place");
            assert_eq!(look(dir.path()), (vec!["f".to_owned()], b"first".to_vec()));
            let kept = write(b"second").finish(&meta, Existing::Keep).expect_err("is there");
            assert_eq!(kept.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(look(dir.path()), (vec!["f".to_owned()], b"first".to_vec()));
            write(b"third").finish(&meta, Existing::Replace).expect("in place");
            assert_eq!(look(dir.path()), (vec!["f".to_owned()], b"third".to_vec()));
            std::fs::remove_file(dir.path().join("f")).expect("removed");
            std::fs::create_dir_all(dir.path().join("f/full")).expect("directories");
            let full = write(b"x").finish(&meta, Existing::Replace).expect_err("not empty");
            assert_eq!(full.kind(), io::ErrorKind::DirectoryNotEmpty);
            std::fs::remove_dir(dir.path().join("f/full")).expect("removed");
            write(b"fourth").finish(&meta, Existing::Replace).expect("in place");
            assert_eq!(look(dir.path()), (vec!["f".to_owned()], b"fourth".to_vec()));
            use std::os::unix::fs::PermissionsExt;
            let mode = dir.path().join("f").metadata().expect("stat").permissions().mode();
            assert_eq!(mode & 0o7777, 0o640);
        }
    }
}
