//! Trees that clients put, and the steps in which they come.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use super::listed::Listed;
use super::quotas::stat_below;
use crate::store::tree::listing::{Content, Keeps, ListingError};
use crate::store::tree::{Loosened, PlanError, PlanOptions, TreeTarget, Wanted, folded};
use crate::store::{Existing, ObjectName, Root, StoreError, next_name};

/// The listing of a tree that a client puts.
pub(super) struct TakenTree {
    pub(super) listed: Listed,
    /// Whether it has the digests of files.
    pub(super) has_digests: bool,
    /// Which owners and attributes it has of its entries.
    pub(super) keeps: Keeps,
    /// Whether it takes the place of its directory as a whole: until then it grows beside that.
    pub(super) atomic: bool,
    /// Why it cannot be taken.
    pub(super) refused: Option<String>,
    /// Directories that were made for it, and may get the modes and times of the listing.
    pub(super) made: Arc<Mutex<BTreeSet<String>>>,
    /// Directories in which files are written that their owner, this server, could not change.
    pub(super) loosened: Mutex<Option<Arc<Loosened>>>,
    /// Keeps the tree that grows beside the directory from being removed, or written by programs of this machine.
    pub(super) next: Mutex<Option<File>>,
}

/// What becomes of an object of a tree when it has arrived.
#[derive(Clone)]
pub(super) enum TreeStep {
    Listing { directory: String, atomic: bool, of: IpAddr },
    Pack { tree: Arc<TakenTree>, files: Vec<Wanted>, existing: Existing },
    File { tree: Arc<TakenTree>, file: Wanted, existing: Existing },
    Clear { tree: Arc<TakenTree> },
    Finish { tree: Arc<TakenTree>, existing: Existing },
}

impl TreeStep {
    /// What the operator is told that it is; packs and listings are many, and part of the whole.
    pub(super) fn shown(&self) -> Option<String> {
        match self {
            TreeStep::File { tree, file, .. } => Some(in_directory(tree.directory(), &file.path)),
            TreeStep::Finish { tree, .. } => Some(format!("{}/", tree.directory())),
            _ => None,
        }
    }

    /// The files that it puts in their places, and their lengths.
    pub(super) fn files(&self) -> Vec<(String, u64)> {
        let (tree, files) = match self {
            TreeStep::Pack { tree, files, .. } => (tree, &files[..]),
            TreeStep::File { tree, file, .. } => (tree, std::slice::from_ref(file)),
            TreeStep::Listing { .. } | TreeStep::Clear { .. } | TreeStep::Finish { .. } => {
                return Vec::new();
            }
        };
        let place = |file: &Wanted| (in_directory(tree.directory(), &file.path), file.size);
        files.iter().map(place).collect()
    }

    /// Whether its part file is one of an object, which stays if it is not whole.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, TreeStep::File { .. })
    }
}

impl TakenTree {
    pub(super) fn directory(&self) -> &str {
        self.listed.directory()
    }

    /// The directory that its files are written into.
    pub(super) fn place(&self) -> String {
        match self.atomic {
            true => next_to(self.directory()),
            false => self.directory().to_owned(),
        }
    }

    /// Reads and checks a listing; `name` says why an object of that name cannot be taken.
    pub(super) fn new(
        (listed, atomic): (Listed, bool),
        folds_case: bool,
        name: impl Fn(&str) -> Result<ObjectName, StoreError>,
    ) -> Result<Self, ListingError> {
        let (mut has_digests, mut refused, mut keeps) = (false, None, Keeps::default());
        let mut seen = folds_case.then(BTreeSet::new);
        let mut cursor = listed.before(0);
        while let Some(entry) = cursor.next_entry()? {
            if let Content::Skipped(_) = entry.content {
                continue;
            }
            keeps = keeps.or(entry.attributes.keeps);
            has_digests |= matches!(entry.content, Content::File { digest: Some(_), .. });
            if refused.is_some() {
                continue;
            }
            if let Err(error) = name(&in_directory(listed.directory(), entry.path)) {
                refused = Some(format!("{}: {error}", entry.path));
            } else if seen.as_mut().is_some_and(|seen| !seen.insert(folded(entry.path))) {
                refused = Some(PlanError::Case(entry.path.to_owned()).to_string());
            }
        }
        Ok(TakenTree {
            listed,
            has_digests,
            keeps,
            atomic,
            refused,
            made: Arc::default(),
            loosened: Mutex::default(),
            next: Mutex::default(),
        })
    }

    pub(super) fn options(&self, existing: Existing) -> PlanOptions {
        PlanOptions { existing, surplus_in_full: true, ..PlanOptions::default() }
    }
}

impl TakenTree {
    /// The directory that its files are written into, which is open.
    pub(super) fn target(&self, root: OwnedFd) -> TreeTarget {
        let mut loosened = self.loosened.lock().unwrap_or_else(PoisonError::into_inner);
        TreeTarget::sharing(root, &mut loosened)
    }

    /// What is listed that has no bytes and that is not served: empty files, directories, links; one more than
    /// `limit` at most.
    pub(super) fn missing_without_bytes(&self, root: &Root, limit: u64) -> Vec<(String, u64)> {
        let (mut missing, mut cursor) = (Vec::new(), self.listed.before(0));
        let root = root.directory();
        // It was read to its end before.
        while let Ok(Some(entry)) = cursor.next_entry() {
            let has_none = match entry.content {
                Content::File { size, .. } => size == 0,
                Content::Directory | Content::Link { .. } => true,
                Content::Skipped(_) => false,
            };
            let name = in_directory(self.directory(), entry.path);
            if has_none && stat_below(&root, &name).is_err() {
                missing.push((name, 0));
                if missing.len() as u64 > limit {
                    break;
                }
            }
        }
        missing
    }

    /// Makes the directories above files.
    pub(super) fn make_parents(
        &self,
        target: &mut TreeTarget,
        files: &[Wanted],
        existing: Existing,
    ) -> Result<(), StoreError> {
        let modes = OnceCell::new();
        let mode = |directory: &str| {
            let modes: &BTreeMap<String, u16> = modes.get_or_init(|| self.modes_above(files));
            modes.get(directory).copied().unwrap_or(0o700)
        };
        for Wanted { path, .. } in files {
            let made =
                target.make_parents(path, existing, mode).map_err(|error| at(path, error))?;
            if !made.is_empty() {
                self.made.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
            }
        }
        Ok(())
    }

    /// The modes of the directories above files, as listed.
    fn modes_above(&self, files: &[Wanted]) -> BTreeMap<String, u16> {
        let mut modes = BTreeMap::new();
        for Wanted { path, .. } in files {
            let ends = path.match_indices('/').map(|(end, _)| path[..end].to_owned());
            modes.extend(ends.map(|directory| (directory, 0o700)));
        }
        let mut cursor = self.listed.before(0);
        // It was read to its end before.
        while let Ok(Some(entry)) = cursor.next_entry() {
            if entry.content == Content::Directory
                && let Some(mode) = modes.get_mut(entry.path)
            {
                *mode = entry.mode;
            }
        }
        modes
    }
}

/// The error of something at that path.
pub(super) fn at(path: &str, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::AlreadyExists
        | io::ErrorKind::DirectoryNotEmpty
        | io::ErrorKind::IsADirectory => StoreError::Exists(path.to_owned()),
        kind => StoreError::Io(io::Error::new(kind, format!("{path}: {error}"))),
    }
}

/// The directory that is to take the place of another, beside that.
pub(super) fn next_to(directory: &str) -> String {
    let (parent, name) = directory.rsplit_once('/').unwrap_or(("", directory));
    in_directory(parent, &next_name(name))
}

/// The name of something in a directory that is served.
pub(super) fn in_directory(directory: &str, path: &str) -> String {
    if directory.is_empty() { path.to_owned() } else { format!("{directory}/{path}") }
}
