//! Digests of served objects: from the cache at once, otherwise computed once, in the background,
//! however many clients wait.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::store::{Digest, DigestCache, Fingerprint, HashProgress, hash_file};

/// Files hashed at one time; further ones wait their turn.
const MAX_RUNNING: usize = 2;
/// Failures remembered until somebody asks.
const MAX_FAILED: usize = 64;

/// What is known of a file's digest.
pub(crate) enum Known {
    Digest(Digest),
    /// It is being computed, or waits its turn: so many bytes are done.
    Pending(u64),
    /// It could not be computed.
    Failed(String),
    /// It would have to be computed, which was not allowed.
    Unknown,
}

pub(crate) struct Digests {
    cache: Arc<DigestCache>,
    jobs: Mutex<Jobs>,
}

#[derive(Default)]
struct Jobs {
    running: BTreeMap<Fingerprint, HashProgress>,
    failed: BTreeMap<Fingerprint, String>,
}

impl Digests {
    pub(crate) fn new(cache: Arc<DigestCache>) -> Arc<Self> {
        Arc::new(Digests { cache, jobs: Mutex::default() })
    }

    pub(crate) fn cached(&self, fingerprint: &Fingerprint) -> Option<Digest> {
        self.cache.get(fingerprint)
    }

    /// Keeps a digest that is known because the object was just verified.
    pub(crate) fn learn(&self, file: &File, digest: Digest) {
        if let Ok(fingerprint) = Fingerprint::of(file) {
            self.cache.insert_own(fingerprint, digest);
        }
    }

    /// The digest of a file, or how far it is; `begin` is told when the work begins now, and may
    /// be absent to forbid that.
    pub(crate) fn of(
        self: &Arc<Self>,
        file: &File,
        fingerprint: Fingerprint,
        begin: Option<&dyn Fn()>,
    ) -> Known {
        if fingerprint.size() == 0 {
            return Known::Digest(Digest::of_nothing());
        }
        if let Some(digest) = self.cache.get(&fingerprint) {
            return Known::Digest(digest);
        }
        let Some(begin) = begin else { return Known::Unknown };
        let mut jobs = self.lock();
        if let Some(reason) = jobs.failed.remove(&fingerprint) {
            return Known::Failed(reason);
        }
        if let Some(progress) = jobs.running.get(&fingerprint) {
            return Known::Pending(progress.done());
        }
        if jobs.running.len() >= MAX_RUNNING {
            return Known::Pending(0);
        }
        let file = match file.try_clone() {
            Ok(file) => file,
            Err(error) => return Known::Failed(error.to_string()),
        };
        let progress = HashProgress::default();
        jobs.running.insert(fingerprint, progress.clone());
        drop(jobs);
        begin();
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || this.compute(&file, fingerprint, &progress));
        Known::Pending(0)
    }

    fn compute(&self, file: &File, fingerprint: Fingerprint, progress: &HashProgress) {
        let began = SystemTime::now();
        let computed = hash_file(file, fingerprint.size(), progress);
        let unchanged = Fingerprint::of(file).is_ok_and(|now| now == fingerprint);
        let mut jobs = self.lock();
        jobs.running.remove(&fingerprint);
        match computed {
            Ok(digest) if unchanged => self.cache.insert(fingerprint, digest, began),
            // Whoever asks again sees the file's new state.
            Ok(_) => {}
            Err(error) => {
                if jobs.failed.len() >= MAX_FAILED {
                    jobs.failed.pop_first();
                }
                jobs.failed.insert(fingerprint, error.to_string());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work for nobody is not gone on with.
impl Drop for Digests {
    fn drop(&mut self) {
        self.lock().running.values().for_each(HashProgress::stop);
    }
}
