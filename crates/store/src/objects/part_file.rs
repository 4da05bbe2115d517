//! An object while it is received: a hidden file beside its final place.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use tokio::sync::watch;

use super::ObjectSink;
use super::name::part_file_name;
use super::prefix::Prefix;
use super::stale;
use super::write_back::WriteBack;
use super::{Digest, Fingerprint, Reservation, StoreError};
use crate::existing::Existing;

/// Names tried before giving up: each has 64 random bits.
const ATTEMPTS: usize = 8;

/// A file that an object is received into: `.NAME.wellspring-XXXX.part` beside the final name,
/// until [`commit`](PartFile::commit) has verified and synced it and gives it that name in one
/// step. Dropped before, it is removed.
#[derive(Debug)]
pub struct PartFile {
    file: File,
    parent: OwnedFd,
    part_name: String,
    target: String,
    size: u64,
    digest: Digest,
    existing: Existing,
    prefix: Prefix,
    write_back: WriteBack,
    in_place: AtomicBool,
    _reservation: Option<Reservation>,
}

impl PartFile {
    /// Makes a part file beside `path`. Links on the way to `path` are the caller's own choice.
    ///
    /// # Errors
    /// Something of that name exists (unless `existing` allows to replace it), or the system's
    /// error.
    pub fn beside(
        path: &Path,
        size: u64,
        digest: Digest,
        existing: Existing,
    ) -> Result<Self, StoreError> {
        let shown = path.display().to_string();
        let target = path.file_name().and_then(|name| name.to_str());
        let target = target.ok_or_else(|| StoreError::NotFound(shown.clone()))?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let parent =
            rustix::fs::open(parent, flags, Mode::empty()).map_err(|errno| match errno {
                Errno::NOENT | Errno::NOTDIR => StoreError::NoParent(parent.display().to_string()),
                errno => errno.into(),
            })?;
        match rustix::fs::statat(&parent, target, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) if existing == Existing::Keep => return Err(StoreError::Exists(shown)),
            Ok(_) => {}
        }
        PartFile::create(parent, target, size, digest, existing, None)
    }

    pub(super) fn create(
        parent: OwnedFd,
        target: &str,
        size: u64,
        digest: Digest,
        existing: Existing,
        reservation: Option<Reservation>,
    ) -> Result<Self, StoreError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS {
            let part_name = part_file_name(target, random_number()?);
            // Not readable by others until it is verified and has its name.
            match openat(&parent, &part_name, flags, Mode::from_raw_mode(0o600)) {
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
                // Taken for stale in the moment before it was ours.
                Ok(fd) if !stale::claim(&fd) => {}
                Ok(fd) => {
                    let part = PartFile {
                        file: File::from(fd),
                        parent,
                        part_name,
                        target: target.to_owned(),
                        size,
                        digest,
                        existing,
                        prefix: Prefix::new(),
                        write_back: WriteBack::default(),
                        in_place: AtomicBool::new(false),
                        _reservation: reservation,
                    };
                    // Holes until written: what is sparse at the sender stays so here.
                    part.file.set_len(size)?;
                    return Ok(part);
                }
            }
        }
        Err(Errno::EXIST.into())
    }

    /// The same for blocks that are verified before they are written: it hashes nothing.
    #[must_use]
    pub fn of_verified(mut self) -> Self {
        self.prefix = Prefix::of_verified();
        self
    }

    /// The object's length \[bytes\].
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes there without a gap from the beginning on \[bytes\]; watch it to follow.
    pub fn contiguous(&self) -> watch::Receiver<u64> {
        self.prefix.watch()
    }

    /// The end of the last block there \[bytes\].
    pub fn furthest(&self) -> u64 {
        self.prefix.furthest()
    }

    /// Verifies the whole object, syncs it to the disk and gives it its name. Blocks the thread.
    /// Returns the state of the file that was written, by which its digest may be kept: whatever
    /// has the name by now, this file has those bytes. `None` where file times cannot tell its
    /// state from a later one.
    ///
    /// # Errors
    /// [`StoreError::BadDigest`], [`StoreError::Exists`] (another writer was faster), or the system's.
    /// The part file is removed on drop.
    pub fn commit(&self) -> Result<Option<Fingerprint>, StoreError> {
        if let Some(got) = self.prefix.digest(&self.file, self.size)?
            && got != self.digest
        {
            return Err(StoreError::BadDigest { expected: self.digest, got });
        }
        self.write_back.finish()?;
        let stamped = self.stamp();
        rustix::fs::fchmod(&self.file, usual_mode())?;
        self.file.sync_all()?;
        self.take_name()?;
        self.in_place.store(true, Ordering::Release);
        let fingerprint = Fingerprint::of(&self.file).ok();
        match rustix::fs::fsync(&self.parent) {
            // Some file systems cannot sync a directory: the data are synced, the name follows.
            Err(Errno::INVAL | Errno::NOTSUP | Errno::ROFS) | Ok(()) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(fingerprint.filter(|f| stamped.is_some_and(|time| f.was_modified_at(time))))
    }

    /// Sets the time of the last change to this very nanosecond. The kernel's own stamps move in
    /// ticks of milliseconds: a write in the same tick, or a new file that is given the same inode
    /// within it, would otherwise look like this file.
    fn stamp(&self) -> Option<SystemTime> {
        let now = SystemTime::now();
        self.file.set_modified(now).ok().map(|()| now)
    }

    fn take_name(&self) -> Result<(), StoreError> {
        let (parent, part, target) = (&self.parent, &self.part_name, &self.target);
        if self.existing == Existing::Replace {
            return Ok(renameat(parent, part, parent, target)?);
        }
        let renamed = renameat_with(parent, part, parent, target, RenameFlags::NOREPLACE);
        let taken = match renamed {
            // The file system cannot; a hard link fails on an existing name just as well.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(parent, part, parent, target, AtFlags::empty())
                    .and_then(|()| unlinkat(parent, part, AtFlags::empty()))
            }
            other => other,
        };
        taken.map_err(|errno| match errno {
            Errno::EXIST => StoreError::Exists(target.clone()),
            errno => errno.into(),
        })
    }
}

impl ObjectSink for PartFile {
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        write_sparse(&self.file, self.size, offset, block)?;
        self.write_back.wrote(&self.file, block.len() as u64);
        self.prefix.wrote(&self.file, offset, block)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !*self.in_place.get_mut() {
            // Gone already, or a disk in trouble: there is no caller left to return an error to.
            let _ = unlinkat(&self.parent, &self.part_name, AtFlags::empty());
        }
    }
}

/// A number that nobody can guess.
fn random_number() -> io::Result<u64> {
    getrandom::u64().map_err(io::Error::from)
}

/// The mode that a new file of this process gets: read and write for all, less the umask.
fn usual_mode() -> Mode {
    // Asking the system by setting it would race with other threads.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    // Where it cannot be known, nobody else may.
    Mode::from_raw_mode(0o666 & !umask.unwrap_or(0o077))
}

/// Writes a block of a file that is all holes where it was not written; zeros need no writing.
pub(super) fn write_sparse(file: &File, size: u64, offset: u64, block: &[u8]) -> io::Result<()> {
    let end = offset.checked_add(block.len() as u64);
    if end.is_none_or(|end| end > size) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "block beyond the object's end"));
    }
    // Ends at the first byte that is not zero: costs nothing on ordinary data.
    if block.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    file.write_all_at(block, offset)
}
