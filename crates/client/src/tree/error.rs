//! Errors of trees.

use std::fmt;
use std::io;

use super::super::{FetchError, HostTrouble, PutError};
use super::put_report::PutTreeReport;
use crate::store::tree::listing::ListingError;
use crate::store::tree::{PackError, PlanError, ScanError};

/// Why a tree cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum TreeError {
    /// One of its objects cannot be fetched.
    Fetch(FetchError),
    /// A directory here cannot be walked, or cannot be made to hold the tree.
    Plan(PlanError),
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
    /// Hosts have other trees.
    Disagreement(Box<TreeDisagreement>),
    /// No tree can grow beside the directory.
    Beside(io::Error),
    /// The tree cannot take the directory's place.
    Swap(io::Error),
    /// The program is about to end.
    Stopped,
}

/// The first path in which the trees of hosts differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeDisagreement {
    /// The path in the tree.
    pub path: String,
    /// The hosts, and what each has there, in words.
    pub hosts: Vec<(String, String)>,
}

impl TreeError {
    /// Whether the tree may have changed at the hosts since it was listed, or the directory here.
    pub(super) fn may_be_a_change(&self) -> bool {
        match self {
            TreeError::Fetch(FetchError::NoReplica(_) | FetchError::Differ { .. })
            | TreeError::Plan(PlanError::Replaced) => true,
            TreeError::Fetch(FetchError::NoReplicaLeft { hosts, .. }) => {
                hosts.iter().any(|host| host.trouble == HostTrouble::Changed)
            }
            _ => false,
        }
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeError::Fetch(error) => error.fmt(f),
            TreeError::Plan(PlanError::Listing(error)) => write!(f, "the hosts sent {error}"),
            TreeError::Plan(error) => error.fmt(f),
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
            TreeError::Disagreement(found) => {
                write!(f, "the replicas differ in {}:", found.path)?;
                found.hosts.iter().try_for_each(|(host, has)| write!(f, "\n  {host}: {has}"))
            }
            TreeError::Beside(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                f.write_str("another process is about to swap the directory")
            }
            TreeError::Beside(error) => write!(f, "no tree can grow beside the directory: {error}"),
            TreeError::Swap(error) => write!(f, "the directory cannot be swapped: {error}"),
            TreeError::Stopped => f.write_str("the program ends"),
        }
    }
}

impl std::error::Error for TreeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TreeError::Fetch(error) => Some(error),
            TreeError::Plan(error) => error.source(),
            TreeError::Put(error) => Some(error),
            TreeError::Source(error) => Some(error),
            TreeError::Beside(error) | TreeError::Swap(error) => Some(error),
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

impl From<PlanError> for TreeError {
    fn from(error: PlanError) -> Self {
        TreeError::Plan(error)
    }
}

impl From<ListingError> for TreeError {
    fn from(error: ListingError) -> Self {
        PlanError::from(error).into()
    }
}

impl From<ScanError> for TreeError {
    fn from(error: ScanError) -> Self {
        PlanError::from(error).into()
    }
}
