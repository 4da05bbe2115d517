//! Quotas of keys and addresses: transfers at one time, and bytes and files that are kept of their puts.
//!
//! Transfers are counted in memory and end with the process. What is kept is counted by name, in memory and in a
//! [ledger](ledger) that outlives the process; files that are not there any more are found when a quota would be
//! exceeded, and when the server starts.

mod ledger;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wellspring_trust::{Identity, Quota};

use super::address_limit::source_of;
use crate::store::StoreError;
pub(super) use ledger::stat_below;
use ledger::{Ledger, Owned, is_there};

/// Files that are accounted for, at most: each takes its name and about a hundred bytes of memory.
const MAX_FILES: usize = 1_000_000;
/// Pause after a look at the files that are accounted for, for each of them: a look takes a hundredth of that.
const PAUSE_A_FILE: Duration = Duration::from_micros(200);

/// A client that has a quota.
#[derive(Clone, Debug)]
pub(super) struct Account {
    /// The key's fingerprint, or the address.
    owner: Arc<str>,
    /// As people know it.
    shown: String,
    quota: Quota,
}

impl Account {
    /// That of a key, or where there are no keys of an address; `None` if it has no quota.
    pub(super) fn of(
        identity: Option<&Identity>,
        client: SocketAddr,
        of_addresses: Quota,
    ) -> Option<Self> {
        let (owner, shown, quota) = match identity {
            Some(Identity { name, fingerprint, rights }) => {
                (fingerprint.to_string(), format!("key {name}"), rights.quota)
            }
            None => {
                let source = source_of(client).to_string();
                (source.clone(), source, of_addresses)
            }
        };
        (!quota.is_none()).then(|| Account { owner: owner.into(), shown, quota })
    }

    /// Whether what is kept of its puts is counted.
    pub(super) fn counts_what_is_kept(&self) -> bool {
        self.quota.bytes.is_some() || self.quota.files.is_some()
    }

    /// Files that it may have.
    pub(super) fn max_files(&self) -> Option<u64> {
        self.quota.files.map(NonZeroU64::get)
    }
}

/// A quota that forbids something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Exceeded {
    Sessions {
        shown: String,
        limit: u64,
    },
    Bytes {
        shown: String,
        quota: Quota,
        has: u64,
        wanted: u64,
    },
    Files {
        shown: String,
        limit: u64,
        has: u64,
        wanted: u64,
    },
    /// That of all clients together.
    Accounted,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = "or ask the server's operator for more";
        match self {
            Exceeded::Sessions { shown, limit } => write!(
                f,
                "quota max-sessions={limit} of {shown} is used up: wait until a transfer ends, {more}"
            ),
            Exceeded::Bytes { shown, quota, has, wanted } => write!(
                f,
                "quota {quota} of {shown}: it has {has} bytes there, and {wanted} more are too many; remove some, {more}"
            ),
            Exceeded::Files { shown, limit, has, wanted } => write!(
                f,
                "quota max-files={limit} of {shown}: it has {has} there, and {wanted} more are too many; remove some, {more}"
            ),
            Exceeded::Accounted => write!(
                f,
                "the server keeps accounts of {MAX_FILES} files already; ask its operator to remove some"
            ),
        }
    }
}

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

#[derive(Debug)]
struct Kept {
    files: BTreeMap<String, Owned>,
    used: BTreeMap<Arc<str>, Used>,
    ledger: Ledger,
    /// When it may be looked again which files are there.
    look_again: Option<Instant>,
}

/// What one client has of what is kept.
#[derive(Clone, Copy, Default, Debug)]
struct Used {
    bytes: u64,
    files: u64,
    /// The same of what is on its way.
    promised_bytes: u64,
    promised_files: u64,
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
    before: Vec<(String, Option<Owned>)>,
}

impl Quotas {
    /// Reads what a directory has of whom, if that was kept. Files that are not as they were put count no more.
    ///
    /// # Errors
    /// The ledger cannot be read or written.
    pub(super) fn open(directory: &Path) -> io::Result<Arc<Self>> {
        let (ledger, files) = Ledger::open(directory, MAX_FILES)?;
        let mut used: BTreeMap<Arc<str>, Used> = BTreeMap::new();
        for owned in files.values() {
            let used = used.entry(Arc::clone(&owned.owner)).or_default();
            (used.bytes, used.files) = (used.bytes.saturating_add(owned.size), used.files + 1);
        }
        let kept = Kept { files, used, ledger, look_again: None };
        let (sessions, kept) = (Mutex::default(), Mutex::new(kept));
        Ok(Arc::new(Quotas { sessions, kept, refused: Default::default() }))
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
        let mut outcome = self.kept().promise(account, &files);
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
        place().inspect_err(|error| {
            // Those that have their names are the client's, whatever the disk says of it.
            if !matches!(error, StoreError::Unsynced(_)) {
                self.take_back(announced);
            }
        })
    }

    /// Files are about to have their names: from now on they are the client's.
    fn announce(&self, mut promise: Promise) -> io::Result<Announced> {
        let owned = |size| Some(Owned { owner: Arc::clone(&promise.owner), size });
        let files = promise.files.iter().map(|(name, size)| (name.clone(), owned(*size)));
        let files = files.collect();
        let mut kept = self.kept();
        let before = kept.change(files);
        kept.end_promise(&mut promise);
        let written = kept.write(&before, true);
        if let Err(error) = written {
            kept.change(before);
            return Err(error);
        }
        Ok(Announced { before })
    }

    /// Files did not all get their names. Of several those that are there now stay the client's; a single one that is
    /// there is another's.
    fn take_back(&self, announced: Announced) {
        let Announced { mut before } = announced;
        let mut kept = self.kept();
        if before.len() > 1 {
            before.retain(|(name, _)| {
                let now = kept.files.get(name);
                now.is_some_and(|owned| !is_there(kept.ledger.directory(), name, owned.size))
            });
        }
        let changed = kept.change(before);
        // Lost, it is found at the next start which files are not there.
        let _ = kept.write(&changed, false);
    }

    /// Files have come from a client without a quota: they are nobody's any more.
    pub(super) fn disown<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut kept = self.kept();
        let gone = names.filter(|name| kept.files.contains_key(*name));
        let gone: Vec<_> = gone.map(|name| (name.to_owned(), None)).collect();
        if !gone.is_empty() {
            let changed = kept.change(gone);
            // As above.
            let _ = kept.write(&changed, false);
        }
    }

    /// Whether no file is accounted for.
    pub(super) fn is_empty(&self) -> bool {
        self.kept().files.is_empty()
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
            (kept.ledger.directory().to_owned(), kept.files.clone())
        };
        // Without the lock: a disk may take its time.
        let gone = files.iter().filter(|(name, owned)| !is_there(&directory, name, owned.size));
        let gone: Vec<_> = gone.collect();
        let mut kept = self.kept();
        let same = gone.into_iter().filter(|(name, owned)| kept.files.get(*name) == Some(owned));
        let same: Vec<_> = same.map(|(name, _)| (name.clone(), None)).collect();
        let some = !same.is_empty();
        let changed = kept.change(same);
        // As above.
        let _ = kept.write(&changed, false);
        some
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, u64>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Promises room; returns the bytes, and how many of the files are further ones.
    fn promise(
        &mut self,
        account: &Account,
        files: &[(String, u64)],
    ) -> Result<(u64, u64), Exceeded> {
        let Account { owner, shown, quota } = account;
        let shown = || shown.clone();
        let bytes = files.iter().fold(0_u64, |sum, (_, size)| sum.saturating_add(*size));
        let is_own = |name: &str| self.files.get(name).is_some_and(|file| file.owner == *owner);
        let new_files = files.iter().filter(|(name, _)| !is_own(name)).count() as u64;
        let promised: u64 = self.used.values().map(|used| used.promised_files).sum();
        let has = self.used.get(owner).copied().unwrap_or_default();
        let accounted = (self.files.len() as u64).saturating_add(promised);
        if accounted.saturating_add(new_files) > MAX_FILES as u64 {
            return Err(Exceeded::Accounted);
        }
        let had = has.files.saturating_add(has.promised_files);
        if let Some(limit) = quota.files.map(NonZeroU64::get)
            && new_files > limit.saturating_sub(had)
        {
            return Err(Exceeded::Files { shown: shown(), limit, has: had, wanted: new_files });
        }
        let had = has.bytes.saturating_add(has.promised_bytes);
        if let Some(limit) = quota.bytes
            && bytes > limit.get().saturating_sub(had)
        {
            let quota = Quota { bytes: Some(limit), ..Quota::NONE };
            return Err(Exceeded::Bytes { shown: shown(), quota, has: had, wanted: bytes });
        }
        let used = self.used.entry(Arc::clone(owner)).or_default();
        used.promised_bytes = used.promised_bytes.saturating_add(bytes);
        used.promised_files += new_files;
        Ok((bytes, new_files))
    }

    /// Gives files other owners, or none; returns those that they had.
    fn change(&mut self, files: Vec<(String, Option<Owned>)>) -> Vec<(String, Option<Owned>)> {
        let mut before = Vec::with_capacity(files.len());
        for (name, owned) in files {
            if let Some(Owned { owner, size }) = &owned {
                let used = self.used.entry(Arc::clone(owner)).or_default();
                used.bytes = used.bytes.saturating_add(*size);
                used.files += 1;
            }
            let had = match owned {
                Some(owned) => self.files.insert(name.clone(), owned),
                None => self.files.remove(&name),
            };
            if let Some(Owned { owner, size }) = &had {
                self.release(owner, |used| {
                    used.bytes = used.bytes.saturating_sub(*size);
                    used.files = used.files.saturating_sub(1);
                });
            }
            before.push((name, had));
        }
        before
    }

    /// Writes the present owners of files that were changed into the ledger.
    fn write(&mut self, changed: &[(String, Option<Owned>)], sync: bool) -> io::Result<()> {
        let now = changed.iter().map(|(name, _)| (name.as_str(), self.files.get(name)));
        self.ledger.append(now, sync)?;
        if self.ledger.is_long(self.files.len()) {
            self.ledger.rewrite(&self.files)?;
        }
        Ok(())
    }

    /// Nothing is promised any more: it is there, or does not come.
    fn end_promise(&mut self, promise: &mut Promise) {
        let (bytes, files) =
            (std::mem::take(&mut promise.bytes), std::mem::take(&mut promise.new_files));
        self.release(&promise.owner, |used| {
            used.promised_bytes = used.promised_bytes.saturating_sub(bytes);
            used.promised_files = used.promised_files.saturating_sub(files);
        });
    }

    /// Takes from what a client has; who has nothing is forgotten.
    fn release(&mut self, owner: &Arc<str>, take: impl FnOnce(&mut Used)) {
        let Some(used) = self.used.get_mut(owner) else { return };
        take(used);
        let Used { bytes, files, promised_bytes, promised_files } = *used;
        if bytes | files | promised_bytes | promised_files == 0 {
            self.used.remove(owner);
        }
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

impl Drop for Promise {
    fn drop(&mut self) {
        if self.bytes > 0 || self.new_files > 0 {
            let quotas = Arc::clone(&self.quotas);
            quotas.kept().end_promise(self);
        }
    }
}

#[cfg(test)]
mod tests;
