//! An object while it is received: a hidden file beside its final place.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, openat, renameat, renameat_with, seek,
    unlinkat,
};
use rustix::io::Errno;
use tokio::sync::watch;

use super::ObjectSink;
use super::name::{kept_part_name, part_file_name};
use super::prefix::Prefix;
use super::stale::{self, Stale};
use super::write_back::WriteBack;
use super::{Digest, Fingerprint, Node, Reservation, StoreError, hash_nodes};
use crate::existing::Existing;

/// Names tried before giving up: each has 64 random bits.
const ATTEMPTS: usize = 8;

/// A file that an object is received into: `.NAME.wellspring-XXXX.part` beside the final name,
/// until [`commit`](PartFile::commit) has verified and synced it and gives it that name in one
/// step. Dropped before, it is removed, unless it can be [taken up](PartFile::resumed_beside).
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
    /// It stays for another process to take up if it does not get its name.
    is_kept: AtomicBool,
    /// Another process has written to it: where nothing was written by this one may be anything.
    has_old_bytes: bool,
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

    /// Takes up the part file beside `path` of an object of that digest, or makes one that can be
    /// taken up: it stays if it is dropped before it has its name. Nothing in it is believed:
    /// what [`data_ranges`](Self::data_ranges) returns is to be verified, and then
    /// [noted](Self::note). If another process has it, this one gets a part file of its own that does
    /// not stay. Part files of the same name that hold other bytes are removed.
    ///
    /// # Errors
    /// As [`beside`](Self::beside).
    pub fn resumed_beside(
        path: &Path,
        size: u64,
        digest: Digest,
        existing: Existing,
    ) -> Result<Self, StoreError> {
        let part = PartFile::beside(path, size, digest, existing)?;
        let kept = kept_name(&part.target, digest);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let useless = Stale::Useless { file_name: Some(&part.target), kept: &kept };
        // What cannot be looked at stays; whether it can be written to has shown.
        let _ = stale::sweep(folder.unwrap_or(Path::new(".")), false, useless);
        part.take_up()
    }

    /// Takes up the part file of the same object in the same directory, or makes this one such that it can
    /// be taken up: see [`resumed_beside`](Self::resumed_beside). Nothing is removed.
    pub(super) fn take_up(self) -> Result<Self, StoreError> {
        let mut part = self.of_verified();
        let kept = kept_name(&part.target, part.digest);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = flags | OFlags::NONBLOCK;
        let Ok(fd) = openat(&part.parent, &kept, flags, Mode::from_raw_mode(0o600)) else {
            return Ok(part);
        };
        let stat = rustix::fs::fstat(&fd)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        // Somebody else's, or another name of some file: not to be written into.
        let is_ours = stat.st_uid == rustix::fs::fstat(&part.file)?.st_uid && stat.st_nlink == 1;
        if !is_file || !is_ours || !stale::claim(&fd) {
            return Ok(part);
        }
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o600))?;
        unlinkat(&part.parent, &part.part_name, AtFlags::empty())?;
        (part.file, part.part_name) = (File::from(fd), kept);
        *part.is_kept.get_mut() = true;
        part.file.set_len(part.size)?;
        part.has_old_bytes = stat.st_blocks > 0;
        Ok(part)
    }

    /// What the part file takes on the disk that could be taken up \[bytes\].
    pub(super) fn left_in(parent: &OwnedFd, target: &str, digest: Digest) -> u64 {
        let kept = kept_name(target, digest);
        let stat = rustix::fs::statat(parent, kept, AtFlags::SYMLINK_NOFOLLOW);
        stat.map_or(0, |stat| u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512))
    }

    /// Whether an earlier life of it may have left bytes of the object.
    pub fn has_old_bytes(&self) -> bool {
        self.has_old_bytes
    }

    /// Has the file removed when it is dropped, though it could be taken up: nobody will.
    pub fn discard(&self) {
        self.is_kept.store(false, Ordering::Release);
    }

    /// Where the file may have bytes of the object, ascending: where its file system has data.
    ///
    /// # Errors
    /// The system's.
    pub fn data_ranges(&self) -> io::Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        let mut at = 0;
        while at < self.size {
            let start = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(start) => start,
                Err(Errno::NXIO) => break, // nothing but a hole
                // A file system without this information.
                Err(Errno::INVAL | Errno::NOTSUP) => {
                    ranges.push(at..self.size);
                    break;
                }
                Err(errno) => return Err(errno.into()),
            };
            let end = seek(&self.file, SeekFrom::Hole(start))?.min(self.size);
            if start >= end {
                break;
            }
            ranges.push(start..end);
            at = end;
        }
        Ok(ranges)
    }

    /// Nodes of the object's BLAKE3 tree, of the bytes in the file: see [`hash_nodes`].
    ///
    /// # Errors
    /// The system's.
    pub fn hash_nodes(&self, range: Range<u64>, len: u64) -> io::Result<Vec<Node>> {
        hash_nodes(&self.file, range, len)
    }

    /// Reads bytes of the file.
    ///
    /// # Errors
    /// The system's.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Takes note of bytes that are in the file already, and verified.
    pub fn note(&self, range: Range<u64>) {
        self.prefix.note(range.start, range.end);
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
                        is_kept: AtomicBool::new(false),
                        has_old_bytes: false,
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
    /// has the name by now, this file has those bytes. `None` where file times cannot show its
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
        if self.has_old_bytes {
            write_over(&self.file, self.size, offset, block)?;
        } else {
            write_sparse(&self.file, self.size, offset, block)?;
        }
        self.write_back.wrote(&self.file, block.len() as u64);
        self.prefix.wrote(&self.file, offset, block)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        // One without a byte is of no use to anybody.
        let stays = *self.is_kept.get_mut() && self.prefix.furthest() > 0;
        if !*self.in_place.get_mut() && !stays {
            // Gone already, or a disk in trouble: there is no caller left to return an error to.
            let _ = unlinkat(&self.parent, &self.part_name, AtFlags::empty());
        }
    }
}

/// The name of the part file that can be taken up.
fn kept_name(target: &str, digest: Digest) -> String {
    let mut tag = [0; 16];
    tag.copy_from_slice(&digest.0[..16]);
    kept_part_name(target, tag)
}

/// A number that nobody can guess.
pub(crate) fn random_number() -> io::Result<u64> {
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

/// Writes a block of a file that may have anything there; zeros become a hole where that is possible.
fn write_over(file: &File, size: u64, offset: u64, block: &[u8]) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if offset.checked_add(block.len() as u64).is_some_and(|end| end <= size)
        && block.iter().all(|byte| *byte == 0)
    {
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(file, flags, offset, block.len() as u64).is_ok() {
            return Ok(());
        }
    }
    let end = offset.checked_add(block.len() as u64);
    if end.is_none_or(|end| end > size) {
        return Err(beyond_the_end());
    }
    file.write_all_at(block, offset)
}

fn beyond_the_end() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "block beyond the object's end")
}

/// Writes a block of a file that is all holes where it was not written; zeros need no writing.
pub(super) fn write_sparse(file: &File, size: u64, offset: u64, block: &[u8]) -> io::Result<()> {
    let end = offset.checked_add(block.len() as u64);
    if end.is_none_or(|end| end > size) {
        return Err(beyond_the_end());
    }
    // Ends at the first byte that is not zero: costs nothing on ordinary data.
    if block.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    file.write_all_at(block, offset)
}
