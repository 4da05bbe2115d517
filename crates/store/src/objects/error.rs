//! Errors of the store.

use std::fmt;
use std::io;

use super::{Digest, NameError};

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
    /// What the name of a tree leads to is no directory.
    NoDirectory(String),
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
    /// Listings of trees that are put have all the memory that is set aside for them.
    NoMemory,
    /// The disk has no room for the object.
    NoSpace {
        /// The object's length \[bytes\].
        needed: u64,
        /// What is free \[bytes\].
        free: u64,
    },
    /// Other objects have what may be promised to all at one time, or it is longer than that.
    NotReserved {
        /// The object's length \[bytes\].
        needed: u64,
        /// What can be promised now \[bytes\].
        free: u64,
    },
    /// The disk can have so few more files that they are kept for others.
    NoFiles {
        /// Files that could still be made.
        free: u64,
    },
    /// The file changed while it was read.
    Changed(String),
    /// Another directory has the place of the one that the object came into.
    Replaced(String),
    /// The bytes received are not those that were announced.
    BadDigest {
        /// The digest announced.
        expected: Digest,
        /// The digest of what arrived.
        got: Digest,
    },
    /// The object has its name, and the system's error says that this may not be on the disk.
    Unsynced(io::Error),
    /// The system's own error.
    Io(io::Error),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Name(error) => write!(f, "bad object name: {error}"),
            StoreError::NotFound(name) => write!(f, "no object named {name}"),
            StoreError::NoDirectory(name) => write!(f, "{name} is not a directory"),
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
            StoreError::NoMemory => f.write_str(
                "listings of other transfers have all the memory that is for them; try again later",
            ),
            StoreError::NoSpace { needed, free } => {
                write!(f, "object of {needed} bytes, only {free} are free")
            }
            StoreError::NotReserved { needed, free } => write!(
                f,
                "object of {needed} bytes, only {free} of those that are for all puts at one time are free (--max-reserved)"
            ),
            StoreError::NoFiles { free } => {
                write!(f, "the disk can have {free} more files, which are kept; remove some there")
            }
            StoreError::Changed(name) => write!(f, "{name} changed while it was being read"),
            StoreError::Replaced(name) => {
                write!(
                    f,
                    "another directory has the place of the one that {name} came into; put it again"
                )
            }
            StoreError::BadDigest { expected, got } => {
                write!(f, "the bytes received have digest {got}, announced was {expected}")
            }
            StoreError::Unsynced(error) => {
                write!(f, "the object is there, but may not be after a power cut: {error}")
            }
            StoreError::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Name(error) => Some(error),
            StoreError::Io(error) | StoreError::Unsynced(error) => Some(error),
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
