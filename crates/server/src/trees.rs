//! Listings and packs that were made of trees, within a bound of memory and disk.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use wellspring_wire::control::Cookie;

use super::address_limit::source_of;
use super::listed::Listed;
use super::shelf::{NoRoom, Shelf};
use super::taken_tree::TakenTree;
use crate::store::tree::PackState;
use crate::store::{Digest, Fingerprint, HashProgress};

/// Directories that are remembered of trees whose listings are kept no more.
const MAX_LEFT: usize = 1024;
/// What was made and is kept on the disk, at most.
const MAX_MADE: usize = 64;
/// And its length together, at most, unless it is but one: enough for clients that fetch the same at the same time, and
/// little enough that what is made next is written where the memory is in use already \[bytes\].
const MAX_MADE_LEN: u64 = 64 << 20;
/// Requests to make something that are remembered.
const MAX_JOBS: usize = 256;
/// Of these under way at one time, at most: they hold threads.
const MAX_RUNNING: usize = 8;
/// Of these for one address, at most: reading all files of a directory can take hours.
const MAX_RUNNING_AN_ADDRESS: usize = 2;
/// What nobody has asked for so long is not gone on with. Clients ask at least once a second.
const UNASKED: Duration = Duration::from_secs(30);

/// What was made of trees.
#[derive(Default)]
pub(super) struct Trees {
    kept: Mutex<Kept>,
    /// Held while a listing that was put is read: one at a time is in memory besides those that are kept.
    pub(super) reading: Mutex<()>,
    /// Held while a tree is made beside a directory, or takes its place; after `places`.
    pub(super) swapping: Mutex<()>,
    /// Held while a tree is brought onto the disk; after `places`.
    pub(super) settling: Mutex<()>,
    /// Shared by those who put something into a directory, and held by whoever looks whether a tree is complete that is to
    /// take the place of one, until it has. True once the server has ended: then nothing is written any more.
    pub(super) places: RwLock<bool>,
    /// Of the walks of trees at their end: stops them once the server has ended.
    pub(super) walking: HashProgress,
    /// Whether names that differ in case alone are the same in the served directory, once that was looked at.
    pub(super) folds_case: OnceLock<bool>,
}

impl Trees {
    pub(super) fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is kept of them.
#[derive(Default)]
pub(super) struct Kept {
    /// Those that were made, and of trees that are being put.
    listings: Shelf<Listed>,
    taken: Shelf<TakenTree>,
    /// Directories that earlier ones were, or are, written into.
    left: VecDeque<String>,
    made: VecDeque<Made>,
    jobs: VecDeque<Job>,
}

/// An object that was made.
#[derive(Clone)]
pub(super) struct Made {
    pub name: String,
    pub file: Arc<File>,
    pub fingerprint: Fingerprint,
    pub digest: Digest,
    /// Of a pack: the state of the files that it was made of, if another would show.
    pub of: Option<PackState>,
}

/// A request to make something, known by the cookie that pays for it.
struct Job {
    client: SocketAddr,
    cookie: Cookie,
    /// Absent while it is under way.
    made: Option<Digest>,
    /// When its client last asked for it, and what ends it.
    asked: Instant,
    progress: HashProgress,
}

impl Kept {
    /// A listing by its directory and the first half of its digest.
    pub(super) fn listing(&mut self, directory: &str, id: [u8; 16]) -> Option<Arc<Listed>> {
        self.listings.find(|l| l.directory() == directory && l.digest().0[..16] == id)
    }

    /// What became of what that cookie paid for: nothing yet if it is being made; absent if it was not
    /// asked for.
    pub(super) fn of_job(&mut self, client: SocketAddr, cookie: Cookie) -> Option<Option<Digest>> {
        let job = self.job(client, cookie)?;
        job.asked = crate::clock::now();
        Some(job.made)
    }

    /// Begins to make something for a cookie: what shows whether that is to end. Nothing if too much is under way, of all or
    /// of the client's.
    pub(super) fn begin_job(&mut self, client: SocketAddr, cookie: Cookie) -> Option<HashProgress> {
        let running = || self.jobs.iter().filter(|job| job.made.is_none());
        let own = running().filter(|job| source_of(job.client) == source_of(client));
        if running().count() >= MAX_RUNNING || own.count() >= MAX_RUNNING_AN_ADDRESS {
            return None;
        }
        self.forget_job(client, cookie);
        let finished = self.jobs.iter().position(|job| job.made.is_some());
        if self.jobs.len() >= MAX_JOBS
            && let Some(oldest) = finished
        {
            self.jobs.remove(oldest);
        }
        let (progress, asked) = (HashProgress::default(), crate::clock::now());
        self.jobs.push_back(Job { client, cookie, made: None, asked, progress: progress.clone() });
        Some(progress)
    }

    /// Ends what is made for clients that have not asked for it for a while: they are gone.
    pub(super) fn end_unasked(&self, now: Instant) {
        let unasked =
            |job: &&Job| job.made.is_none() && now.saturating_duration_since(job.asked) >= UNASKED;
        self.jobs.iter().filter(unasked).for_each(|job| job.progress.stop());
    }

    /// Notes what was made for a cookie; nothing if it could not be.
    pub(super) fn end_job(&mut self, client: SocketAddr, cookie: Cookie, made: Option<Digest>) {
        match made {
            None => self.forget_job(client, cookie),
            Some(_) => {
                if let Some(job) = self.job(client, cookie) {
                    job.made = made;
                }
            }
        }
    }

    /// A tree that is being put, by its directory and the first half of its listing's digest.
    pub(super) fn taken(&mut self, directory: &str, id: [u8; 16]) -> Option<Arc<TakenTree>> {
        self.taken
            .find(|tree| tree.listed.directory() == directory && tree.listed.digest().0[..16] == id)
    }

    /// Directories into which trees are, or were, put: the latest.
    pub(super) fn places(&self) -> BTreeSet<String> {
        self.taken.iter().map(|tree| tree.place()).chain(self.left.iter().cloned()).collect()
    }

    /// Keeps the listing of a tree that an address puts.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn keep_taken(&mut self, of: IpAddr, mut tree: TakenTree) -> Result<(), NoRoom> {
        // Listed anew, since it changed or since the put was interrupted: what was made for it is still its own.
        let before =
            self.taken.iter().rev().find(|t| t.listed.directory() == tree.listed.directory());
        if let Some(before) = before {
            tree.made = Arc::clone(&before.made);
        }
        let len = tree.listed.len();
        let gone = self.taken.keep(of, (tree, len), |a, b| a.listed.is_same(&b.listed))?;
        for place in gone.iter().map(|tree| tree.place()) {
            if !self.left.contains(&place) {
                self.left.push_back(place);
            }
        }
        self.left.drain(..self.left.len().saturating_sub(MAX_LEFT));
        Ok(())
    }

    fn forget_job(&mut self, client: SocketAddr, cookie: Cookie) {
        self.jobs.retain(|job| job.client != client || job.cookie != cookie);
    }

    fn job(&mut self, client: SocketAddr, cookie: Cookie) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.client == client && job.cookie == cookie)
    }

    /// An object that is kept; of several of that name the last.
    pub(super) fn made(&self, name: &str, digest: Option<Digest>) -> Option<Made> {
        let fits = |made: &&Made| made.name == name && digest.is_none_or(|d| d == made.digest);
        self.made.iter().rev().find(fits).cloned()
    }

    pub(super) fn keep_made(&mut self, made: Made) {
        self.made.retain(|old| old.name != made.name || old.digest != made.digest);
        self.made.push_back(made);
        let len = |made: &VecDeque<Made>| made.iter().map(|m| m.fingerprint.size()).sum::<u64>();
        while self.made.len() > MAX_MADE || self.made.len() > 1 && len(&self.made) > MAX_MADE_LEN {
            self.made.pop_front();
        }
    }

    /// Keeps a listing that was made for an address.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn keep_listing(&mut self, of: IpAddr, listed: Listed) -> Result<(), NoRoom> {
        let len = listed.len();
        self.listings.keep(of, (listed, len), Listed::is_same).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_have_everything_that_is_made_at_one_time() {
        let mut kept = Kept::default();
        let client = |host: u8, port: u16| SocketAddr::from(([192, 0, 2, host], port));
        let cookie = |number| Cookie([number; 16]);
        let begun =
            (0..9).filter(|n| kept.begin_job(client(1, 7 + u16::from(*n)), cookie(*n)).is_some());
        assert_eq!(begun.count(), MAX_RUNNING_AN_ADDRESS);
        assert!(kept.begin_job(client(2, 7), cookie(9)).is_some(), "another address");
        kept.end_job(client(1, 7), cookie(0), Some(Digest([0; 32])));
        assert!(kept.begin_job(client(1, 7), cookie(10)).is_some(), "one has ended");
        assert!(kept.begin_job(client(1, 7), cookie(11)).is_none());
        kept.end_job(client(1, 7), cookie(10), None);
        assert!(kept.begin_job(client(1, 7), cookie(11)).is_some(), "one could not be made");
        let begun =
            (3..20).filter(|host| kept.begin_job(client(*host, 7), cookie(*host)).is_some());
        assert_eq!(begun.count(), MAX_RUNNING - 3);
    }

    #[test]
    fn what_nobody_asks_for_any_more_is_ended() {
        let mut kept = Kept::default();
        let (client, cookie) = (SocketAddr::from(([192, 0, 2, 1], 7)), Cookie([7; 16]));
        let progress = kept.begin_job(client, cookie).expect("a place");
        kept.end_unasked(crate::clock::now());
        assert!(progress.add(0).is_ok(), "it was asked for in this moment");
        let later = crate::clock::now() + UNASKED;
        assert_eq!(kept.of_job(client, cookie), Some(None));
        kept.end_unasked(later - Duration::from_millis(1));
        assert!(progress.add(0).is_ok(), "it was asked for again");
        kept.end_unasked(later + UNASKED);
        assert!(progress.add(0).is_err());
    }
}
