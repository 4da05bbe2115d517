//! Pages of a fetched object's manifest, asked for while the object arrives.

use std::collections::BTreeSet;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use wellspring_wire::control::Cookie;

use super::requester::AskError;
use crate::manifest::{Manifest, PageId, WrongPage, parse_nodes};
use crate::task::JoinSet;

/// Pages asked for at one time, over all replicas.
const AT_ONCE: usize = 16;
/// How far ahead of the first missing block pages are asked for \[bytes\]: half a second's worth at
/// 10 Gbit/s.
const AHEAD: u64 = 512 << 20;

/// How long a replica may take to answer before another is asked for the same page, too: several round trips of most
/// paths. On longer ones the first answer still counts.
const HEDGE_AFTER: Duration = Duration::from_millis(500);

/// A manifest that several parts of a fetch look at.
pub type SharedManifest = Arc<Mutex<Manifest>>;

/// The pages that are requested, and the replicas that they are requested from.
pub struct Pages {
    /// What is known of the manifest.
    pub manifest: SharedManifest,
    size: u64,
    asked: BTreeSet<PageId>,
    /// Proof of this host's address for requests to each share's replica.
    cookies: Vec<Arc<tokio::sync::Mutex<Cookie>>>,
    /// Whose turn it is.
    turn: usize,
}

/// A page to ask a share's replica for.
pub struct Question {
    /// Whose replica is asked.
    pub share: usize,
    /// The page.
    pub page: PageId,
    /// Proof of this host's address, renewed by whoever is challenged.
    pub cookie: Arc<tokio::sync::Mutex<Cookie>>,
}

impl Pages {
    /// Nothing asked for yet, of that many replicas.
    pub fn new(manifest: Manifest, size: u64, shares: usize) -> Self {
        Pages {
            manifest: Arc::new(Mutex::new(manifest)),
            size,
            asked: BTreeSet::new(),
            cookies: (0..shares).map(|_| Arc::default()).collect(),
            turn: 0,
        }
    }

    /// The next requests for what is missing of the object, to replicas of which `is_live` holds.
    pub fn next(&mut self, missing: Range<u64>, is_live: impl Fn(usize) -> bool) -> Vec<Question> {
        let done = missing.start;
        let range = done..missing.end.min(done.saturating_add(AHEAD));
        let mut manifest = lock(&self.manifest);
        manifest.forget_below(done);
        let wanted = manifest.wanted(range, 2 * AT_ONCE);
        drop(manifest);
        self.ask(wanted, is_live)
    }

    /// Questions for these pages, as far as they are not asked for already.
    pub fn ask(
        &mut self,
        wanted: impl IntoIterator<Item = PageId>,
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

    /// A question with those that follow it if it is not answered: for the same page, to the other replicas of which
    /// `is_live` holds.
    pub fn with_others(&self, first: Question, is_live: impl Fn(usize) -> bool) -> Vec<Question> {
        let (shares, page) = (self.cookies.len(), first.page);
        let others = (first.share + 1..first.share + shares).map(|share| share % shares);
        let others = others.filter(|share| is_live(*share)).map(|share| {
            let cookie = Arc::clone(&self.cookies[share]);
            Question { share, page, cookie }
        });
        std::iter::once(first).chain(others).collect()
    }

    /// A page came that was asked for.
    ///
    /// # Errors
    /// It is not the object's.
    pub fn answered(&mut self, page: PageId, bytes: &[u8]) -> Result<(), WrongPage> {
        self.asked.remove(&page);
        let nodes = parse_nodes(page, self.size, bytes)?;
        lock(&self.manifest).accept(page, nodes)
    }

    /// Nothing that was asked for is waited for any more.
    pub fn forget_questions(&mut self) {
        self.asked.clear();
    }

    /// A page did not come.
    pub fn unanswered(&mut self, page: PageId) {
        self.asked.remove(&page);
    }
}

/// The first answer to one of these questions, each of a share's replica, and whose share it came from. Each is asked when
/// those before it have failed or were not answered for a while: a replica that died holds nothing up for as long as it is
/// waited for.
pub async fn first_answer<Asked>(
    questions: Vec<(usize, Asked)>,
) -> Option<(usize, Result<Vec<u8>, AskError>)>
where
    Asked: Future<Output = Result<Vec<u8>, AskError>> + Send + 'static,
{
    let mut questions = questions.into_iter();
    let mut asked = JoinSet::new();
    let mut failed = None;
    loop {
        if let Some((share, answer)) = questions.next() {
            asked.spawn(async move { (share, answer.await) });
        }
        let answered = match questions.len() {
            0 => asked.join_next().await,
            _ => match timeout(HEDGE_AFTER, asked.join_next()).await {
                Ok(answered) => answered,
                Err(_) => continue,
            },
        };
        match answered {
            Some(Ok((
                share,
                Err(
                    error @ (AskError::NoAnswer(_)
                    | AskError::PortClosed
                    | AskError::Unreachable(_)),
                ),
            ))) => {
                failed = Some((share, Err(error)));
            }
            Some(Ok(answer)) => return Some(answer),
            // Its task was ended with the program.
            Some(Err(_)) => {}
            None => return failed,
        }
    }
}

/// The manifest, whatever became of other threads that had it.
pub fn lock(manifest: &Mutex<Manifest>) -> MutexGuard<'_, Manifest> {
    manifest.lock().unwrap_or_else(PoisonError::into_inner)
}
