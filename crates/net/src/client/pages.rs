//! Pages of a fetched object's manifest, asked for while the object arrives.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wellspring_wire::control::Cookie;

use crate::manifest::{Manifest, PageId, WrongPage, parse_nodes};

/// Pages asked for at one time, over all replicas.
const AT_ONCE: usize = 16;
/// How far ahead of the first missing block pages are asked for \[bytes\]: half a second's worth at
/// 10 Gbit/s.
const AHEAD: u64 = 512 << 20;

/// A manifest that several parts of a fetch look at.
pub(crate) type SharedManifest = Arc<Mutex<Manifest>>;

/// The pages that are requested, and the replicas that they are requested from.
pub(crate) struct Pages {
    pub(crate) manifest: SharedManifest,
    size: u64,
    asked: BTreeSet<PageId>,
    /// Proof of this host's address for requests to each share's replica.
    cookies: Vec<Arc<tokio::sync::Mutex<Cookie>>>,
    /// Whose turn it is.
    turn: usize,
}

/// A page to ask a share's replica for.
pub(crate) struct Question {
    pub(crate) share: usize,
    pub(crate) page: PageId,
    pub(crate) cookie: Arc<tokio::sync::Mutex<Cookie>>,
}

impl Pages {
    /// Nothing asked for yet, of that many replicas.
    pub(crate) fn new(manifest: Manifest, size: u64, shares: usize) -> Self {
        Pages {
            manifest: Arc::new(Mutex::new(manifest)),
            size,
            asked: BTreeSet::new(),
            cookies: (0..shares).map(|_| Arc::default()).collect(),
            turn: 0,
        }
    }

    /// The next requests for what is missing of the object, to replicas of which `is_live` holds.
    pub(crate) fn next(
        &mut self,
        missing: Range<u64>,
        is_live: impl Fn(usize) -> bool,
    ) -> Vec<Question> {
        let done = missing.start;
        let range = done..missing.end.min(done.saturating_add(AHEAD));
        let mut manifest = lock(&self.manifest);
        manifest.forget_below(done);
        let wanted = manifest.wanted(range, 2 * AT_ONCE);
        drop(manifest);
        self.ask(wanted, is_live)
    }

    /// Questions for these pages, as far as they are not asked for already.
    pub(crate) fn ask(
        &mut self,
        wanted: Vec<PageId>,
        is_live: impl Fn(usize) -> bool,
    ) -> Vec<Question> {
        let mut questions = Vec::new();
        for page in wanted {
            if self.asked.len() >= AT_ONCE {
                break;
            }
            let shares = self.cookies.len();
            let mut turns = (self.turn + 1..=self.turn + shares).map(|turn| turn % shares);
            let Some(share) = turns.find(|share| is_live(*share)) else { break };
            if self.asked.insert(page) {
                self.turn = share;
                let cookie = Arc::clone(&self.cookies[share]);
                questions.push(Question { share, page, cookie });
            }
        }
        questions
    }

    /// A page came that was asked for.
    ///
    /// # Errors
    /// It is not the object's.
    pub(crate) fn answered(&mut self, page: PageId, bytes: &[u8]) -> Result<(), WrongPage> {
        self.asked.remove(&page);
        let nodes = parse_nodes(page, self.size, bytes)?;
        lock(&self.manifest).accept(page, nodes)
    }

    /// Nothing that was asked for is waited for any more.
    pub(crate) fn forget_questions(&mut self) {
        self.asked.clear();
    }

    /// A page did not come.
    pub(crate) fn unanswered(&mut self, page: PageId) {
        self.asked.remove(&page);
    }
}

pub(crate) fn lock(manifest: &Mutex<Manifest>) -> MutexGuard<'_, Manifest> {
    manifest.lock().unwrap_or_else(PoisonError::into_inner)
}
