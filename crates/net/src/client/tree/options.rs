//! Options, listing and account of a tree that is fetched.

use std::sync::Arc;
use std::time::Duration;

use super::super::{Cut, FetchOptions, Updates};
use crate::store::tree::listing::{Keeps, SkipReason, TreeName, TreePart};
use crate::store::{Digest, Existing, ObjectName};
use wellspring_driver::setters;

/// Says whether what has a path in a tree belongs to what is fetched. Of a directory that does not,
/// nothing does.
#[derive(Clone)]
pub struct TreeFilter(Option<Arc<Belongs>>);

type Belongs = dyn Fn(&str, bool) -> bool + Send + Sync;

impl TreeFilter {
    /// By a function of the path, and whether that is of a directory.
    pub fn by(belongs: impl Fn(&str, bool) -> bool + Send + Sync + 'static) -> Self {
        TreeFilter(Some(Arc::new(belongs)))
    }

    pub(super) fn belongs(&self, path: &str, is_directory: bool) -> bool {
        self.0.as_ref().is_none_or(|belongs| belongs(path, is_directory))
    }

    /// Whether everything belongs.
    pub(super) fn is_everything(&self) -> bool {
        self.0.is_none()
    }
}

impl Default for TreeFilter {
    /// Everything.
    fn default() -> Self {
        TreeFilter(None)
    }
}

impl std::fmt::Debug for TreeFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TreeFilter")
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
}

/// Which tree is fetched, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TreeOptions {
    /// The directory; `None` is all that is served.
    pub directory: Option<ObjectName>,
    /// The files of the directory alone, without those in its directories.
    pub level: bool,
    /// Remove what the tree does not have.
    pub delete: bool,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// Compare the files' digests, not only their lengths and times.
    pub checksum: bool,
    /// Owners, extended attributes and access control lists, if they are to be kept.
    pub keeps: Keeps,
    /// What of the tree is fetched.
    pub filter: TreeFilter,
    /// How objects are cut.
    pub cut: Cut,
    /// Where updates go. They are of all the bytes together.
    pub updates: Updates,
    /// What becomes of files here that differ.
    pub(crate) existing: Existing,
    /// Surplus is said path by path, what is in a directory too.
    pub(crate) surplus_in_full: bool,
}

setters! {
    TreeOptions {
        directory: Option<ObjectName>,
        level: bool,
        delete: bool,
        dry_run: bool,
        checksum: bool,
        keeps: Keeps,
        filter: TreeFilter,
        cut: Cut,
        updates: Updates,
    }
}

impl TreeOptions {
    /// The tree below that directory; `None` is all that is served.
    pub fn new(directory: Option<ObjectName>) -> Self {
        TreeOptions {
            directory,
            level: false,
            delete: false,
            dry_run: false,
            checksum: false,
            keeps: Keeps::default(),
            filter: TreeFilter::default(),
            cut: Cut::default(),
            updates: Updates::default(),
            existing: Existing::Replace,
            surplus_in_full: false,
        }
    }

    pub(super) fn name(&self, part: TreePart) -> String {
        let directory = self.directory.as_ref().map_or("", ObjectName::as_str);
        TreeName { directory, part }.to_string()
    }

    /// A fetch of a part of the tree.
    pub(super) fn fetch(&self, part: String, longest: u64, updates: Updates) -> FetchOptions {
        // The name of the object is not asked for; it only has to be one.
        let name = self
            .directory
            .clone()
            .unwrap_or_else(|| ObjectName::new("tree").expect("a word is a name"));
        let mut options = FetchOptions::new(name).cut(self.cut).updates(updates);
        options.tree_part = Some(part);
        options.longest = longest;
        options
    }
}

/// The manifest of a tree, as a server has it.
#[derive(Clone, Debug)]
pub struct TreeListing {
    /// Its bytes: read them by a [`Cursor`](crate::store::tree::listing::Cursor).
    pub bytes: Arc<Vec<u8>>,
    /// Their digest, which is that of the tree.
    pub digest: Digest,
}

/// Account of a tree that is in place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TreeReport {
    /// Regular files of the tree.
    pub files: u64,
    /// Their length \[bytes\].
    pub bytes: u64,
    /// Files that were fetched.
    pub fetched_files: u64,
    /// Their length \[bytes\].
    pub fetched_bytes: u64,
    /// Directories and links that were made or mended.
    pub made: u64,
    /// What was removed; a directory counts once.
    pub removed: u64,
    /// What was left out, and why: the first hundred.
    pub skipped: Vec<(String, SkipReason)>,
    /// How much was left out.
    pub skipped_count: u64,
    /// Digest of the tree's listing.
    pub digest: Option<Digest>,
    /// All of it.
    pub elapsed: Duration,
    /// How often the tree was listed again, since it had changed.
    pub listed_again: u32,
}
