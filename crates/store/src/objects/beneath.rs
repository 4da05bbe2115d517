//! Opening files below a directory without ever leaving it.
//!
//! Linux resolves the whole path with `openat2` (no symbolic link, no way up); where that call is
//! missing, each component is opened on its own without following links. Either way the answer
//! cannot be changed by somebody who swaps a directory for a link meanwhile.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::{ObjectName, StoreError};

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::RDONLY);
// A pipe must not make the open wait for a writer, nor a terminal become ours.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens the root. Links on the way to it are the operator's own choice and are followed.
pub(super) fn open_root(path: &Path) -> Result<OwnedFd, StoreError> {
    Ok(rustix::fs::open(path, DIRECTORY, Mode::empty())?)
}

/// Opens a regular file for reading.
pub(super) fn open_regular(root: &OwnedFd, name: &ObjectName) -> Result<File, StoreError> {
    let parent = open_parent(root, name).map_err(|error| match error {
        StoreError::NoParent(_) => StoreError::NotFound(name.to_string()),
        error => error,
    })?;
    // Looked at before it is opened: the mere opening of a device can have effects.
    let seen = statat(&parent, name.file_name(), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| explain(errno, name))?;
    if FileType::from_raw_mode(seen.st_mode) != FileType::RegularFile {
        return Err(StoreError::NotRegular(name.to_string()));
    }
    let fd = openat(&parent, name.file_name(), READ | OFlags::NOFOLLOW, Mode::empty())
        .map_err(|errno| explain(errno, name))?;
    // And once more for what was opened, should it have been swapped in between.
    if FileType::from_raw_mode(fstat(&fd)?.st_mode) != FileType::RegularFile {
        return Err(StoreError::NotRegular(name.to_string()));
    }
    Ok(File::from(fd))
}

/// Opens the directory that holds (or will hold) the object.
pub(super) fn open_parent(root: &OwnedFd, name: &ObjectName) -> Result<OwnedFd, StoreError> {
    let Some(parent) = name.parent() else {
        return Ok(openat(root, ".", DIRECTORY, Mode::empty())?);
    };
    open_directory_beneath(root, parent).map_err(|errno| match errno {
        Errno::NOENT => StoreError::NoParent(parent.to_owned()),
        Errno::NOTDIR | Errno::LOOP | Errno::XDEV => StoreError::NoDirectory(parent.to_owned()),
        errno => errno.into(),
    })
}

#[cfg(target_os = "linux")]
pub(crate) fn open_directory_beneath(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // EAGAIN: a rename raced with the resolution and the kernel could not be sure.
    for _ in 0..16 {
        match openat2(root, path, DIRECTORY, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            // Missing before Linux 5.6, forbidden in some containers.
            Err(Errno::NOSYS | Errno::PERM) => return walk(root, path),
            other => return other,
        }
    }
    walk(root, path)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_directory_beneath(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    walk(root, path)
}

/// A path's directory, empty for a path of one component, and the name there.
pub(crate) fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// One component at a time; a checked name has no component that leads up.
fn walk(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    for component in path.split('/') {
        let from = at.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        let next = openat(from, component, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        at = Some(next);
    }
    at.ok_or(Errno::INVAL)
}

/// Checks that the object may be written under its name: an early answer for the client, not the
/// guard (that is the final rename).
pub(super) fn check_target(
    parent: &OwnedFd,
    name: &ObjectName,
    replace: bool,
) -> Result<(), StoreError> {
    match statat(parent, name.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
        Ok(found) => match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile if replace => Ok(()),
            FileType::RegularFile => Err(StoreError::Exists(name.to_string())),
            _ => Err(StoreError::NotRegular(name.to_string())),
        },
    }
}

fn explain(errno: Errno, name: &ObjectName) -> StoreError {
    match errno {
        Errno::NOENT => StoreError::NotFound(name.to_string()),
        // A link, a directory, a socket, a device without a driver.
        Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO | Errno::NODEV => {
            StoreError::NotRegular(name.to_string())
        }
        errno => errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fallback_walk_follows_no_link_either() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir_all(dir.path().join("a/b")).expect("directories");
        std::os::unix::fs::symlink("/", dir.path().join("a/up")).expect("link");
        let root = open_root(dir.path()).expect("root");
        assert!(walk(&root, "a/b").is_ok());
        for path in ["a/up", "a/up/etc"] {
            let error = walk(&root, path).expect_err(path);
            assert!(matches!(error, Errno::LOOP | Errno::NOTDIR), "{error:?}");
        }
        assert_eq!(walk(&root, "a/none").expect_err("missing"), Errno::NOENT);
    }
}
