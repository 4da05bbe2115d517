//! The directory of a store: the one that its path leads to.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{fstat, stat};

use super::{ObjectName, StoreError, beneath};

/// The directory of a store, whichever has its path.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// The same, wherever this process goes.
    absolute: PathBuf,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    directory: Arc<OwnedFd>,
    /// Its path without links.
    resolved: PathBuf,
}

impl Root {
    /// Opens the directory.
    ///
    /// # Errors
    /// It cannot be opened, or is no directory.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (absolute, path) = (std::path::absolute(path)?, path.to_owned());
        let directory = Arc::new(beneath::open_root(&path)?);
        let resolved = absolute.canonicalize()?;
        Ok(Root { path, absolute, held: Mutex::new(Held { directory, resolved }) })
    }

    /// Where it is, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory. If its name leads to another one by now, it is that: a tree that is fetched takes its place at once,
    /// and so does what a link is turned to. A file system that is mounted over it, or goes, does not count: what is below
    /// that is no newer tree.
    pub fn directory(&self) -> Arc<OwnedFd> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Ok(named), Ok(had)) = (stat(&self.absolute), fstat(&*held.directory))
            && (named.st_dev, named.st_ino) != (had.st_dev, had.st_ino)
            && let Ok(resolved) = self.absolute.canonicalize()
            // Of one path, another file system was mounted or unmounted.
            && (named.st_dev == had.st_dev || resolved != held.resolved)
            && let Ok(opened) = beneath::open_root(&resolved)
            // Not every file system gives a path and an open directory the same number.
            && !is_same_directory(&opened, &*held.directory)
        {
            tracing::info!(directory = %self.path.display(), "another directory has its place");
            *held = Held { directory: Arc::new(opened), resolved };
        }
        Arc::clone(&held.directory)
    }
}

/// Where an object is to have its name.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) root: Arc<Root>,
    pub(super) name: ObjectName,
}

impl Way {
    /// Whether the name leads into that directory.
    ///
    /// # Errors
    /// [`StoreError::Replaced`]; the system's.
    pub(super) fn check(&self, directory: &OwnedFd) -> Result<(), StoreError> {
        match beneath::open_parent(&self.root.directory(), &self.name) {
            Ok(parent) if is_same_directory(&parent, directory) => Ok(()),
            Ok(_) | Err(StoreError::NoParent(_) | StoreError::NoDirectory(_)) => {
                Err(StoreError::Replaced(self.name.to_string()))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether two directories that are open are one.
pub fn is_same_directory(one: impl AsFd, other: impl AsFd) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}
