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

/// The steps in which the file system of a directory keeps times, at most \[ns\]: 2 s for FAT, a second for Lustre and small
/// inodes of ext4, 10 ms for exFAT, 100 ns for SMB, and otherwise as a rule 1. They are told by the kind of the file system, or
/// else by the time of the directory's last change, which nobody can set.
pub(super) fn time_step(directory: &OwnedFd) -> u32 {
    let nanos = fstat(directory).map_or(1, |stat| stat.st_ctime_nsec as u32);
    step_of_kind(directory).unwrap_or_else(|| step_of_time(nanos))
}

fn step_of_time(nanos: u32) -> u32 {
    let steps = [1_000_000_000, 10_000_000, 1_000_000, 1_000, 100];
    steps.into_iter().find(|step| nanos.is_multiple_of(*step)).unwrap_or(1)
}

/// The steps of file systems that keep finer times in memory until they read a file again.
#[cfg(target_os = "linux")]
fn step_of_kind(directory: &OwnedFd) -> Option<u32> {
    step_of_magic(rustix::fs::fstatfs(directory).ok()?.f_type)
}

#[cfg(not(target_os = "linux"))]
fn step_of_kind(_: &OwnedFd) -> Option<u32> {
    None
}

/// By the number that Linux gives to a kind of file systems.
#[cfg(target_os = "linux")]
fn step_of_magic(magic: rustix::fs::FsWord) -> Option<u32> {
    match magic {
        0x4d44 => Some(2_000_000_000),
        0x2011_bab0 => Some(10_000_000),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_by_the_last_change_of_a_directory() {
        for (nanos, step) in [
            (0, 1_000_000_000),
            (250_000_000, 10_000_000),
            (123_000_000, 1_000_000),
            (123_456_000, 1_000),
            (123_456_700, 100),
            (123_456_789, 1),
        ] {
            assert_eq!(step_of_time(nanos), step, "{nanos}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn fat_and_exfat_are_known_by_their_numbers() {
        let steps = [0x4d44, 0x2011_bab0, 0xef53].map(step_of_magic);
        assert_eq!(steps, [Some(2_000_000_000), Some(10_000_000), None]);
    }
}
