//! Fetching a tree: one listing, packs of small files, and large files by themselves.

mod disagreement;
mod error;
mod gather;
mod moved;
mod options;
mod progress;
mod put_report;
mod transfer;
mod unfinished;
mod upload;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::{Client, Target};
use crate::Host;
use crate::store::tree::listing::{Cursor, MAX_LISTING_LEN, TreePart};
use crate::store::tree::{NextTree, Plan};
use crate::task::Boxed;

pub use crate::store::tree::{LinksOut, Swapped, TreeChange, TreeFilter, TreeListing};
pub use error::{TreeDisagreement, TreeError};
use gather::{Gather, collected};
use moved::Moved;
pub use options::{TreeOptions, TreeReport};
pub use put_report::{HearPut, PutTreeOptions, PutTreeReport, TreeReceiver};
use unfinished::Unfinished;

/// How often a tree that changes while it is fetched is listed again.
const ROUNDS: usize = 4;

impl Client {
    /// The manifest of a tree from all hosts that serve it, which must agree.
    ///
    /// # Errors
    /// [`TreeError`]; of hosts that differ it names the first path in which they do.
    pub fn list<'a>(
        &'a self,
        hosts: &'a [Host],
        options: &'a TreeOptions,
    ) -> Boxed<'a, Result<TreeListing, TreeError>> {
        Box::pin(async move {
            match self.listed(hosts, options).await {
                Ok(listing) => Ok(listing),
                Err(error) => Err(self.locate(error, (hosts, options), None).await),
            }
        })
    }

    /// As [`list`](Self::list), without a search for what differs.
    async fn listed(
        &self,
        hosts: &[Host],
        options: &TreeOptions,
    ) -> Result<TreeListing, TreeError> {
        let (keeps, digests) = (options.keeps, options.checksum);
        let part = match (options.level, digests) {
            (true, _) => TreePart::Level,
            _ if !keeps.is_nothing() => TreePart::Attributes { keeps, digests },
            (false, true) => TreePart::Digests,
            (false, false) => TreePart::Listing,
        };
        let (gather, bytes) = Gather::new();
        let target = Target::Writer(Box::new(gather));
        let updates = options.updates.quiet();
        let fetch = options.fetch(options.name(part), MAX_LISTING_LEN as u64, updates);
        let report = self.fetch(hosts, &fetch, target).await?;
        Ok(TreeListing { bytes: Arc::new(collected(&bytes)), digest: report.digest })
    }

    /// Makes a directory hold the tree that the hosts serve, and moves only what differs: files whose
    /// length or time of modification is another. A file takes its name complete and verified. What is
    /// in the directory besides stays, unless it is to be [removed](TreeOptions::delete). The directory can be
    /// [swapped](TreeOptions::atomic) when all is there.
    ///
    /// # Errors
    /// [`TreeError`]. What is in place by then stays, and a later call goes on from there.
    pub fn fetch_tree<'a>(
        &'a self,
        hosts: &'a [Host],
        options: &'a TreeOptions,
        directory: &'a Path,
        hear: Arc<dyn Fn(TreeChange) + Send + Sync>,
    ) -> Boxed<'a, Result<TreeReport, TreeError>> {
        Box::pin(async move {
            let options = &options.for_directory(directory);
            if !options.atomic || options.dry_run {
                let fetched = self.fetch_into(hosts, options, (directory, None), hear).await?;
                return Ok(fetched.0);
            }
            let began = Instant::now();
            let directory = directory.to_owned();
            let next = blocking(move || NextTree::claim(&directory)).await?;
            let next = Arc::new(next.map_err(TreeError::Beside)?);
            let into = (next.path(), Some(&next));
            let (mut report, listing) = self.fetch_into(hosts, options, into, hear).await?;
            let (deletes, filter) = (options.delete, options.filter.clone());
            let swap = move || swap(&next, &listing, &filter, deletes);
            report.swapped = Some(blocking(swap).await??);
            report.elapsed = began.elapsed();
            Ok(report)
        })
    }

    /// Fetches into a directory, or into a tree that is to take the place of another and is to have what that has. Returns
    /// what was listed, too.
    async fn fetch_into(
        &self,
        hosts: &[Host],
        options: &TreeOptions,
        (directory, next): (&Path, Option<&Arc<NextTree>>),
        hear: Arc<dyn Fn(TreeChange) + Send + Sync>,
    ) -> Result<(TreeReport, TreeListing), TreeError> {
        let began = Instant::now();
        let mut report = TreeReport::default();
        let (moved, resumed) = (Arc::new(Moved::default()), AtomicU64::new(0));
        let (noted, told, existing) = (Arc::clone(&moved), hear, options.existing);
        let hear: Arc<dyn Fn(TreeChange) + Send + Sync> = Arc::new(move |change| {
            if let TreeChange::Fetched(path, len) = &change {
                noted.note(path, *len, existing);
            }
            told(change);
        });
        loop {
            let listing = self.list(hosts, options).await?;
            report.digest = Some(listing.digest);
            if let Some(next) = next.filter(|next| !next.is_whole() && report.listed_again == 0) {
                // So that it is among what is to be removed, if that is asked for.
                adopt(next, &listing, options).await?;
            }
            let of_listing = listing.clone();
            let plan = Plan::make(&options.plan(), listing, directory, Arc::clone(&hear));
            let plan = Unfinished::new(blocking(plan).await??);
            let round = self.move_files(hosts, options, &plan, (&hear, &moved, &resumed)).await;
            report.add(&plan);
            report.resumed_bytes = resumed.load(Ordering::Relaxed);
            (report.fetched_files, report.fetched_bytes) = moved.counts();
            let round = match round {
                Ok(()) => {
                    if let Some(next) = next {
                        adopt(next, &of_listing, options).await?;
                    }
                    blocking(move || plan.take().finish()).await?.map_err(TreeError::Plan)
                }
                Err(error) => Err(error),
            };
            match round {
                Ok(removed) => {
                    report.removed = removed;
                    report.elapsed = began.elapsed();
                    return Ok((report, of_listing));
                }
                Err(error)
                    if error.may_be_a_change() && (report.listed_again as usize) < ROUNDS =>
                {
                    report.listed_again += 1;
                }
                Err(error) => {
                    return Err(self.locate(error, (hosts, options), Some(&of_listing)).await);
                }
            }
        }
    }
}

/// Gives a tree what the other one has besides what is listed.
async fn adopt(
    next: &Arc<NextTree>,
    listing: &TreeListing,
    options: &TreeOptions,
) -> Result<(), TreeError> {
    let (next, listing, filter) = (Arc::clone(next), listing.clone(), options.filter.clone());
    blocking(move || next.adopt(Cursor::new(&listing.bytes)?, &filter).map_err(TreeError::Beside))
        .await?
}

/// Has a tree take the place of the other one. What that was given in this moment is kept, if it is not listed; where what
/// is not listed goes, only what the filter leaves out.
fn swap(
    next: &NextTree,
    listing: &TreeListing,
    filter: &TreeFilter,
    deletes: bool,
) -> Result<Swapped, TreeError> {
    let listed = Cursor::new(&listing.bytes)?;
    if !deletes {
        return next.swap(Some((listed, filter))).map_err(TreeError::Swap);
    }
    if filter.is_everything() {
        return next.swap(None).map_err(TreeError::Swap);
    }
    let all = next.listed_or_lost(listed, |_| true).map_err(TreeError::Swap)?;
    next.swap(Some((Cursor::new(all.as_bytes())?, filter))).map_err(TreeError::Swap)
}

/// Runs what blocks its thread.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TreeError> {
    crate::task::spawn_blocking(run).await.map_err(|_| TreeError::Stopped)
}
