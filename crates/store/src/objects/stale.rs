//! Part files that dead processes have left behind.
//!
//! Whoever writes a part file holds a lock on it (`flock`), which ends with the process, however
//! that ends. A part file without a lock belongs to nobody.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, unlinkat,
};

use super::name::{is_kept_part, is_part_file};

/// Directories below the first that are looked into, one in the other.
const MAX_DEPTH: usize = 32;
/// Entries looked at in all: a server must not take for ever to start.
const MAX_ENTRIES: usize = 1_000_000;

/// Makes a part file known as somebody's; false if it was taken for stale before that.
pub(super) fn claim(file: &OwnedFd) -> bool {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => fstat(file).is_ok_and(|stat| stat.st_nlink > 0),
        Err(rustix::io::Errno::WOULDBLOCK) => false,
        // A file system without locks: then nothing in it is taken for stale either.
        Err(_) => true,
    }
}

/// Part files whose processes have died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stale<'a> {
    /// Those that nobody can take up again, and those of the object of that file name whose part
    /// file is not the one of that name: it has other bytes now.
    Useless {
        /// The object's file name, if an object is about to be received.
        file_name: Option<&'a str>,
        /// The part file that stays.
        kept: &'a str,
    },
    /// All.
    All,
}

impl Stale<'_> {
    fn is_one(&self, name: &str) -> bool {
        match self {
            Stale::All => true,
            Stale::Useless { file_name, kept } => {
                !is_kept_part(name, None)
                    || file_name.is_some_and(|of| is_kept_part(name, Some(of)) && name != *kept)
            }
        }
    }
}

/// Removes the part files in a directory whose processes have died and that nobody can take up
/// again, and if `deep`, those in the directories below it; symbolic links are not followed. Returns
/// how many. What cannot be looked at or removed stays.
///
/// # Errors
/// The directory cannot be opened.
pub fn remove_stale_parts(directory: &Path, deep: bool) -> io::Result<usize> {
    sweep(directory, deep, Stale::Useless { file_name: None, kept: "" }).map(|swept| swept.removed)
}

/// Removes part files whose processes have died, as [`remove_stale_parts`] does, also those that
/// could be taken up again, in a directory and all below it.
///
/// # Errors
/// The directory cannot be opened.
pub fn clean(directory: &Path) -> io::Result<Cleaned> {
    sweep(directory, true, Stale::All)
}

/// What was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cleaned {
    /// Part files.
    pub removed: usize,
    /// What they took on the disk \[bytes\].
    pub bytes: u64,
}

pub(super) fn sweep(directory: &Path, deep: bool, stale: Stale<'_>) -> io::Result<Cleaned> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root = rustix::fs::open(directory, flags, Mode::empty())?;
    let mut sweep = Sweep { stale, entries: 0, cleaned: Cleaned::default() };
    sweep.visit(&root, if deep { MAX_DEPTH } else { 0 });
    Ok(sweep.cleaned)
}

struct Sweep<'a> {
    stale: Stale<'a>,
    entries: usize,
    cleaned: Cleaned,
}

impl Sweep<'_> {
    fn visit(&mut self, directory: &OwnedFd, depth: usize) {
        let Ok(entries) = Dir::read_from(directory) else { return };
        for entry in entries {
            let Ok(entry) = entry else { return };
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return;
            }
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            if is_part_file(name) {
                if self.stale.is_one(name)
                    && let Some(bytes) = remove_if_stale(directory, name)
                {
                    self.cleaned.removed += 1;
                    self.cleaned.bytes += bytes;
                }
            } else if depth > 0 && matches!(entry.file_type(), FileType::Directory) {
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NOFOLLOW;
                if let Ok(inner) = openat(directory, name, flags, Mode::empty()) {
                    self.visit(&inner, depth - 1);
                }
            }
        }
    }
}

/// What it took on the disk, if it was removed \[bytes\].
fn remove_if_stale(directory: &OwnedFd, name: &str) -> Option<u64> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Ok(fd) = openat(directory.as_fd(), name, flags, Mode::empty()) else { return None };
    let file = File::from(fd);
    let meta = file.metadata().ok().filter(|meta| meta.is_file())?;
    let removed = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && unlinkat(directory, name, AtFlags::empty()).is_ok();
    removed.then_some(meta.blocks() * 512)
}
