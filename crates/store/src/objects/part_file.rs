//! An object while it is received: a hidden file beside its final place.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, seek};
use rustix::io::Errno;
use tokio::sync::watch;

use super::ObjectSink;
use super::folders::MadeFolders;
use super::hash::hash_nodes_on;
use super::memory::Memory;
use super::mode::mode_for;
use super::name::{kept_part_name, part_file_name};
use super::prefix::Prefix;
use super::root::Way;
use super::sparse::{write_over, write_sparse};
use super::stale::{self, Stale};
use super::write_back::WriteBack;
use super::{Digest, Disk, Fingerprint, Node, Reservation, StoreError, SystemDisk};
use crate::existing::Existing;
use crate::tree::Meta;

/// Names tried before giving up: each has 64 random bits.
const ATTEMPTS: usize = 8;

/// A file that an object is received into: `.NAME.wellspring-XXXX.part` beside the final name,
/// until [`commit`](PartFile::commit) has verified and synced it and gives it that name in one
/// step. Dropped before, it is removed, unless it can be [taken up](PartFile::resumed_beside).
#[derive(Debug)]
pub struct PartFile {
    disk: Arc<dyn Disk>,
    file: File,
    parent: OwnedFd,
    part_name: String,
    target: String,
    size: u64,
    digest: Digest,
    existing: Existing,
    prefix: Prefix,
    write_back: WriteBack,
    /// It has its object's name, or none.
    is_gone: AtomicBool,
    /// It stays for another process to take up if it does not get its name.
    is_kept: AtomicBool,
    /// Another receiver of the object has the part file that can be taken up.
    has_rival: bool,
    /// Another process has written to it: where nothing was written by this one may be anything.
    has_old_bytes: bool,
    /// What of them this process has verified itself.
    remembered: Option<Vec<Range<u64>>>,
    /// Whether what an earlier part file has left could not be brought onto the disk.
    left_failed: Option<Arc<AtomicBool>>,
    /// Where it is noted what is verified when it is dropped and stays.
    memory: Option<Arc<Memory>>,
    /// Room on the disk and the directories made for it, given back after the file was removed, if it is.
    room: Option<(Reservation, MadeFolders)>,
    /// What leads to its directory, if that must still be so when it gets its name.
    way: Option<Way>,
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
        PartFile::beside_on(Arc::new(SystemDisk), path, size, digest, existing)
    }

    /// [`beside`](Self::beside) on any disk.
    ///
    /// # Errors
    /// As [`beside`](Self::beside).
    pub fn beside_on(
        disk: Arc<dyn Disk>,
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
        PartFile::create(disk, parent, target, (size, digest, existing))
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
        PartFile::resumed_beside_on(Arc::new(SystemDisk), path, size, digest, existing)
    }

    /// [`resumed_beside`](Self::resumed_beside) on any disk.
    ///
    /// # Errors
    /// As [`beside`](Self::beside).
    pub fn resumed_beside_on(
        disk: Arc<dyn Disk>,
        path: &Path,
        size: u64,
        digest: Digest,
        existing: Existing,
    ) -> Result<Self, StoreError> {
        let part = PartFile::beside_on(Arc::clone(&disk), path, size, digest, existing)?;
        let kept = kept_name(&part.target, digest);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let useless = Stale::Useless { file_name: Some(&part.target), kept: &kept };
        // What cannot be looked at stays; whether it can be written to has shown.
        let _ = stale::sweep(&*disk, folder.unwrap_or(Path::new(".")), false, useless);
        part.take_up(None)
    }

    /// Takes up the part file of the same object in the same directory, or makes this one such that it can
    /// be taken up: see [`resumed_beside`](Self::resumed_beside). Nothing is removed.
    ///
    /// What is verified of it is noted in `memory`, if one is given, when the part file is dropped and stays.
    pub(super) fn take_up(mut self, memory: Option<Arc<Memory>>) -> Result<Self, StoreError> {
        self.memory = memory;
        let mut part = self.of_verified();
        let kept = kept_name(&part.target, part.digest);
        let Ok(file) = part.disk.create(&part.parent, &kept, false) else { return Ok(part) };
        let stat = rustix::fs::fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        // Somebody else's, or another name of some file: not to be written into.
        let is_ours = stat.st_uid == rustix::fs::fstat(&part.file)?.st_uid && stat.st_nlink == 1;
        let is_free = || stale::claim_left(&*part.disk, &part.parent, &kept, &file);
        if !is_file || !is_ours || !is_free() {
            part.has_rival = true;
            return Ok(part);
        }
        let remembered = part.memory.as_ref().and_then(|memory| memory.recall(&file));
        if remembered.is_none() {
            // Its process may have been killed between a sync that failed and the end of the file.
            part.disk.drop_cache(&file)?;
        }
        // Some file systems count no blocks, or none of what they keep in the inode.
        let has_data = !matches!(seek(&file, SeekFrom::Data(0)), Err(Errno::NXIO));
        part.has_old_bytes = has_data && rustix::fs::fstat(&file)?.st_size > 0;
        part.disk.set_mode(&file, 0o600)?;
        part.disk.remove(&part.parent, &part.part_name)?;
        (part.file, part.part_name) = (file, kept);
        *part.is_kept.get_mut() = true;
        part.disk.set_len(&part.file, part.size)?;
        if let Some((ranges, failed)) = remembered.filter(|_| part.has_old_bytes) {
            (part.remembered, part.left_failed) = (Some(ranges), Some(failed));
        }
        for range in part.remembered.iter().flatten() {
            part.prefix.note(range.start, range.end);
        }
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

    /// Room that is held for it on the disk, beside what it took up there \[bytes\].
    pub fn reserved(&self) -> u64 {
        self.room.as_ref().map_or(0, |(room, _)| room.bytes())
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

    /// Nodes of the object's BLAKE3 tree, of the bytes in the file: see [`super::hash_nodes`].
    ///
    /// # Errors
    /// The system's.
    pub fn hash_nodes(&self, range: Range<u64>, len: u64) -> io::Result<Vec<Node>> {
        hash_nodes_on(&*self.disk, &self.file, range, len)
    }

    /// Reads bytes of the file.
    ///
    /// # Errors
    /// The system's.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.disk.read_at(&self.file, buffer, offset)
    }

    /// Takes note of bytes that are in the file already, and verified.
    pub fn note(&self, range: Range<u64>) {
        self.prefix.note(range.start, range.end);
    }

    /// Counts bytes that are in the file already as there before they are verified. The file gets no name before all of
    /// them are [noted](Self::note), or [refuted](Self::refute) and written again.
    pub fn presume(&self, range: Range<u64>) {
        self.prefix.presume(range.start, range.end);
    }

    /// Takes back that bytes are there: they are not those of the object.
    pub fn refute(&self, range: Range<u64>) {
        self.prefix.refute(range.start, range.end);
    }

    /// The bytes that an earlier part file of the same [store](super::Store) has left here, verified when they came, if
    /// nobody has written to the file since; ascending. They count as there.
    pub fn remembered(&self) -> Option<&[Range<u64>]> {
        self.remembered.as_deref()
    }

    /// Writes bytes that count only once they are [noted](Self::note): they may be wrong, and be written over.
    ///
    /// # Errors
    /// The system's; a block beyond the object's end.
    pub fn write_unverified(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        write_over(&*self.disk, &self.file, self.size, offset, block)?;
        self.bring_onto_disk(block.len() as u64)
    }

    /// So many bytes were written more.
    fn bring_onto_disk(&self, bytes: u64) -> io::Result<()> {
        self.write_back.wrote(&self.file, bytes);
        if self.write_back.has_failed() {
            self.distrust();
            return Err(not_on_disk());
        }
        Ok(())
    }

    /// Holds room on the disk, and the directories that were made for it, as long as it is there.
    pub(super) fn in_room(mut self, reservation: Reservation, folders: MadeFolders) -> Self {
        self.room = Some((reservation, folders));
        self
    }

    /// Gets its name only while that leads to its directory.
    pub(super) fn on_way(mut self, way: Way) -> Self {
        self.way = Some(way);
        self
    }

    /// Whether the name that it is to get leads to its directory: another one may have taken that place.
    ///
    /// # Errors
    /// [`StoreError::Replaced`]; the system's.
    pub fn check_place(&self) -> Result<(), StoreError> {
        self.way.as_ref().map_or(Ok(()), |way| way.check(&self.parent))
    }

    pub(super) fn create(
        disk: Arc<dyn Disk>,
        parent: OwnedFd,
        target: &str,
        (size, digest, existing): (u64, Digest, Existing),
    ) -> Result<Self, StoreError> {
        for _ in 0..ATTEMPTS {
            let part_name = part_file_name(target, disk.random()?);
            // Not readable by others until it is verified and has its name.
            match disk.create(&parent, &part_name, true) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
                // Taken for stale in the moment before it was ours.
                Ok(file) if !stale::claim(&*disk, &file) => {}
                Ok(file) => {
                    let part = PartFile {
                        disk,
                        file,
                        parent,
                        part_name,
                        target: target.to_owned(),
                        size,
                        digest,
                        existing,
                        prefix: Prefix::new(),
                        write_back: WriteBack::default(),
                        is_gone: AtomicBool::new(false),
                        is_kept: AtomicBool::new(false),
                        has_rival: false,
                        has_old_bytes: false,
                        remembered: None,
                        left_failed: None,
                        memory: None,
                        room: None,
                        way: None,
                    };
                    // Holes until written: what is sparse at the sender stays so here.
                    part.disk.set_len(&part.file, size)?;
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
    /// state from a later one. A regular file that it replaces leaves it its permissions; else it gets those of a new file.
    ///
    /// # Errors
    /// [`StoreError::BadDigest`], [`StoreError::Exists`] (another writer was faster), [`StoreError::Replaced`], or the
    /// system's. The part file is removed on drop, unless it can be taken up.
    pub fn commit(&self) -> Result<Option<Fingerprint>, StoreError> {
        let stamp = || {
            let stamped = self.stamp();
            let replaces = self.existing == Existing::Replace;
            self.disk.set_mode(&self.file, mode_for(&self.parent, &self.target, replaces))?;
            Ok(stamped)
        };
        let (fingerprint, stamped) = self.commit_with(stamp)?;
        Ok(fingerprint.filter(|f| stamped.is_some_and(|time| f.was_modified_at(time))))
    }

    /// The same for a file of a tree, with all that it is to have besides its bytes. It never has its name without that:
    /// whoever goes on after a process was killed knows it by its time, and later the name may lead to another's file.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_as(&self, meta: &Meta) -> Result<(), StoreError> {
        let modified = meta.modified.to_system();
        let modified = modified.ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        let set = || {
            meta.give_attributes(self.file.as_fd())?;
            self.disk.set_mode(&self.file, meta.mode.into())?;
            self.disk.set_modified(&self.file, modified)
        };
        self.commit_with(set).map(|_| ())
    }

    /// Commits after `set` has set what else is to be on the disk when it has its name.
    fn commit_with<T>(
        &self,
        set: impl FnOnce() -> io::Result<T>,
    ) -> Result<(Option<Fingerprint>, T), StoreError> {
        if let Some(got) = self.prefix.digest(&*self.disk, &self.file, self.size)?
            && got != self.digest
        {
            return Err(StoreError::BadDigest { expected: self.digest, got });
        }
        let set = set()?;
        let synced = self.write_back.finish().and_then(|()| self.disk.sync(&self.file));
        synced.and_then(|()| self.check_left()).inspect_err(|_| self.distrust())?;
        self.check_place()?;
        self.take_name()?;
        self.is_gone.store(true, Ordering::Release);
        if self.has_rival {
            // If it has given up meanwhile, nobody takes that up: the object is here.
            stale::remove_left(&*self.disk, &self.parent, &kept_name(&self.target, self.digest));
        }
        let fingerprint = Fingerprint::of(&self.file).ok();
        self.disk.sync_directory(&self.parent).map_err(StoreError::Unsynced)?;
        // That may have been so for the last time.
        self.check_place()?;
        Ok((fingerprint, set))
    }

    /// Whether what an earlier part file has left is on the disk, now that it has been synced: the system may have told
    /// of a failure that one alone.
    fn check_left(&self) -> io::Result<()> {
        match &self.left_failed {
            Some(failed) if failed.load(Ordering::Acquire) => Err(not_on_disk()),
            _ => Ok(()),
        }
    }

    /// A sync has failed. The system may read bytes back that are not on the disk and say of a later sync that it
    /// went well, so what is there is of no use to anybody, however right it looks.
    fn distrust(&self) {
        self.discard();
        // At once: the process may be killed before the file is dropped, which tries it again.
        if self.disk.remove(&self.parent, &self.part_name).is_ok() {
            self.is_gone.store(true, Ordering::Release);
        }
    }

    /// Sets the time of the last change to this very nanosecond. The kernel's own stamps move in
    /// ticks of milliseconds: a write in the same tick, or a new file that is given the same inode
    /// within it, would otherwise look like this file.
    fn stamp(&self) -> Option<SystemTime> {
        let now = SystemTime::now();
        self.disk.set_modified(&self.file, now).ok().map(|()| now)
    }

    fn take_name(&self) -> Result<(), StoreError> {
        let (target, replace) = (&self.target, self.existing == Existing::Replace);
        self.disk.rename(&self.parent, &self.part_name, target, replace).map_err(
            |error| match error.kind() {
                io::ErrorKind::AlreadyExists => StoreError::Exists(target.clone()),
                _ => error.into(),
            },
        )
    }
}

impl ObjectSink for PartFile {
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        if self.has_old_bytes {
            write_over(&*self.disk, &self.file, self.size, offset, block)?;
        } else {
            write_sparse(&*self.disk, &self.file, self.size, offset, block)?;
        }
        self.bring_onto_disk(block.len() as u64)?;
        self.prefix.wrote(&*self.disk, &self.file, offset, block)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if *self.is_gone.get_mut() {
            return;
        }
        // One without a byte is of no use to anybody.
        let has_bytes = self.has_old_bytes || self.prefix.furthest() > 0;
        if *self.is_kept.get_mut() && has_bytes {
            if let (Some(memory), Some(stamp), Ok(())) =
                (&self.memory, self.stamp(), self.check_left())
            {
                memory.keep(&self.file, stamp, self.prefix.verified(), self.write_back.failure());
                self.write_back.sync_rest(&self.file);
            }
            // A last sync may still have the file open, and whoever takes it up need not wait for that. Where this
            // fails the lock goes with the sync.
            let _ = self.disk.unlock(&self.file);
        } else {
            // Gone already, or a disk in trouble: there is no caller left to return an error to.
            let _ = self.disk.remove(&self.parent, &self.part_name);
        }
    }
}

/// The name of the part file that can be taken up.
fn kept_name(target: &str, digest: Digest) -> String {
    let mut tag = [0; 16];
    tag.copy_from_slice(&digest.0[..16]);
    kept_part_name(target, tag)
}

fn not_on_disk() -> io::Error {
    io::Error::other("what was written could not be brought onto the disk")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_file_that_is_left_can_be_taken_up_while_its_last_sync_is_under_way() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (path, digest) = (dir.path().join("x"), Digest([7; 32]));
        let resume = || PartFile::resumed_beside(&path, 5, digest, Existing::Keep).expect("made");
        let part = resume();
        part.write_block(0, b"hel").expect("written");
        let syncing = part.file.try_clone().expect("another handle");
        drop(part);
        assert!(resume().has_old_bytes());
        drop(syncing);
    }

    #[test]
    fn what_is_remembered_is_no_object_if_it_did_not_get_onto_the_disk() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (path, memory) = (dir.path().join("x"), Arc::new(Memory::default()));
        let digest = Digest(*blake3::hash(b"hello").as_bytes());
        let part = || {
            let part = PartFile::beside(&path, 5, digest, Existing::Keep).expect("made");
            part.take_up(Some(Arc::clone(&memory))).expect("taken up")
        };
        let first = part();
        first.write_block(0, b"hel").expect("written");
        let failed = first.write_back.failure();
        drop(first);
        let second = part();
        assert_eq!(second.remembered().map(|there| there[0].clone()), Some(0..3));
        second.write_block(3, b"lo").expect("written");
        // Its last sync ends only now.
        failed.store(true, Ordering::Release);
        assert!(second.commit().is_err());
        drop(second);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
        let third = part();
        assert!(!third.has_old_bytes());
        third.write_block(0, b"hello").expect("written");
        third.commit().expect("in place");
    }
}
