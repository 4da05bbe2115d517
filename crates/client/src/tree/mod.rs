//! Fetching a tree: one listing, packs of small files, and large files by themselves.

mod error;
mod gather;
mod options;
mod progress;
mod put_report;
mod transfer;
mod upload;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::{Client, Target};
use crate::Host;
use crate::store::tree::Plan;
use crate::store::tree::listing::{MAX_LISTING_LEN, TreePart};

pub use crate::store::tree::{TreeChange, TreeFilter, TreeListing};
pub use error::TreeError;
use gather::{Gather, collected};
pub use options::{TreeOptions, TreeReport};
pub use put_report::{PutTreeOptions, PutTreeReport, TreeReceiver};

/// How often a tree that changes while it is fetched is listed again.
const ROUNDS: usize = 4;

impl Client {
    /// The manifest of a tree from all hosts that serve it, which must agree.
    ///
    /// # Errors
    /// [`TreeError`].
    pub async fn list(
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
        let (fetched, resumed) = (Arc::new(Mutex::new((0, 0))), AtomicU64::new(0));
        let (count, told) = (Arc::clone(&fetched), hear);
        let hear: Arc<dyn Fn(TreeChange) + Send + Sync> = Arc::new(move |change| {
            if let TreeChange::Fetched(_, len) = &change {
                let mut fetched = count.lock().unwrap_or_else(PoisonError::into_inner);
                *fetched = (fetched.0 + 1, fetched.1 + len);
            }
            told(change);
        });
        loop {
            let listing = self.list(hosts, options).await?;
            report.digest = Some(listing.digest);
            let plan = Plan::make(&options.plan(), listing, directory, Arc::clone(&hear));
            let plan = crate::task::spawn_blocking(plan).await;
            let plan = plan.map_err(|_| TreeError::Stopped)??;
            let round = self.move_files(hosts, options, &plan, (&hear, &resumed)).await;
            report.add(&plan);
            report.resumed_bytes = resumed.load(Ordering::Relaxed);
            (report.fetched_files, report.fetched_bytes) =
                *fetched.lock().unwrap_or_else(PoisonError::into_inner);
            match round {
                Ok(()) => {
                    let removed = crate::task::spawn_blocking(move || plan.finish());
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
