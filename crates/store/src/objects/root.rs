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
    held: Mutex<Arc<OwnedFd>>,
}

impl Root {
    /// Opens the directory.
    ///
    /// # Errors
    /// It cannot be opened, or is no directory.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let held = Mutex::new(Arc::new(beneath::open_root(path)?));
        Ok(Root { absolute: std::path::absolute(path)?, path: path.to_owned(), held })
    }

    /// Where it is, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory. If its name leads to another one of the same file system by now, it is that: a tree that is fetched
    /// takes its place at once, and so does a link that is turned. A file system that is mounted over it, or goes, does not
    /// count.
    pub fn directory(&self) -> Arc<OwnedFd> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Ok(named), Ok(had)) = (stat(&self.absolute), fstat(&*held))
            && named.st_dev == had.st_dev
            && named.st_ino != had.st_ino
            && let Ok(opened) = beneath::open_root(&self.absolute)
            // Not every file system gives a path and an open directory the same number.
            && !is_same_directory(&opened, &*held)
        {
            tracing::info!(directory = %self.path.display(), "another directory has its place");
            *held = Arc::new(opened);
        }
        Arc::clone(&held)
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
