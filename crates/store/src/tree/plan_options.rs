//! Options, listing, changes and errors of a plan.

use std::fmt;
use std::io;
use std::sync::Arc;

use wellspring_tree::{Keeps, ListingError, SkipReason};

use super::filter::TreeFilter;
use super::scan::ScanError;
use crate::existing::Existing;
use crate::objects::Digest;

/// The manifest of a tree.
#[derive(Clone, Debug)]
pub struct TreeListing {
    /// Its bytes: read them by a [`Cursor`](wellspring_tree::Cursor).
    pub bytes: Arc<Vec<u8>>,
    /// Their digest, which is that of the tree.
    pub digest: Digest,
}

/// How a directory is made to hold a tree.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Whether what is in the directories of the directory belongs to the tree.
    pub deep: bool,
    /// Remove what the tree does not have.
    pub delete: bool,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// Compare the files' digests, not only their lengths and times.
    pub checksum: bool,
    /// Owners, extended attributes and access control lists, if they are to be kept.
    pub keeps: Keeps,
    /// What of the tree is moved.
    pub filter: TreeFilter,
    /// What becomes of files in the directory that differ.
    pub existing: Existing,
    /// Surplus is said path by path, what is in a directory too.
    pub surplus_in_full: bool,
    /// Length of the name of a pack without its selection \[bytes\].
    pub pack_name_len: usize,
}

impl Default for PlanOptions {
    /// All of the tree, in the place of files that differ; nothing is removed.
    fn default() -> Self {
        PlanOptions {
            deep: true,
            delete: false,
            dry_run: false,
            checksum: false,
            keeps: Keeps::default(),
            filter: TreeFilter::default(),
            existing: Existing::Replace,
            surplus_in_full: false,
            pack_name_len: 0,
        }
    }
}

/// What is done to a directory so that it holds a tree. Paths are relative to it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TreeChange {
    /// A directory or a link is made, or gets another mode or time.
    Made(String),
    /// A file or a link is here already.
    Kept(String),
    /// A file is fetched: its length \[bytes\].
    Fetched(String, u64),
    /// Something is removed.
    Removed(String),
    /// Something is left out, and why.
    Skipped(String, SkipReason),
    /// A link is left out, since it is files of one directory that are asked for.
    LinkLeftOut(String),
}

/// Why a directory cannot be made to hold a tree.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlanError {
    /// The bytes are no listing of a tree.
    Listing(ListingError),
    /// The directory cannot be walked.
    Scan(ScanError),
    /// Something cannot be made or removed: its path in the tree, and why.
    Place(String, io::Error),
    /// A directory has the name of a file of the tree, and is not empty.
    InTheWay(String),
    /// Two names of the tree differ in case alone, which the file system does not tell apart.
    Case(String),
    /// Another directory has the place of the one that was written by now.
    Replaced,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Listing(error) => error.fmt(f),
            PlanError::Scan(error) => error.fmt(f),
            PlanError::Place(path, error) if path.is_empty() => error.fmt(f),
            PlanError::Place(path, error) => write!(f, "{path}: {error}"),
            PlanError::InTheWay(path) => {
                write!(f, "{path} is a directory here that is not empty, and no directory there")
            }
            PlanError::Replaced => {
                f.write_str("another directory took its place while it was written")
            }
            PlanError::Case(path) => write!(
                f,
                "{path} has the name of another file but for its case, and the file system here does \
                 not tell them apart"
            ),
        }
    }
}

impl std::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PlanError::Listing(error) => Some(error),
            PlanError::Scan(error) => Some(error),
            PlanError::Place(_, error) => Some(error),
            PlanError::InTheWay(_) | PlanError::Case(_) | PlanError::Replaced => None,
        }
    }
}

impl From<ListingError> for PlanError {
    fn from(error: ListingError) -> Self {
        PlanError::Listing(error)
    }
}

impl From<ScanError> for PlanError {
    fn from(error: ScanError) -> Self {
        PlanError::Scan(error)
    }
}
