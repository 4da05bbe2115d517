//! System calls by which received objects get onto a disk.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RawMode, RenameFlags, fchmod, flock, fstatvfs,
    fsync, linkat, mkdirat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

/// Calls on files and directories while objects are received. Their order decides what is lost when a
/// disk, a process or the power fails; a simulation puts calls in their place that fail.
///
/// The provided methods are the system's calls. Each returns the system's error.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Makes a file that its owner alone may read and write, or, unless `exclusive`, opens the one of
    /// that name. No symbolic link is followed.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, directory: &OwnedFd, name: &str, exclusive: bool) -> io::Result<File> {
        // A pipe must not make the call wait.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
        let mut flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        flags.set(OFlags::EXCL, exclusive);
        Ok(File::from(openat(directory, name, flags, Mode::from_raw_mode(0o600))?))
    }

    /// Takes the lock of a file, without waiting for it.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::WouldBlock`] if somebody else has it; the system's.
    fn lock(&self, file: &File) -> io::Result<()> {
        Ok(flock(file, FlockOperation::NonBlockingLockExclusive)?)
    }

    /// Gives the lock of a file back, however many handles of the opened file there are.
    ///
    /// # Errors
    /// The system's.
    fn unlock(&self, file: &File) -> io::Result<()> {
        Ok(flock(file, FlockOperation::Unlock)?)
    }

    /// Sets the length of a file \[bytes\].
    ///
    /// # Errors
    /// The system's.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// Sets the permissions of a file.
    ///
    /// # Errors
    /// The system's.
    fn set_mode(&self, file: &File, mode: u32) -> io::Result<()> {
        Ok(fchmod(file, Mode::from_raw_mode(mode as RawMode))?)
    }

    /// Sets the time of a file's last modification.
    ///
    /// # Errors
    /// The system's.
    fn set_modified(&self, file: &File, time: SystemTime) -> io::Result<()> {
        file.set_modified(time)
    }

    /// Fills `buffer` with the bytes of a file from `offset` on.
    ///
    /// # Errors
    /// The file ends before, or the system's.
    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        file.read_exact_at(buffer, offset)
    }

    /// Writes bytes into a file from `offset` on.
    ///
    /// # Errors
    /// The system's; any part of the bytes may be written then.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// Makes a hole, which reads as zeros, and leaves the length of the file.
    ///
    /// # Errors
    /// The file system cannot, or the system's.
    fn punch_hole(&self, file: &File, range: Range<u64>) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(fallocate(file, flags, range.start, range.end - range.start)?)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (file, range);
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Brings what was written to a file onto the disk. After an error nobody knows what is there, and a
    /// later call may succeed all the same.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    /// Has the bytes of a file read from the disk from now on, unless they are still to be written: a sync that
    /// failed leaves bytes in the system's memory that the disk has not, and that no later sync brings there.
    /// Nothing is done where the system has no such call, and what another process maps stays.
    ///
    /// # Errors
    /// The system's.
    fn drop_cache(&self, file: &File) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
        #[cfg(not(target_os = "linux"))]
        let _ = file;
        Ok(())
    }

    /// Brings the names in a directory onto the disk.
    ///
    /// # Errors
    /// The system's.
    fn sync_directory(&self, directory: &OwnedFd) -> io::Result<()> {
        match fsync(directory) {
            // Some file systems cannot sync a directory: the data are synced, the name follows.
            Err(Errno::INVAL | Errno::NOTSUP | Errno::ROFS) | Ok(()) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives a file another name in its directory, in one step.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::AlreadyExists`] if something has that name and is not to be replaced;
    /// the system's.
    fn rename(&self, directory: &OwnedFd, from: &str, to: &str, replace: bool) -> io::Result<()> {
        if replace {
            return Ok(renameat(directory, from, directory, to)?);
        }
        match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            // The file system cannot; a hard link fails on an existing name just as well.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                match linkat(directory, from, directory, to, AtFlags::empty()) {
                    // exFAT and buckets that are mounted have no hard links either.
                    Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP) => {
                        Ok(rename_to_new(directory, from, to)?)
                    }
                    linked => {
                        Ok(linked.and_then(|()| unlinkat(directory, from, AtFlags::empty()))?)
                    }
                }
            }
            renamed => Ok(renamed?),
        }
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, directory: &OwnedFd, name: &str) -> io::Result<()> {
        Ok(unlinkat(directory, name, AtFlags::empty())?)
    }

    /// Makes a directory, with the permissions that the process's umask leaves.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::AlreadyExists`] if something has that name; the system's.
    fn make_directory(&self, directory: &OwnedFd, name: &str) -> io::Result<()> {
        Ok(mkdirat(directory, name, Mode::from_raw_mode(0o777))?)
    }

    /// Removes a directory that is empty.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::DirectoryNotEmpty`]; the system's.
    fn remove_directory(&self, directory: &OwnedFd, name: &str) -> io::Result<()> {
        Ok(unlinkat(directory, name, AtFlags::REMOVEDIR)?)
    }

    /// Bytes that can be written to the disk of a directory.
    ///
    /// # Errors
    /// The system's.
    fn free(&self, directory: &OwnedFd) -> io::Result<u64> {
        let disk = fstatvfs(directory)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Files that can be made on the disk of a directory, and files that it can have in all; `None` where it has no such limit.
    ///
    /// # Errors
    /// The system's.
    fn free_files(&self, directory: &OwnedFd) -> io::Result<Option<(u64, u64)>> {
        let disk = fstatvfs(directory)?;
        Ok((disk.f_files > 0).then_some((disk.f_favail, disk.f_files)))
    }

    /// A number that nobody can guess.
    ///
    /// # Errors
    /// The system's.
    fn random(&self) -> io::Result<u64> {
        getrandom::u64().map_err(io::Error::from)
    }
}

/// The system's calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {}

/// Gives a file a name that nothing has: an empty file takes it first, which others who do so find there. A power cut in
/// between leaves that.
fn rename_to_new(directory: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, to, flags, Mode::from_raw_mode(0o600))?;
    rename_over_empty(directory, from, to)
}

/// Gives a file the name of an empty one, which goes with any error: others may have written under that name since.
fn rename_over_empty(directory: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    // The inode would tell more, but need not be the same twice where buckets are mounted.
    let is_empty = || {
        let found = statat(directory, to, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(found.st_mode).is_file() && found.st_size == 0)
    };
    if !is_empty()? {
        return Err(Errno::EXIST);
    }
    renameat(directory, from, directory, to).inspect_err(|_| {
        // The error that matters is the first.
        if is_empty() == Ok(true) {
            let _ = unlinkat(directory, to, AtFlags::empty());
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_only_from_nothing_where_there_are_no_hard_links() {
        let home = tempfile::tempdir().expect("a directory");
        let at = |name: &str| home.path().join(name);
        let directory = OwnedFd::from(File::open(home.path()).expect("open"));
        std::fs::write(at("part"), "new").expect("written");
        std::fs::write(at("there"), "old").expect("written");
        assert_eq!(rename_to_new(&directory, "part", "there"), Err(Errno::EXIST));
        assert_eq!(std::fs::read(at("there")).expect("read"), b"old");
        rename_to_new(&directory, "part", "name").expect("renamed");
        assert_eq!(std::fs::read(at("name")).expect("read"), b"new");
        assert_eq!(rename_to_new(&directory, "part", "other"), Err(Errno::NOENT));
        assert!(!at("part").exists() && !at("other").exists());
        // Written between the two steps.
        std::fs::write(at("part"), "new").expect("written");
        assert_eq!(rename_over_empty(&directory, "part", "there"), Err(Errno::EXIST));
        assert_eq!(std::fs::read(at("there")).expect("read"), b"old");
    }
}
