//! The permissions of an object's file.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, statat};

/// The mode that an object's file gets with its name: that of the regular file that it replaces, which others may not be
/// allowed to read, else that of a new file. Bits beyond permissions do not come along.
pub(super) fn mode_for(parent: &OwnedFd, target: &str, replaces: bool) -> u32 {
    let there = replaces.then(|| statat(parent, target, AtFlags::SYMLINK_NOFOLLOW).ok());
    match there.flatten().filter(|found| FileType::from_raw_mode(found.st_mode).is_file()) {
        Some(found) => u16::try_from(found.st_mode & 0o777).map_or(0o600, u32::from),
        None => usual_mode(),
    }
}

/// The mode that a new file of this process gets: read and write for all, less the umask.
fn usual_mode() -> u32 {
    // Asking the system by setting it would race with other threads.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    // Where it cannot be known, nobody else may.
    0o666 & !umask.unwrap_or(0o077)
}
