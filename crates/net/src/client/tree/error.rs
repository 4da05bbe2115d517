//! Errors of trees.

use std::fmt;
use std::io;

use super::super::FetchError;
use crate::store::tree::ScanError;
use crate::store::tree::listing::ListingError;

/// Why a tree cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum TreeError {
    /// One of its objects cannot be fetched.
    Fetch(FetchError),
    /// What the hosts sent is no listing of a tree.
    Listing(ListingError),
    /// The directory here cannot be walked.
    Scan(ScanError),
    /// Something here cannot be made or removed: its path in the tree, and why.
    Place(String, io::Error),
    /// A directory here has the name of a file of the tree, and is not empty.
    InTheWay(String),
    /// Two names of the tree differ in case alone, which the file system here does not tell apart.
    Case(String),
    /// The program is about to end.
    Stopped,
}

impl TreeError {
    /// Whether the tree may have changed at the hosts since it was listed.
    pub(super) fn may_be_a_change(&self) -> bool {
        matches!(self, TreeError::Fetch(FetchError::NoReplica(_) | FetchError::Differ { .. }))
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeError::Fetch(error) => error.fmt(f),
            TreeError::Listing(error) => write!(f, "the hosts sent {error}"),
            TreeError::Scan(error) => error.fmt(f),
            TreeError::Place(path, error) if path.is_empty() => error.fmt(f),
            TreeError::Place(path, error) => write!(f, "{path}: {error}"),
            TreeError::InTheWay(path) => {
                write!(f, "{path} is a directory here that is not empty, and no directory there")
            }
            TreeError::Case(path) => write!(
                f,
                "{path} has the name of another file but for its case, and the file system here does \
                 not tell them apart"
            ),
            TreeError::Stopped => f.write_str("the program ends"),
        }
    }
}

impl std::error::Error for TreeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TreeError::Fetch(error) => Some(error),
            TreeError::Listing(error) => Some(error),
            TreeError::Scan(error) => Some(error),
            TreeError::Place(_, error) => Some(error),
            _ => None,
        }
    }
}

impl From<FetchError> for TreeError {
    fn from(error: FetchError) -> Self {
        TreeError::Fetch(error)
    }
}

impl From<ListingError> for TreeError {
    fn from(error: ListingError) -> Self {
        TreeError::Listing(error)
    }
}

impl From<ScanError> for TreeError {
    fn from(error: ScanError) -> Self {
        TreeError::Scan(error)
    }
}
