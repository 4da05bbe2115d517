//! State of a verification of what an earlier offer has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Silence after which a client that offers the same bytes again is not kept waiting for the earlier offer: the client
/// of that asks ten times a second how far it is, or, if nothing comes back, once.
const SILENT: Duration = Duration::from_secs(2);

/// What a client must hash of its object before that counts as progress with an answer \[bytes\].
const LEAST_PROGRESS: u64 = 32 << 10;

/// What is left of an object is being verified.
pub(super) struct Checking {
    steps: Arc<Steps>,
    /// When its client last asked.
    asked: Instant,
    /// Answers when its client last got on, and when that was.
    got_on: (u64, Instant),
    /// Turns true when it is of no use any more.
    over: watch::Sender<bool>,
}

/// How far a verification is, as who verifies counts it.
#[derive(Default)]
pub(super) struct Steps {
    /// Bytes that were looked at.
    looked_at: AtomicU64,
    /// Questions to the client that are not answered.
    open: AtomicU64,
    /// Answers, and steps on the way to one.
    answers: AtomicU64,
    /// Bytes that the client has hashed for an answer.
    hashed: AtomicU64,
}

/// A question to the client, until it is answered or given up.
pub(super) struct OpenQuestion(Arc<Steps>);

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Steps {
    pub(super) fn look_at(&self, done: u64) {
        self.looked_at.store(done, Ordering::Relaxed);
    }

    pub(super) fn question(self: &Arc<Self>) -> OpenQuestion {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenQuestion(Arc::clone(self))
    }

    pub(super) fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// The client is still working on an answer, and has hashed so much.
    pub(super) fn pending(&self, hashed: u64) {
        let least = self.hashed.load(Ordering::Relaxed).saturating_add(LEAST_PROGRESS);
        if hashed >= least {
            self.hashed.store(hashed, Ordering::Relaxed);
            self.answered();
        }
    }
}

impl Checking {
    /// Returns it with what who verifies counts, and with what says that it is to end.
    pub(super) fn begin(now: Instant) -> (Self, Arc<Steps>, watch::Receiver<bool>) {
        let (steps, (over, ends)) = (Arc::<Steps>::default(), watch::channel(false));
        let checking = Checking { steps: Arc::clone(&steps), asked: now, got_on: (0, now), over };
        (checking, steps, ends)
    }

    /// Bytes that were looked at.
    pub(super) fn done(&self) -> u64 {
        self.steps.looked_at.load(Ordering::Relaxed)
    }

    /// Its client asks how many bytes were looked at.
    pub(super) fn asked(&mut self, now: Instant) -> u64 {
        self.asked = now;
        self.done()
    }

    /// Whether its client does not ask any more.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        now.duration_since(self.asked) >= SILENT
    }

    /// Whether its client has not asked for so long, or has not got on with what it is asked. A disk that is read slowly is
    /// no fault of the client's.
    pub(super) fn is_idle(&mut self, now: Instant, patience: Duration) -> bool {
        let answers = self.steps.answers.load(Ordering::Relaxed);
        if answers != self.got_on.0 || self.steps.open.load(Ordering::Relaxed) == 0 {
            self.got_on = (answers, now);
        }
        now.duration_since(self.asked.min(self.got_on.1)) >= patience
    }

    /// Tells who verifies that it is of no use any more.
    pub(super) fn end(&self) {
        self.over.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_does_not_ask_for_a_while_is_silent_until_it_asks_again() {
        let began = Instant::now();
        let (mut checking, steps, ends) = Checking::begin(began);
        steps.look_at(7);
        assert!(!checking.is_silent(began + SILENT / 2) && checking.is_silent(began + SILENT));
        assert_eq!(checking.asked(began + SILENT), 7);
        assert!(!checking.is_silent(began + SILENT * 3 / 2) && !*ends.borrow());
        checking.end();
        assert!(*ends.borrow());
    }

    #[test]
    fn a_client_is_idle_that_neither_asks_nor_answers_and_not_while_nothing_is_asked_of_it() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let (mut checking, steps, _ends) = Checking::begin(Instant::now());
        let mut now = checking.asked;
        let mut is_idle_after = |asks: bool, checking: &mut Checking| {
            now += PATIENCE;
            if asks {
                checking.asked(now);
            }
            checking.is_idle(now, PATIENCE)
        };
        assert!(!is_idle_after(true, &mut checking), "a long read");
        assert!(is_idle_after(false, &mut checking), "gone");
        assert!(!is_idle_after(true, &mut checking), "there again");
        let question = steps.question();
        assert!(is_idle_after(true, &mut checking), "no answer");
        steps.pending(LEAST_PROGRESS - 1);
        assert!(is_idle_after(true, &mut checking), "no progress");
        steps.pending(LEAST_PROGRESS);
        assert!(!is_idle_after(true, &mut checking), "on its way to an answer");
        steps.pending(LEAST_PROGRESS);
        assert!(is_idle_after(true, &mut checking), "not any more");
        steps.answered();
        assert!(!is_idle_after(true, &mut checking), "an answer");
        drop(question);
        assert!(!is_idle_after(true, &mut checking), "all are answered");
    }
}
