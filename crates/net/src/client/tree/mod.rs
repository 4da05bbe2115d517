//! Fetching a tree: one listing, packs of small files, and large files by themselves.

mod error;
mod plan;
mod progress;
mod transfer;

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Client, Cut, FetchOptions, Target, Updates};
use crate::address::Host;
use crate::setters::setters;
use crate::store::tree::listing::{MAX_LISTING_LEN, SkipReason, TreeName, TreePart};
use crate::store::{Digest, ObjectName};

pub use error::TreeError;
use plan::Plan;

/// How often a tree that changes while it is fetched is listed again.
const ROUNDS: usize = 4;

/// Says whether what has a path in a tree belongs to what is fetched. Of a directory that does not,
/// nothing does.
#[derive(Clone)]
pub struct TreeFilter(Arc<dyn Fn(&str, bool) -> bool + Send + Sync>);

impl TreeFilter {
    /// By a function of the path, and whether that is of a directory.
    pub fn by(belongs: impl Fn(&str, bool) -> bool + Send + Sync + 'static) -> Self {
        TreeFilter(Arc::new(belongs))
    }
}

impl Default for TreeFilter {
    /// Everything.
    fn default() -> Self {
        TreeFilter::by(|_, _| true)
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
    /// Remove what the tree does not have.
    pub delete: bool,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// Compare the files' digests, not only their lengths and times.
    pub checksum: bool,
    /// What of the tree is fetched.
    pub filter: TreeFilter,
    /// How objects are cut.
    pub cut: Cut,
    /// Where updates go. They are of all the bytes together.
    pub updates: Updates,
}

setters! {
    TreeOptions {
        directory: Option<ObjectName>,
        delete: bool,
        dry_run: bool,
        checksum: bool,
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
            delete: false,
            dry_run: false,
            checksum: false,
            filter: TreeFilter::default(),
            cut: Cut::default(),
            updates: Updates::default(),
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

impl Client {
    /// The manifest of a tree from all hosts that serve it, which must agree.
    ///
    /// # Errors
    /// [`TreeError`].
    pub async fn list(
        &self,
        hosts: &[Host],
        options: &TreeOptions,
        level: bool,
    ) -> Result<TreeListing, TreeError> {
        let part = match (level, options.checksum) {
            (true, _) => TreePart::Level,
            (false, true) => TreePart::Digests,
            (false, false) => TreePart::Listing,
        };
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let target = Target::Writer(Box::new(Gather(Arc::clone(&bytes))));
        let updates = options.updates.quiet();
        let fetch = options.fetch(options.name(part), MAX_LISTING_LEN as u64, updates);
        let report = self.fetch(hosts, &fetch, target).await?;
        let bytes = std::mem::take(&mut *bytes.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(TreeListing { bytes: Arc::new(bytes), digest: report.digest })
    }

    /// Makes a directory hold the tree that the hosts serve, and moves only what differs: files whose
    /// length or time of modification is another. A file takes its name complete and verified. What is
    /// in the directory besides stays, unless it is to be [removed](TreeOptions::delete).
    ///
    /// # Errors
    /// [`TreeError`]. What is in place by then stays, and a later call goes on from there.
    pub async fn fetch_tree(
        &self,
        hosts: &[Host],
        options: &TreeOptions,
        directory: &Path,
        hear: Arc<dyn Fn(TreeChange) + Send + Sync>,
    ) -> Result<TreeReport, TreeError> {
        let began = Instant::now();
        let mut report = TreeReport::default();
        let fetched = Arc::new(Mutex::new((0, 0)));
        let (count, told) = (Arc::clone(&fetched), hear);
        let hear: Arc<dyn Fn(TreeChange) + Send + Sync> = Arc::new(move |change| {
            if let TreeChange::Fetched(_, len) = &change {
                let mut fetched = count.lock().unwrap_or_else(PoisonError::into_inner);
                *fetched = (fetched.0 + 1, fetched.1 + len);
            }
            told(change);
        });
        loop {
            let listing = self.list(hosts, options, false).await?;
            report.digest = Some(listing.digest);
            let plan = Plan::make(options, listing, directory, Arc::clone(&hear));
            let plan = tokio::task::spawn_blocking(plan).await;
            let plan = plan.map_err(|_| TreeError::Stopped)??;
            let round = self.move_files(hosts, options, &plan, &hear).await;
            plan.add_to(&mut report);
            (report.fetched_files, report.fetched_bytes) =
                *fetched.lock().unwrap_or_else(PoisonError::into_inner);
            match round {
                Ok(()) => {
                    let removed = tokio::task::spawn_blocking(move || plan.finish());
                    report.removed = removed.await.map_err(|_| TreeError::Stopped)??;
                    report.elapsed = began.elapsed();
                    return Ok(report);
                }
                Err(error)
                    if error.may_be_a_change() && (report.listed_again as usize) < ROUNDS =>
                {
                    report.listed_again += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Takes bytes into memory that someone else has a hold of.
struct Gather(Arc<Mutex<Vec<u8>>>);

impl Write for Gather {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() + bytes.len() > MAX_LISTING_LEN {
            return Err(io::Error::other("a listing that is too long"));
        }
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
