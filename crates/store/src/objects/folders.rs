//! Directories that are missing on the way to an object, and are made for it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::beneath::{open_parent, split_path};
use super::{Disk, ObjectName, StoreError};

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
/// How directories are opened that are passed, and may not be readable.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::RDONLY;

/// Directories that are remembered as being on the disk, at most.
const MAX_KNOWN: usize = 1_024;

/// Makes directories for objects. Whoever puts an object into one has it on the disk, no matter who has made it: also
/// another process, which may have been killed before its sync.
#[derive(Debug)]
pub(super) struct Folders {
    disk: Arc<dyn Disk>,
    /// Paths of directories that are on the disk, and which directories they were.
    known: Mutex<BTreeMap<String, Identity>>,
}

/// Device and inode.
type Identity = (u64, u64);

/// Directories that were made for an object. Dropped, those that are empty are removed: the object did not come.
#[derive(Debug, Default)]
pub(super) struct MadeFolders(Vec<MadeFolder>);

#[derive(Debug)]
struct MadeFolder {
    disk: Arc<dyn Disk>,
    parent: OwnedFd,
    name: String,
}

impl Folders {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Self {
        Folders { disk, known: Mutex::default() }
    }

    /// Opens the directory that is to hold an object, and makes what is missing of its path. All of it is on the disk
    /// by then.
    ///
    /// # Errors
    /// Something else has the place of a directory ([`StoreError::NoDirectory`]); the system's, one that the path was
    /// changed meanwhile ([`StoreError::NoParent`]) among them.
    pub(super) fn open(
        &self,
        root: &OwnedFd,
        name: &ObjectName,
    ) -> Result<(OwnedFd, MadeFolders), StoreError> {
        let Some(path) = name.parent() else {
            return Ok((open_parent(root, name)?, MadeFolders::default()));
        };
        let (opened, made) = match open_parent(root, name) {
            Err(StoreError::NoParent(_)) => {
                let made = self.make(root, path)?;
                (open_parent(root, name)?, made)
            }
            opened => (opened?, MadeFolders::default()),
        };
        let meta = File::from(opened.try_clone()?).metadata()?;
        let identity = (meta.dev(), meta.ino());
        if self.lock().get(path) != Some(&identity) {
            walk(root, path, |at, _| self.sync(at))?;
            let mut known = self.lock();
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            known.insert(path.to_owned(), identity);
        }
        Ok((opened, made))
    }

    /// Makes what is missing of a path, to stay whatever comes into it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn make_to_stay(&self, root: &OwnedFd, path: &str) -> Result<(), StoreError> {
        self.make(root, path)?.0.clear();
        Ok(())
    }

    fn make(&self, root: &OwnedFd, path: &str) -> Result<MadeFolders, StoreError> {
        let mut made = MadeFolders::default();
        walk(root, path, |at, here| self.make_one(at, here, &mut made))?;
        Ok(made)
    }

    /// Makes the directory at a path, unless it is there.
    fn make_one(
        &self,
        parent: &OwnedFd,
        path: &str,
        made: &mut MadeFolders,
    ) -> Result<(), StoreError> {
        let (_, name) = split_path(path);
        // Before it can be seen: another one of that name, and number, may have been there.
        self.lock().retain(|known, _| !leads_through(known, path));
        match self.disk.make_directory(parent, name) {
            Ok(()) => {
                let (disk, name) = (Arc::clone(&self.disk), name.to_owned());
                made.0.push(MadeFolder { disk, parent: parent.try_clone()?, name });
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::AlreadyExists => Ok(()),
                io::ErrorKind::NotFound => Err(StoreError::NoParent(path.to_owned())),
                _ => Err(error.into()),
            },
        }
    }

    fn sync(&self, directory: &OwnedFd) -> Result<(), StoreError> {
        match openat(directory, ".", OFlags::RDONLY | DIRECTORY, Mode::empty()) {
            // What can be passed and not be read was there before, and is its owner's matter.
            Err(Errno::ACCESS) => Ok(()),
            opened => Ok(self.disk.sync_directory(&opened?)?),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Identity>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Goes along a path: calls `step` with the directory that a component is in, and with the path as far as that
/// component, before it opens it.
fn walk(
    root: &OwnedFd,
    path: &str,
    mut step: impl FnMut(&OwnedFd, &str) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut at = openat(root, ".", PASS | DIRECTORY, Mode::empty())?;
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    for here in ends.map(|end| &path[..end]) {
        step(&at, here)?;
        let (_, name) = split_path(here);
        at = openat(&at, name, PASS | DIRECTORY, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT => StoreError::NoParent(here.to_owned()),
            Errno::NOTDIR | Errno::LOOP => StoreError::NoDirectory(here.to_owned()),
            errno => errno.into(),
        })?;
    }
    Ok(())
}

/// Whether a path is that of the directory, or leads through it.
fn leads_through(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        while let Some(MadeFolder { disk, parent, name }) = self.0.pop() {
            // Most often the object is in it.
            if disk.remove_directory(&parent, &name).is_err() {
                return;
            }
        }
    }
}
