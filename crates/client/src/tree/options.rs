//! Options and account of a tree that is fetched.

use std::path::Path;
use std::time::Duration;

use wellspring_core::Priority;

use super::super::{Cut, FetchOptions, Updates};
use crate::store::tree::listing::{Keeps, Selection, SkipReason, TreeName, TreePart};
use crate::store::tree::{Plan, PlanOptions, Swapped, TreeFilter};
use crate::store::{Digest, Existing, ObjectName};
use wellspring_driver::setters;

/// Which tree is fetched, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TreeOptions {
    /// The directory; `None` is all that is served.
    pub directory: Option<ObjectName>,
    /// The files of the directory alone, without those in its directories.
    pub level: bool,
    /// What becomes of files here that have other bytes: [`Existing::Keep`] ends the fetch with [`Exists`] where that is not
    /// a file that the same fetch has put there.
    ///
    /// [`Exists`]: crate::store::StoreError::Exists
    pub existing: Existing,
    /// Remove what the tree does not have.
    pub delete: bool,
    /// Let the tree grow beside the directory, and swap both when all of it is there.
    pub atomic: bool,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// Compare the files' digests, not only their lengths and times.
    pub checksum: bool,
    /// Owners, extended attributes and access control lists, if they are to be kept.
    pub keeps: Keeps,
    /// What of the tree is fetched.
    pub filter: TreeFilter,
    /// Take names, too, that begin with a dash, or hold characters that are invisible or turn the direction of writing.
    pub allow_odd_names: bool,
    /// Take names that begin with a dot into the user's home directory, too. Other directories get them in any case.
    pub allow_hidden: bool,
    /// Its turns among the other transfers: of all that is fetched or put.
    pub priority: Priority,
    /// How objects are cut.
    pub cut: Cut,
    /// Where updates go. They are of all the bytes together.
    pub updates: Updates,
}

setters! {
    TreeOptions {
        directory: Option<ObjectName>,
        level: bool,
        existing: Existing,
        delete: bool,
        atomic: bool,
        dry_run: bool,
        checksum: bool,
        keeps: Keeps,
        filter: TreeFilter,
        allow_odd_names: bool,
        allow_hidden: bool,
        priority: Priority,
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
            existing: Existing::Replace,
            delete: false,
            atomic: false,
            dry_run: false,
            checksum: false,
            keeps: Keeps::default(),
            filter: TreeFilter::default(),
            allow_odd_names: false,
            allow_hidden: false,
            priority: Priority::Normal,
            cut: Cut::default(),
            updates: Updates::default(),
        }
    }

    /// The same into that directory: its names are the servers' choice.
    pub(super) fn for_directory(&self, directory: &Path) -> Self {
        let mut options = self.clone();
        if !self.allow_odd_names {
            options.filter = options.filter.without_odd();
        }
        if !self.allow_hidden && is_home(directory) {
            options.filter = options.filter.without_hidden();
        }
        options
    }

    /// What is to be done here.
    pub(super) fn plan(&self) -> PlanOptions {
        PlanOptions {
            deep: !self.level,
            existing: self.existing,
            delete: self.delete,
            dry_run: self.dry_run,
            checksum: self.checksum,
            keeps: self.keeps,
            filter: self.filter.clone(),
            pack_name_len: self.pack_name_len(),
            ..PlanOptions::default()
        }
    }

    /// Length of the name of a pack without its selection \[bytes\].
    pub(super) fn pack_name_len(&self) -> usize {
        self.name(TreePart::Files { listing: [0; 16], files: Selection::default() }).len()
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
        let options = FetchOptions::new(name).cut(self.cut).priority(self.priority);
        let mut options = options.updates(updates);
        options.tree_part = Some(part);
        options.longest = longest;
        options
    }
}

/// Whether it is the user's home directory, where programs look for what they are to do.
fn is_home(directory: &Path) -> bool {
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    home.is_some() && directory.canonicalize().ok() == home
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
    /// What of it was here already, and was not moved: of large files that an earlier fetch had begun, or that had
    /// another time alone \[bytes\].
    pub resumed_bytes: u64,
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
    /// How it took the place of the directory, if that was to happen at once.
    pub swapped: Option<Swapped>,
}

impl TreeReport {
    /// Takes in what a round comes to.
    pub(super) fn add(&mut self, plan: &Plan) {
        (self.files, self.bytes) = (plan.files, plan.bytes);
        self.made += plan.made;
        (self.skipped, self.skipped_count) = (plan.skipped.clone(), plan.skipped_count);
    }
}
