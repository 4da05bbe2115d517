//! Digests of served objects: from the cache at once, otherwise computed once, in the background,
//! however many clients wait.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::page_turns::PageTurns;
use super::turns::{Asked, Turns};
use crate::driver::ControlMessage;
use crate::manifest::{Manifests, PageId, hash_sections, keep_sections, kept_sections};
use crate::store::{Digest, DigestCache, Fingerprint, HashProgress, Node, hash_file};

/// Failures remembered until somebody asks.
const MAX_FAILED: usize = 64;
/// Files of which it is remembered that they were verified.
const MAX_VERIFIED: usize = 1_024;
/// Files up to this length are verified at once \[bytes\]: it takes a millisecond or so.
const AT_ONCE: u64 = 4 << 20;
/// How long it is trusted that a file holds what was just read of it, if nothing shows that it has changed since: this,
/// or ten times as long as the reading took, at most the other. Who writes to a mapped file may leave no trace for that long,
/// and a disk may lose bytes at any time.
const TRUSTED: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3_600));

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

/// What a page of a file's manifest comes to.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Page {
    /// Its nodes.
    Nodes(Vec<Node>),
    /// It is to be [read](Digests::read_page) in its turn.
    ToRead,
    /// The file is being hashed, or waits for that.
    Pending,
    /// It would have to be computed, which was not allowed.
    Unknown,
}

/// What it takes to read a page and to answer the question for it.
#[derive(Debug)]
pub(crate) struct ToRead {
    pub(crate) file: File,
    pub(crate) name: String,
    pub(crate) asked: ControlMessage,
    pub(crate) nonce: u64,
}

pub(crate) struct Digests {
    cache: Arc<DigestCache>,
    manifests: Manifests,
    page_turns: Mutex<PageTurns<ToRead>>,
    jobs: Mutex<Jobs>,
    /// Questions that were answered from what is known.
    known: AtomicU64,
    /// Files whose bytes were read.
    computed: AtomicU64,
}

#[derive(Default)]
struct Jobs {
    turns: Turns,
    failed: BTreeMap<Fingerprint, String>,
    /// What files turned out to hold that were read to verify a digest.
    verified: BTreeMap<Fingerprint, Verified>,
}

impl Jobs {
    /// What a file was found to hold that is trusted still.
    fn verified(&mut self, file: &Fingerprint, now: Instant) -> Option<Digest> {
        let Verified { digest, until } = *self.verified.get(file)?;
        if until.is_none_or(|until| now >= until) {
            self.verified.remove(file);
        }
        until.is_none_or(|until| now < until).then_some(digest)
    }

    /// Keeps what was read of a file, which began at these times of the calendar and of the clock.
    fn keep_read(
        &mut self,
        (file, digest): (Fingerprint, Digest),
        (began, since): (SystemTime, Instant),
    ) {
        let now = crate::clock::now();
        let took = now.saturating_duration_since(since);
        let trusted = took.saturating_mul(10).clamp(TRUSTED.0, TRUSTED.1);
        let until = file.settled_at(began).then_some(now + trusted);
        if self.verified.len() >= MAX_VERIFIED {
            self.verified.retain(|_, old| old.until.is_some_and(|until| now < until));
        }
        if self.verified.len() >= MAX_VERIFIED {
            self.verified.pop_first();
        }
        self.verified.insert(file, Verified { digest, until });
    }
}

/// What is done with a digest that was computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// It becomes known.
    Learn,
    /// It is compared with one that was known.
    Verify,
}

/// What a file turned out to hold.
#[derive(Clone, Copy)]
struct Verified {
    digest: Digest,
    /// Until when that is trusted; absent if the file may have been written as it was read, and no time would show it: then
    /// it is told once.
    until: Option<Instant>,
}

/// On whose behalf a file may be read that is not known.
#[derive(Clone, Copy)]
pub(crate) struct Begin<'a> {
    /// Whose turn it takes.
    pub(crate) of: IpAddr,
    /// Is told when the work begins.
    pub(crate) told: &'a dyn Fn(),
}

impl Begin<'_> {
    /// Tells nobody.
    pub(crate) fn of(of: IpAddr) -> Self {
        Begin { of, told: &|| {} }
    }
}

impl Digests {
    pub(crate) fn new(cache: Arc<DigestCache>) -> Arc<Self> {
        Arc::new(Digests {
            cache,
            manifests: Manifests::default(),
            page_turns: Mutex::default(),
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

    /// The digest of a file's bytes, whatever is known of it: read for this call, or a short while before (a long file: in
    /// the background for the one that asks again). What was known and turns out to be wrong is forgotten.
    pub(crate) fn verify(
        self: &Arc<Self>,
        file: &File,
        fingerprint: Fingerprint,
        of: IpAddr,
    ) -> Known {
        let size = fingerprint.size();
        if size == 0 {
            return Known::Digest(Digest::of_nothing());
        }
        let mut jobs = self.lock();
        if let Some(digest) = jobs.verified(&fingerprint, crate::clock::now()) {
            return Known::Digest(digest);
        }
        if size > AT_ONCE {
            return self.run(jobs, file, fingerprint, Begin::of(of), Purpose::Verify);
        }
        drop(jobs);
        self.computed.fetch_add(1, Ordering::Relaxed);
        let (began, since) = (crate::clock::time_of_day(), crate::clock::now());
        match hash_file(file, size, &HashProgress::default()) {
            Ok(digest) => {
                self.correct(&fingerprint, digest, began);
                let unchanged = Fingerprint::of(file).is_ok_and(|now| now == fingerprint);
                if unchanged && fingerprint.settled_at(began) {
                    self.lock().keep_read((fingerprint, digest), (began, since));
                }
                Known::Digest(digest)
            }
            Err(error) => Known::Failed(error.to_string()),
        }
    }

    /// Replaces what is known of a file if it is something else.
    fn correct(&self, fingerprint: &Fingerprint, digest: Digest, began: SystemTime) {
        if self.cache.get(fingerprint).is_some_and(|known| known != digest) {
            self.cache.forget(fingerprint);
            self.cache.insert(*fingerprint, digest, began);
        }
    }

    /// The digest of a file, or how far it is; `begin` may be absent to forbid that the work begins now.
    pub(crate) fn of(
        self: &Arc<Self>,
        file: &File,
        fingerprint: Fingerprint,
        begin: Option<Begin<'_>>,
    ) -> Known {
        if fingerprint.size() == 0 {
            return Known::Digest(Digest::of_nothing());
        }
        let jobs = self.lock();
        if let Some(digest) = self.cache.get(&fingerprint) {
            self.known.fetch_add(1, Ordering::Relaxed);
            return Known::Digest(digest);
        }
        let Some(begin) = begin else { return Known::Unknown };
        self.run(jobs, file, fingerprint, begin, Purpose::Learn)
    }

    /// A page of a file's manifest, if it is at hand; otherwise the file is hashed on behalf of `of` if that is what it takes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn page(
        self: &Arc<Self>,
        file: &File,
        fingerprint: Fingerprint,
        digest: Digest,
        page: PageId,
        of: Option<IpAddr>,
    ) -> io::Result<Page> {
        let size = fingerprint.size();
        let at_hand = || self.manifests.page(digest, size, page, None);
        if let Some(nodes) = at_hand()? {
            return Ok(Page::Nodes(nodes));
        }
        let Some(of) = of else { return Ok(Page::Unknown) };
        if page.is_read(size) {
            return Ok(Page::ToRead);
        }
        if let Some(sections) = kept_sections(&self.cache, &digest, size) {
            self.manifests.learn(digest, sections);
            return Ok(at_hand()?.map_or(Page::Pending, Page::Nodes));
        }
        self.run(self.lock(), file, fingerprint, Begin::of(of), Purpose::Learn);
        Ok(Page::Pending)
    }

    /// Reads a page whose turn it is, unless it is at hand by now.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read_page(
        &self,
        file: &File,
        size: u64,
        (digest, page): (Digest, PageId),
    ) -> io::Result<Option<Vec<Node>>> {
        self.manifests.page(digest, size, page, Some(file))
    }

    /// Turns at that.
    pub(crate) fn page_turns(&self) -> MutexGuard<'_, PageTurns<ToRead>> {
        self.page_turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a file hashed in the background, unless that is under way. The lock is the one under which it was not known: what
    /// has just been read is not read once more.
    fn run(
        self: &Arc<Self>,
        mut jobs: MutexGuard<'_, Jobs>,
        file: &File,
        fingerprint: Fingerprint,
        begin: Begin<'_>,
        purpose: Purpose,
    ) -> Known {
        let file = match file.try_clone() {
            Ok(file) => file,
            Err(error) => return Known::Failed(error.to_string()),
        };
        if let Some(reason) = jobs.failed.remove(&fingerprint) {
            return Known::Failed(reason);
        }
        let progress = match jobs.turns.ask(fingerprint, begin.of, crate::clock::now()) {
            Asked::Runs(done) => return Known::Pending(done),
            Asked::Waits => return Known::Pending(0),
            Asked::Begins(progress) => progress,
        };
        drop(jobs);
        (begin.told)();
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
        let (began, since) = (crate::clock::time_of_day(), crate::clock::now());
        let computed = hash_sections(file, fingerprint.size(), progress);
        let unchanged = Fingerprint::of(file).is_ok_and(|now| now == fingerprint);
        let mut jobs = self.lock();
        jobs.turns.end(&fingerprint);
        match computed {
            Ok((digest, sections)) if unchanged => {
                keep_sections(&self.cache, &digest, &sections);
                self.manifests.learn(digest, sections);
                self.correct(&fingerprint, digest, began);
                match purpose {
                    Purpose::Learn => self.cache.insert(fingerprint, digest, began),
                    Purpose::Verify => jobs.keep_read((fingerprint, digest), (began, since)),
                }
            }
            // Whoever asks again sees the file's new state.
            Ok(_) => {}
            // Nobody has asked for it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
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
        self.lock().turns.end_all();
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
        let page_of = |digests: &Arc<Digests>, allowed: bool| {
            let of = allowed.then_some([192, 0, 2, 1].into());
            match digests.page(&file, fingerprint, digest, page, of).expect("read") {
                Page::Nodes(nodes) => Some(nodes),
                _ => None,
            }
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

    /// Reads a file until its digest is there.
    async fn verified(digests: &Arc<Digests>, file: &File) -> Digest {
        let fingerprint = Fingerprint::of(file).expect("stat");
        loop {
            match digests.verify(file, fingerprint, [192, 0, 2, 1].into()) {
                Known::Digest(digest) => return digest,
                Known::Pending(_) => tokio::task::yield_now().await,
                _ => panic!("no digest"),
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_is_read_once_to_verify_it_and_again_when_it_has_changed() {
        let home = tempfile::tempdir().expect("temporary directory");
        for len in [AT_ONCE, AT_ONCE + 1] {
            let path = home.path().join(len.to_string());
            std::fs::write(&path, vec![7; len as usize]).expect("written");
            let file = File::options().read(true).write(true).open(&path).expect("open");
            let modified = file.metadata().expect("stat").modified().expect("a time");
            let settled =
                || Fingerprint::of(&file).expect("stat").settled_at(crate::clock::time_of_day());
            while !settled() {
                tokio::task::yield_now().await;
            }
            let digests = Digests::new(Arc::new(DigestCache::in_memory()));
            let first = verified(&digests, &file).await;
            for _ in 0..3 {
                assert_eq!(verified(&digests, &file).await, first);
            }
            assert_eq!(digests.counts().1, 1, "read once");
            std::os::unix::fs::FileExt::write_at(&file, &[8], 0).expect("written");
            file.set_modified(modified).expect("the time that it had");
            assert_ne!(verified(&digests, &file).await, first, "what is there now");
        }
    }

    #[test]
    fn what_was_verified_is_trusted_for_a_while_or_told_once() {
        let home = tempfile::tempdir().expect("temporary directory");
        let file = File::create_new(home.path().join("x")).expect("made");
        let (fingerprint, digest) = (Fingerprint::of(&file).expect("stat"), Digest([7; 32]));
        let (day, now) = (crate::clock::time_of_day(), crate::clock::now());
        let mut jobs = Jobs::default();
        let began = day + Duration::from_secs(1);
        jobs.keep_read((fingerprint, digest), (began, now));
        assert_eq!(jobs.verified(&fingerprint, now), Some(digest));
        assert_eq!(jobs.verified(&fingerprint, now), Some(digest), "again");
        let later = crate::clock::now() + TRUSTED.0;
        assert_eq!(jobs.verified(&fingerprint, later), None, "a while is over");
        // It was written in this moment, perhaps once more without a trace.
        let began = day - Duration::from_secs(60);
        jobs.keep_read((fingerprint, digest), (began, now));
        assert_eq!(jobs.verified(&fingerprint, now), Some(digest));
        assert_eq!(jobs.verified(&fingerprint, now), None, "once");
    }
}
