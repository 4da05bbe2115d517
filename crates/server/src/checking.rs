//! State of a verification of what an earlier offer has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Silence after which a client that offers the same bytes again is not kept waiting for the earlier offer: the client
/// of that asks ten times a second how far it is, or, if nothing comes back, once.
const SILENT: Duration = Duration::from_secs(2);

/// What is left of an object is being verified.
pub(super) struct Checking {
    /// Bytes that were looked at.
    done: Arc<AtomicU64>,
    /// When its client last asked.
    asked: Instant,
    /// Turns true when it is of no use any more.
    over: watch::Sender<bool>,
}

impl Checking {
    /// Returns it with the bytes that are looked at, which who verifies counts, and what says that it is to end.
    pub(super) fn begin(now: Instant) -> (Self, Arc<AtomicU64>, watch::Receiver<bool>) {
        let (done, (over, ends)) = (Arc::new(AtomicU64::new(0)), watch::channel(false));
        (Checking { done: Arc::clone(&done), asked: now, over }, done, ends)
    }

    /// Bytes that were looked at.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
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
        let (mut checking, done, ends) = Checking::begin(began);
        done.store(7, Ordering::Relaxed);
        assert!(!checking.is_silent(began + SILENT / 2) && checking.is_silent(began + SILENT));
        assert_eq!(checking.asked(began + SILENT), 7);
        assert!(!checking.is_silent(began + SILENT * 3 / 2) && !*ends.borrow());
        checking.end();
        assert!(*ends.borrow());
    }
}
