//! The objects a host serves and takes: files below one directory.
//!
//! Whatever a stranger names, nothing outside the directory is opened and nothing inside it is
//! overwritten without leave: names are checked component by component ([`ObjectName`]), opened
//! without following a symbolic link anywhere below the root, and only regular files are objects.
//! A received object is a hidden part file until its digest is verified and it is synced; then
//! it takes its name in one step.

mod beneath;
mod digest_cache;
mod file_source;
mod hash;
mod name;
mod part_file;
mod prefix;
mod reserve;
mod scratch;
mod stale;
mod write_back;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wellspring_wire::control::RefusalCode;

pub use digest_cache::{DigestCache, Fingerprint};
pub use file_source::FileSource;
pub use hash::{Digest, HashProgress, hash_file};
pub use name::{NameError, ObjectName};
pub use part_file::{Existing, PartFile};
pub use reserve::{Limits, Reservation, Reservations};
pub use scratch::ScratchFile;
pub use stale::remove_stale_parts;
pub use write_back::WriteBack;

/// Why an object cannot be had, or cannot be taken.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The name cannot be that of an object.
    Name(NameError),
    /// There is no such object.
    NotFound(String),
    /// What the name leads to is a directory, a device, a pipe, a socket or a symbolic link.
    NotRegular(String),
    /// An object of that name exists and may not be replaced.
    Exists(String),
    /// The directory the object should go to does not exist.
    NoParent(String),
    /// The object is longer than is allowed.
    TooLarge {
        /// Its length \[bytes\].
        got: u64,
        /// The limit \[bytes\].
        limit: u64,
    },
    /// So many objects are being received already.
    Busy {
        /// The limit \[objects\].
        limit: usize,
    },
    /// The disk (or the bytes set aside for receiving) has no room for the object.
    NoSpace {
        /// The object's length \[bytes\].
        needed: u64,
        /// What is free \[bytes\].
        free: u64,
    },
    /// The file changed while it was read.
    Changed(String),
    /// The bytes received are not those that were announced.
    BadDigest {
        /// The digest announced.
        expected: Digest,
        /// The digest of what arrived.
        got: Digest,
    },
    /// The system's own error.
    Io(io::Error),
}

impl StoreError {
    /// What a server tells its client.
    pub fn refusal_code(&self) -> RefusalCode {
        match self {
            StoreError::Name(_) => RefusalCode::BadName,
            StoreError::NotFound(_) | StoreError::NotRegular(_) | StoreError::NoParent(_) => {
                RefusalCode::NotFound
            }
            StoreError::Exists(_) => RefusalCode::Exists,
            StoreError::TooLarge { .. } => RefusalCode::TooLarge,
            StoreError::Busy { .. } => RefusalCode::Busy,
            StoreError::NoSpace { .. } => RefusalCode::NoSpace,
            StoreError::Changed(_) => RefusalCode::Changed,
            StoreError::BadDigest { .. } => RefusalCode::BadDigest,
            StoreError::Io(_) => RefusalCode::Failed,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Name(error) => write!(f, "bad object name: {error}"),
            StoreError::NotFound(name) => write!(f, "no object named {name}"),
            StoreError::NotRegular(name) => {
                write!(f, "{name} is not a regular file (symbolic links are not followed)")
            }
            StoreError::Exists(name) => write!(f, "{name} exists and is not overwritten"),
            StoreError::NoParent(name) => write!(f, "no directory {name} to put the object in"),
            StoreError::TooLarge { got, limit } => {
                write!(f, "object of {got} bytes, the limit is {limit}")
            }
            StoreError::Busy { limit } => {
                write!(f, "{limit} objects are being received already; try again later")
            }
            StoreError::NoSpace { needed, free } => {
                write!(f, "object of {needed} bytes, only {free} are free")
            }
            StoreError::Changed(name) => write!(f, "{name} changed while it was being read"),
            StoreError::BadDigest { expected, got } => {
                write!(f, "the bytes received have digest {got}, announced was {expected}")
            }
            StoreError::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Name(error) => Some(error),
            StoreError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        StoreError::Io(error)
    }
}

impl From<rustix::io::Errno> for StoreError {
    fn from(errno: rustix::io::Errno) -> Self {
        StoreError::Io(errno.into())
    }
}

impl From<NameError> for StoreError {
    fn from(error: NameError) -> Self {
        StoreError::Name(error)
    }
}

/// A directory whose files are objects.
#[derive(Debug)]
pub struct Store {
    root: OwnedFd,
    path: PathBuf,
    reservations: Arc<Reservations>,
}

impl Store {
    /// Opens the directory. `limits` bound what is received into it.
    ///
    /// # Errors
    /// It cannot be opened, or is no directory.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, StoreError> {
        let root = beneath::open_root(path)?;
        Ok(Store { root, path: path.to_owned(), reservations: Reservations::new(limits) })
    }

    /// Where it is, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens an object for reading.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotRegular`], or the system's error.
    pub fn open_object(&self, name: &ObjectName) -> Result<(File, Fingerprint), StoreError> {
        let file = beneath::open_regular(&self.root, name)?;
        let fingerprint = Fingerprint::of(&file)?;
        Ok((file, fingerprint))
    }

    /// Makes a part file for an object that is to be received.
    ///
    /// # Errors
    /// What forbids it: an object of that name unless `existing` allows to replace it, the limits,
    /// the room on the disk, or the system.
    pub fn create(
        &self,
        name: &ObjectName,
        size: u64,
        digest: Digest,
        existing: Existing,
    ) -> Result<PartFile, StoreError> {
        let parent = beneath::open_parent(&self.root, name)?;
        beneath::check_target(&parent, name, existing == Existing::Replace)?;
        let reservation = self.reservations.reserve(size, &parent)?;
        PartFile::create(parent, name.file_name(), size, digest, existing, Some(reservation))
    }
}

#[cfg(test)]
mod tests;
