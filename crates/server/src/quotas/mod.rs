//! Quotas of keys and addresses: transfers at one time, and bytes and files that are kept of their puts.
//!
//! Transfers are counted in memory and end with the process. What is kept is counted by name, in memory and in a
//! [ledger](ledger) that outlives the process and that servers of one directory share; files that are not there any more
//! are found when a quota would be exceeded, and when the server starts. The ledger is read when it is first of use.

mod account;
mod kept;
mod ledger;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::{Root, StoreError};
pub(super) use account::{Account, Exceeded};
use kept::{Changes, Kept};
pub(super) use ledger::stat_below;
use ledger::{Owned, is_there};

/// Pause after a look at the files that are accounted for, for each of them: a look takes a hundredth of that.
const PAUSE_A_FILE: Duration = Duration::from_micros(200);

/// Requests refused since a quota was used up, by the quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct QuotaRefusals {
    /// Of transfers at one time.
    pub sessions: u64,
    /// Of bytes.
    pub bytes: u64,
    /// Of files.
    pub files: u64,
}

/// What clients with quotas have.
#[derive(Debug)]
pub(super) struct Quotas {
    sessions: Mutex<BTreeMap<Arc<str>, u64>>,
    kept: Mutex<Kept>,
    refused: [AtomicU64; 3],
}

/// A transfer that counts, until dropped.
#[derive(Debug)]
pub(super) struct Session {
    quotas: Arc<Quotas>,
    owner: Arc<str>,
}

/// Room for files that are on their way, until dropped.
#[derive(Debug)]
pub(super) struct Promise {
    quotas: Arc<Quotas>,
    owner: Arc<str>,
    files: Vec<(String, u64)>,
    bytes: u64,
    new_files: u64,
}

/// Files that are about to have their names, and whose they were before.
struct Announced {
    files: Changes,
    before: Changes,
}

impl Quotas {
    /// Those of a directory, of which nothing is read yet.
    pub(super) fn new(root: Arc<Root>) -> Arc<Self> {
        let (sessions, kept) = (Mutex::default(), Mutex::new(Kept::new(root)));
        Arc::new(Quotas { sessions, kept, refused: Default::default() })
    }

    /// Reads what the directory has of whom, if that was kept. Files that are not as they were put count no more.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn read(&self) -> io::Result<()> {
        let mut kept = self.kept();
        kept.refresh()?;
        if kept.ledger.has_more_than(kept.files.len())
            && let Err(error) = kept.tidy()
        {
            tracing::warn!(%error, "the quota ledger cannot be written anew");
        }
        Ok(())
    }

    /// Counts a transfer.
    ///
    /// # Errors
    /// The client has as many as it may have.
    pub(super) fn session(
        self: &Arc<Self>,
        account: Option<&Account>,
    ) -> Result<Option<Session>, Exceeded> {
        let Some(Account { owner, shown, quota }) = account else { return Ok(None) };
        let Some(limit) = quota.sessions.map(NonZeroU64::get) else { return Ok(None) };
        let mut sessions = self.sessions();
        let own = sessions.entry(Arc::clone(owner)).or_default();
        if *own >= limit {
            return Err(self.count(Exceeded::Sessions { shown: shown.clone(), limit }));
        }
        *own += 1;
        Ok(Some(Session { quotas: Arc::clone(self), owner: Arc::clone(owner) }))
    }

    /// Promises room for files, by name and size. A file that replaces another of the client's takes room beside it
    /// until it is in its place, and is no further file.
    ///
    /// # Errors
    /// The client has as much as it may have.
    pub(super) fn promise(
        self: &Arc<Self>,
        account: &Account,
        files: Vec<(String, u64)>,
        now: Instant,
    ) -> Result<Promise, Exceeded> {
        let mut outcome = self.kept().refresh_and_promise(account, &files);
        if outcome.is_err() && self.forget_what_is_gone(now) {
            outcome = self.kept().promise(account, &files);
        }
        let (bytes, new_files) = outcome.map_err(|exceeded| self.count(exceeded))?;
        let owner = Arc::clone(&account.owner);
        Ok(Promise { quotas: Arc::clone(self), owner, files, bytes, new_files })
    }

    /// Has files get their names, for which room was promised. That they are the client's is on the disk before.
    ///
    /// # Errors
    /// Those of `place`; the ledger cannot be written.
    pub(super) fn place<T>(
        &self,
        promise: Promise,
        place: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let announced = self.announce(promise)?;
        let placed = place();
        match &placed {
            // Those that have their names are the client's, whatever the disk says of it.
            Ok(_) | Err(StoreError::Unsynced(_)) => self.confirm(announced),
            Err(_) => self.take_back(announced),
        }
        placed
    }

    /// Files are about to have their names: from now on they are the client's.
    fn announce(&self, mut promise: Promise) -> io::Result<Announced> {
        let owned = |size| Some(Owned { owner: Arc::clone(&promise.owner), size });
        let files = promise.files.iter().map(|(name, size)| (name.clone(), owned(*size)));
        let files: Changes = files.collect();
        let mut kept = self.kept();
        let before = kept.enter(files.clone(), true);
        promise.end(&mut kept);
        Ok(Announced { files, before: before? })
    }

    /// Files have their names. Whoever looked before which files are there may have taken them for gone.
    fn confirm(&self, Announced { mut files, .. }: Announced) {
        let mut kept = self.kept();
        // Who cannot read it is told of that when it is first of use.
        let _ = kept.refresh();
        let directory = kept.ledger.directory();
        files.retain(|(name, owned)| {
            let is_there = |owned: &Owned| is_there(&directory, name, owned.size);
            !kept.files.contains_key(name) && owned.as_ref().is_some_and(is_there)
        });
        kept.enter_if_possible(files);
    }

    /// Files did not all get their names. Of several those that are there now stay the client's; a single one that is
    /// there is another's.
    fn take_back(&self, Announced { files, before }: Announced) {
        let mut kept = self.kept();
        // As above.
        let _ = kept.refresh();
        let (directory, is_one) = (kept.ledger.directory(), before.len() == 1);
        let changed = files.iter().zip(before).filter(|((name, owned), _)| {
            // In another directory, say, it is another's by now.
            let is_so = kept.files.get(name) == owned.as_ref();
            let is_there = |owned: &Owned| is_there(&directory, name, owned.size);
            is_so && (is_one || !owned.as_ref().is_some_and(is_there))
        });
        let changed = changed.map(|(_, before)| before).collect();
        kept.enter_if_possible(changed);
    }

    /// Files have come from a client without a quota: they are nobody's any more.
    pub(super) fn disown<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut kept = self.kept();
        let gone = names.filter(|name| kept.files.contains_key(*name));
        let gone: Changes = gone.map(|name| (name.to_owned(), None)).collect();
        kept.enter_if_possible(gone);
    }

    /// Whether no file is accounted for.
    pub(super) fn is_empty(&self) -> bool {
        let mut kept = self.kept();
        if let Err(error) = kept.refresh() {
            tracing::debug!(%error, "looking whose a file is");
        }
        kept.files.is_empty()
    }

    /// Refusals so far.
    pub(super) fn refused(&self) -> QuotaRefusals {
        let [sessions, bytes, files] =
            self.refused.each_ref().map(|count| count.load(Ordering::Relaxed));
        QuotaRefusals { sessions, bytes, files }
    }

    fn count(&self, exceeded: Exceeded) -> Exceeded {
        let which = match exceeded {
            Exceeded::Sessions { .. } => 0,
            Exceeded::Bytes { .. } => 1,
            Exceeded::Files { .. } | Exceeded::Accounted => 2,
            Exceeded::Unread { .. } => return exceeded,
        };
        self.refused[which].fetch_add(1, Ordering::Relaxed);
        exceeded
    }

    /// Looks which files are there still, unless that was done a moment ago; whether some are gone.
    fn forget_what_is_gone(&self, now: Instant) -> bool {
        let (directory, files) = {
            let mut kept = self.kept();
            if kept.look_again.is_some_and(|at| now < at) {
                return false;
            }
            let count = u32::try_from(kept.files.len()).unwrap_or(u32::MAX);
            kept.look_again = Some(now + PAUSE_A_FILE * count);
            (kept.ledger.directory(), kept.files.clone())
        };
        // Without the lock: a disk may take its time.
        let gone = files.iter().filter(|(name, owned)| !is_there(&directory, name, owned.size));
        let gone: Vec<_> = gone.collect();
        let mut kept = self.kept();
        let same = gone.into_iter().filter(|(name, owned)| kept.files.get(*name) == Some(owned));
        let same: Changes = same.map(|(name, _)| (name.clone(), None)).collect();
        let some = !same.is_empty();
        kept.enter_if_possible(same);
        some
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, u64>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut sessions = self.quotas.sessions();
        if let Some(own) = sessions.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                sessions.remove(&self.owner);
            }
        }
    }
}

impl Promise {
    /// Nothing is promised any more: it is there, or does not come.
    fn end(&mut self, kept: &mut Kept) {
        let taken = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.new_files));
        kept.end_promise(&self.owner, taken);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.bytes > 0 || self.new_files > 0 {
            let quotas = Arc::clone(&self.quotas);
            self.end(&mut quotas.kept());
        }
    }
}

#[cfg(test)]
mod tests;
