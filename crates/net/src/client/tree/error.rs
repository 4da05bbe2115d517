//! Errors of trees.

use std::fmt;
use std::io;

use super::super::{FetchError, PutError};
use super::put_report::PutTreeReport;
use crate::store::tree::listing::ListingError;
use crate::store::tree::{PackError, ScanError};

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
    /// A tree cannot be put.
    Put(PutError),
    /// Files here cannot be read as they were listed.
    Source(PackError),
    /// A host has other files or links under names of the tree that is put, which may not be replaced.
    Occupied {
        /// The host.
        host: String,
        /// How many.
        count: u64,
        /// The first of them.
        examples: Vec<String>,
    },
    /// A host has a directory under the name of a file or link of the tree that is put.
    DirectoryThere {
        /// The host.
        host: String,
        /// The path in the tree.
        path: String,
    },
    /// Too few hosts ended up with the tree that was put.
    Incomplete(Box<PutTreeReport>),
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
            TreeError::Put(error) => error.fmt(f),
            TreeError::Source(error) => error.fmt(f),
            TreeError::Occupied { host, count, examples } => {
                let plural = if *count == 1 { "file" } else { "files" };
                write!(
                    f,
                    "{host} has {count} {plural} of the tree with other bytes, times or modes; nothing was moved:"
                )?;
                examples.iter().try_for_each(|path| write!(f, "\n  {path}"))?;
                if *count > examples.len() as u64 { f.write_str("\n  ...") } else { Ok(()) }
            }
            TreeError::DirectoryThere { host, path } => {
                write!(f, "{path} is a directory at {host}, and none here; nothing was moved")
            }
            TreeError::Incomplete(report) => {
                let complete = report.complete();
                write!(f, "{complete} hosts have the tree, {} must:", report.needed)?;
                report.unfinished().iter().try_for_each(|host| write!(f, "\n  {host}"))
            }
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
            TreeError::Put(error) => Some(error),
            TreeError::Source(error) => Some(error),
            _ => None,
        }
    }
}

impl From<PackError> for TreeError {
    fn from(error: PackError) -> Self {
        TreeError::Source(error)
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
