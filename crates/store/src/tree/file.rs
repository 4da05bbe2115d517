//! Opened files of a tree, and what a listing says of them.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, OFlags, Stat, Timespec, Timestamps, fstat};
use wellspring_tree::Modified;

// A pipe must not make the open wait for a writer, nor a terminal become ours.
pub(super) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW);

/// The time of a file's last modification.
pub(super) fn modified(stat: &Stat) -> Modified {
    Modified { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 }
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
