//! Removal of something with all that is in it, whatever the names there, and however deep.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, chmodat, fchmod, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::objects::{Disk, SystemDisk, part_file_name};

/// Times that a directory is removed in which others make things, at most.
const REMOVALS: usize = 8;
/// Directories, one in the other, that are open at a time.
const LEVELS: usize = 64;

const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::RDONLY).union(OFlags::NOFOLLOW);

/// A directory that is being removed.
struct Level {
    name: CString,
    entries: Dir,
    /// How often there was something in it when all was removed.
    tries: usize,
}

/// Removes something with all that is in it, also what others put there meanwhile, if they do not go on.
pub(super) fn remove_all(parent: &OwnedFd, name: &CStr) -> io::Result<()> {
    let Some(top) = enter(parent.as_fd(), name)? else { return Ok(()) };
    let mut open = vec![top];
    while let Some(level) = open.last_mut() {
        let Some(name) = next_name(&mut level.entries)? else {
            leave(parent, &mut open)?;
            continue;
        };
        match enter(level.entries.fd()?, &name)? {
            None => {}
            Some(inner) if open.len() < LEVELS => open.push(inner),
            Some(_) => lift(&mut open, &name)?,
        }
    }
    Ok(())
}

fn next_name(entries: &mut Dir) -> io::Result<Option<CString>> {
    while let Some(entry) = entries.read() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return Ok(Some(entry.file_name().to_owned()));
        }
    }
    Ok(None)
}

/// Removes something that is no directory, or else opens it; nothing if it is gone.
fn enter(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Level>> {
    for _ in 0..REMOVALS {
        match unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(None),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
        match open_to_change(parent, name) {
            Err(Errno::NOENT) => return Ok(None),
            // Replaced in this moment.
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            opened => {
                let entries = Dir::new(opened?)?;
                return Ok(Some(Level { name: name.to_owned(), entries, tries: 0 }));
            }
        }
    }
    Err(Errno::PERM.into())
}

/// Opens a directory, in which its owner may remove things from now on.
fn open_to_change(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let open = || openat(parent, name, DIRECTORY, Mode::empty());
    let directory = match open() {
        Err(Errno::ACCESS) => {
            // Root, who could be led astray by a link, may open all.
            chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            open()?
        }
        opened => opened?,
    };
    let found = fstat(&directory)?;
    let mode = Mode::from_raw_mode(found.st_mode & 0o7777);
    if found.st_uid == geteuid().as_raw() && !mode.contains(Mode::RWXU) {
        fchmod(&directory, mode | Mode::RWXU)?;
    }
    Ok(directory)
}

/// Removes the innermost directory, all of which was removed. What is in it again is removed again.
fn leave(parent: &OwnedFd, open: &mut Vec<Level>) -> io::Result<()> {
    let Some(mut level) = open.pop() else { return Ok(()) };
    let above = match open.last() {
        Some(above) => above.entries.fd()?,
        None => parent.as_fd(),
    };
    match unlinkat(above, &level.name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) if level.tries < REMOVALS => {
            level.tries += 1;
            level.entries.rewind();
            open.push(level);
            Ok(())
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Moves a directory, in the innermost of those that are open, into the outermost one: its turn comes there.
fn lift(open: &mut [Level], name: &CStr) -> io::Result<()> {
    let lifted = part_file_name("deep", SystemDisk.random()?);
    let [top, .., from] = open else { return Err(Errno::INVAL.into()) };
    renameat(from.entries.fd()?, name, top.entries.fd()?, lifted)?;
    top.tries = 0;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn whatever_is_in_a_directory_goes_with_it() {
        let home = tempfile::tempdir().expect("a directory");
        let old = home.path().join("old");
        let odd = old.join(OsStr::from_bytes(b"\xffd")).join("e");
        fs::create_dir_all(&odd).expect("made");
        fs::write(odd.join(OsStr::from_bytes(b"\xfff")), "bytes").expect("written");
        std::os::unix::fs::symlink("/", odd.join("link")).expect("linked");
        for chain in ["a", "b"] {
            fs::create_dir_all(old.join(vec![chain; 3 * LEVELS + 5].join("/"))).expect("made");
        }
        fs::write(old.join("a/a/file"), "bytes").expect("written");
        fs::write(home.path().join("stays"), "bytes").expect("written");
        let parent = OwnedFd::from(File::open(home.path()).expect("open"));
        for name in [c"old", c"none"] {
            remove_all(&parent, name).expect("removed");
        }
        let left: Vec<_> = fs::read_dir(home.path()).expect("read").flatten().collect();
        assert_eq!(left.len(), 1);
        remove_all(&parent, c"stays").expect("removed");
        assert!(!home.path().join("stays").exists());
    }
}
