//! Part files that dead processes have left behind.
//!
//! Whoever writes a part file holds a lock on it (`flock`), which ends with the process, however
//! that ends. A part file without a lock belongs to nobody.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, unlinkat,
};

use super::name::is_part_file;

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

/// Removes the part files in a directory whose processes have died, and if `deep`, those in the
/// directories below it; symbolic links are not followed. Returns how many. What cannot be looked
/// at or removed stays.
///
/// # Errors
/// The directory cannot be opened.
pub fn remove_stale_parts(directory: &Path, deep: bool) -> io::Result<usize> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root = rustix::fs::open(directory, flags, Mode::empty())?;
    let mut sweep = Sweep { entries: 0, removed: 0 };
    sweep.visit(&root, if deep { MAX_DEPTH } else { 0 });
    Ok(sweep.removed)
}

struct Sweep {
    entries: usize,
    removed: usize,
}

impl Sweep {
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
                self.removed += usize::from(remove_if_stale(directory, name));
            } else if depth > 0 && matches!(entry.file_type(), FileType::Directory) {
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NOFOLLOW;
                if let Ok(inner) = openat(directory, name, flags, Mode::empty()) {
                    self.visit(&inner, depth - 1);
                }
            }
        }
    }
}

fn remove_if_stale(directory: &OwnedFd, name: &str) -> bool {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Ok(fd) = openat(directory.as_fd(), name, flags, Mode::empty()) else { return false };
    let file = File::from(fd);
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    is_file
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && unlinkat(directory, name, AtFlags::empty()).is_ok()
}
