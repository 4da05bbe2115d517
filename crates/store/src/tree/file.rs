//! Opened files of a tree, and what a listing says of them.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{FileType, OFlags, Stat, Timespec, Timestamps, fstat};
use wellspring_tree::Modified;

// A pipe must not make the open wait for a writer, nor a terminal become ours.
pub(super) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW);

/// What becomes of links that lead out of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinksOut {
    /// They are no part of it.
    Skipped,
    /// The files that they lead to are, under their names; other things are not. Whoever made the links decides what is
    /// read.
    Copied,
}

/// How the files of a tree are opened.
pub(super) fn reading(links_out: LinksOut) -> OFlags {
    match links_out {
        LinksOut::Skipped => READ,
        LinksOut::Copied => READ.difference(OFlags::NOFOLLOW),
    }
}

/// Files shorter than this are moved in packs; longer ones one by one, and each is synced before it has its name
/// \[bytes\].
pub(super) const PACKED: u64 = 1 << 20;

/// The time of a file's last modification.
pub(super) fn modified(stat: &Stat) -> Modified {
    Modified { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 }
}

/// The steps in which the file system of a directory keeps times, at most \[ns\]: a second for Lustre and small inodes of
/// ext4, 100 ns for SMB, and otherwise as a rule 1. They are told by the time of the directory's last change, which nobody can set.
pub(super) fn time_step(directory: &OwnedFd) -> u32 {
    let nanos = fstat(directory).map_or(1, |stat| stat.st_ctime_nsec as u32);
    let steps = [1_000_000_000, 1_000_000, 1_000, 100];
    steps.into_iter().find(|step| nanos.is_multiple_of(*step)).unwrap_or(1)
}

/// The state of an open file, as a listing has it.
pub(super) fn state(file: &impl AsFd) -> io::Result<(u64, Modified)> {
    let stat = fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("is no regular file any more"));
    }
    Ok((stat.st_size as u64, modified(&stat)))
}

/// That time, for last access and modification.
pub(super) fn times_of(modified: Modified) -> Timestamps {
    let time = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// Where the open files of this process are.
#[cfg(target_os = "linux")]
pub(super) const OWN_FILES: &str = "/proc/self/fd";

/// A path to a directory that is open, good as long as that is: for code that takes files by their paths. Where the
/// system has the open files of processes as files it leads to this directory whatever becomes of its name; on macOS it is
/// the directory's present one.
///
/// # Errors
/// The system's; [`io::ErrorKind::Unsupported`] on other systems.
pub fn path_of(directory: &OwnedFd) -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    return Ok(PathBuf::from(format!("{OWN_FILES}/{}", directory.as_raw_fd())));
    #[cfg(target_vendor = "apple")]
    {
        use std::os::unix::ffi::OsStringExt;
        let path = rustix::fs::getpath(directory)?.into_bytes();
        Ok(PathBuf::from(std::ffi::OsString::from_vec(path)))
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    {
        let _ = directory;
        Err(io::ErrorKind::Unsupported.into())
    }
}
