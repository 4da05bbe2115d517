//! Search of a directory for what is not known to be in it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use wellspring_tree::MAX_DEPTH;

use super::TreeTarget;

impl TreeTarget {
    /// Whether a directory has anything in it, at any depth and of whatever name, that is not `known` by its path: what is
    /// hidden, part files, names that no listing can have. One that is not there, or no directory, has nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn has_besides(
        &mut self,
        directory: &str,
        known: impl Fn(&str) -> bool,
    ) -> io::Result<bool> {
        let inside = format!("{directory}/any");
        match self.directory_of(&inside) {
            Ok(opened) => Ok(has_besides(&opened, directory, &known, MAX_DEPTH)?),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
                _ => Err(error),
            },
        }
    }
}

fn has_besides(
    directory: &OwnedFd,
    path: &str,
    known: &dyn Fn(&str) -> bool,
    depth: usize,
) -> Result<bool, Errno> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { return Ok(true) };
        if matches!(name, "." | "..") {
            continue;
        }
        let inner = format!("{path}/{name}");
        if depth == 0 || !known(&inner) {
            return Ok(true);
        }
        let found = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            found => found?,
        };
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            continue;
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(directory, name, flags, Mode::empty()) {
            Ok(opened) if !has_besides(&opened, &inner, known, depth - 1)? => {}
            Err(Errno::NOENT) => {}
            // What cannot be looked into may have anything in it.
            Ok(_) | Err(Errno::ACCESS | Errno::NOTDIR | Errno::LOOP) => return Ok(true),
            Err(errno) => return Err(errno),
        }
    }
    Ok(false)
}
