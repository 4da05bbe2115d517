//! Digests of served objects: from the cache at once, otherwise computed once, in the background,
//! however many clients wait.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::manifest::{Manifests, PageId, hash_sections, keep_sections, kept_sections};
use crate::store::{Digest, DigestCache, Fingerprint, HashProgress, Node, hash_file};

/// Files hashed at one time; further ones wait their turn.
const MAX_RUNNING: usize = 2;
/// Failures remembered until somebody asks, and files verified until somebody asks.
const MAX_FAILED: usize = 64;
/// Files up to this length are verified at once \[bytes\]: it takes a millisecond or so.
const AT_ONCE: u64 = 4 << 20;

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
    manifests: Manifests,
    jobs: Mutex<Jobs>,
    /// Questions that were answered from what is known.
    known: AtomicU64,
    /// Files whose bytes were read.
    computed: AtomicU64,
}

#[derive(Default)]
struct Jobs {
    running: BTreeMap<Fingerprint, HashProgress>,
    failed: BTreeMap<Fingerprint, String>,
    /// What files turned out to hold that were read to verify a digest.
    verified: BTreeMap<Fingerprint, Digest>,
}

/// What is done with a digest that was computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// It becomes known.
    Learn,
    /// It is compared with one that was known.
    Verify,
}

impl Digests {
    pub(crate) fn new(cache: Arc<DigestCache>) -> Arc<Self> {
        Arc::new(Digests {
            cache,
            manifests: Manifests::default(),
            jobs: Mutex::default(),
            known: AtomicU64::new(0),
            computed: AtomicU64::new(0),
        })
    }

    /// The digest of a file that was made to be sent, and that has these bytes, computed now.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn of_made(&self, file: &File, bytes: &[u8]) -> io::Result<Digest> {
        let len = bytes.len() as u64;
        if len <= AT_ONCE {
            return Ok(Digest(*blake3::hash(bytes).as_bytes()));
        }
        let (digest, sections) = hash_sections(file, len, &HashProgress::default())?;
        self.manifests.learn(digest, sections);
        Ok(digest)
    }

    pub(crate) fn cached(&self, fingerprint: &Fingerprint) -> Option<Digest> {
        self.cache.get(fingerprint)
    }

    /// Keeps the digest of a file that was written and verified here, by the state its own
    /// descriptor had in its place.
    pub(crate) fn learn(&self, written: Fingerprint, digest: Digest) {
        self.cache.insert_own(written, digest);
    }

    /// The digest of a file's bytes as they are now, whatever is known of it: read for this call
    /// (or, a long file, in the background for the one that asks again). What was known and turns
    /// out to be wrong is forgotten.
    pub(crate) fn verify(self: &Arc<Self>, file: &File, fingerprint: Fingerprint) -> Known {
        let size = fingerprint.size();
        if size == 0 {
            return Known::Digest(Digest::of_nothing());
        }
        if size <= AT_ONCE {
            let began = crate::clock::time_of_day();
            return match hash_file(file, size, &HashProgress::default()) {
                Ok(digest) => {
                    self.correct(&fingerprint, digest, began);
                    Known::Digest(digest)
                }
                Err(error) => Known::Failed(error.to_string()),
            };
        }
        if let Some(digest) = self.lock().verified.remove(&fingerprint) {
            return Known::Digest(digest);
        }
        self.run(file, fingerprint, &|| {}, Purpose::Verify)
    }

    /// Replaces what is known of a file if it is something else.
    fn correct(&self, fingerprint: &Fingerprint, digest: Digest, began: SystemTime) {
        if self.cache.get(fingerprint).is_some_and(|known| known != digest) {
            self.cache.forget(fingerprint);
            self.cache.insert(*fingerprint, digest, began);
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
            self.known.fetch_add(1, Ordering::Relaxed);
            return Known::Digest(digest);
        }
        let Some(begin) = begin else { return Known::Unknown };
        self.run(file, fingerprint, begin, Purpose::Learn)
    }

    /// A page of a file's manifest. `None`: it would have to be computed, which was not `allowed`, or
    /// is being computed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn page(
        self: &Arc<Self>,
        file: &File,
        fingerprint: Fingerprint,
        digest: Digest,
        page: PageId,
        allowed: bool,
    ) -> io::Result<Option<Vec<Node>>> {
        let (readable, size) = (allowed.then_some(file), fingerprint.size());
        let nodes = self.manifests.page(digest, size, page, readable)?;
        if nodes.is_some() || !allowed {
            return Ok(nodes);
        }
        if let Some(sections) = kept_sections(&self.cache, &digest, size) {
            self.manifests.learn(digest, sections);
            return self.manifests.page(digest, size, page, readable);
        }
        self.run(file, fingerprint, &|| {}, Purpose::Learn);
        Ok(None)
    }

    /// Has a file hashed in the background, unless that is under way.
    fn run(
        self: &Arc<Self>,
        file: &File,
        fingerprint: Fingerprint,
        begin: &dyn Fn(),
        purpose: Purpose,
    ) -> Known {
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
        crate::task::spawn_blocking(move || this.compute(&file, fingerprint, &progress, purpose));
        Known::Pending(0)
    }

    fn compute(
        &self,
        file: &File,
        fingerprint: Fingerprint,
        progress: &HashProgress,
        purpose: Purpose,
    ) {
        self.computed.fetch_add(1, Ordering::Relaxed);
        let began = crate::clock::time_of_day();
        let computed = hash_sections(file, fingerprint.size(), progress);
        let unchanged = Fingerprint::of(file).is_ok_and(|now| now == fingerprint);
        let mut jobs = self.lock();
        jobs.running.remove(&fingerprint);
        match computed {
            Ok((digest, sections)) if unchanged => {
                keep_sections(&self.cache, &digest, &sections);
                self.manifests.learn(digest, sections);
                self.correct(&fingerprint, digest, began);
                match purpose {
                    Purpose::Learn => self.cache.insert(fingerprint, digest, began),
                    Purpose::Verify => {
                        if jobs.verified.len() >= MAX_FAILED {
                            jobs.verified.pop_first();
                        }
                        jobs.verified.insert(fingerprint, digest);
                    }
                }
            }
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

    /// How many digests were known when asked for, and how many were computed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.known.load(Ordering::Relaxed), self.computed.load(Ordering::Relaxed))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_has_started_again_gives_the_upper_pages_at_once() {
        const LEN: u64 = 80 << 20;
        let home = tempfile::tempdir().expect("temporary directory");
        let file = File::create_new(home.path().join("x")).expect("made");
        file.set_len(LEN).expect("sparse");
        let file = File::open(home.path().join("x")).expect("open");
        let fingerprint = Fingerprint::of(&file).expect("stat");
        let page = PageId { node_len: 4 << 20, index: 0 };
        let digest = hash_file(&file, LEN, &HashProgress::default()).expect("hashed");
        let digests = || {
            let cache = DigestCache::open(&home.path().join("cache")).expect("opens");
            let digests = Digests::new(Arc::new(cache));
            digests.learn(fingerprint, digest);
            digests
        };
        let page_of = |digests: &Arc<Digests>, allowed| {
            digests.page(&file, fingerprint, digest, page, allowed).expect("read")
        };
        let first = digests();
        assert_eq!(page_of(&first, true), None, "to be hashed");
        let nodes = loop {
            match page_of(&first, true) {
                Some(nodes) => break nodes,
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(nodes.len(), 20);
        let again = digests();
        assert_eq!(page_of(&again, false), None, "reading the disk needs a cookie");
        assert_eq!(page_of(&again, true), Some(nodes));
    }
}
