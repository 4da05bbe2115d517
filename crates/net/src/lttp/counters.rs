//! What the loop counts: strangers' datagrams are no errors.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers of a socket since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LttpStatistics {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that came, those that were dropped too.
    pub received: u64,
    /// Dropped: not LTTP's, or damaged.
    pub malformed: u64,
    /// Dropped: of no session here. Those of sessions that have just ended are among them.
    pub unknown_cookie: u64,
    /// Dropped: the cookie is right, the address is not the peer's.
    pub wrong_address: u64,
    /// Dropped by the protocol: symbols of blocks that are complete or came twice, reports that
    /// cannot be true.
    pub unwanted: u64,
    /// Symbols that were not sent in time because their block was not read yet.
    pub unread: u64,
}

/// The same, as they grow.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub sent: Counter,
    pub received: Counter,
    pub malformed: Counter,
    pub unknown_cookie: Counter,
    pub wrong_address: Counter,
    pub unwanted: Counter,
    pub unread: Counter,
}

impl Counters {
    pub(super) fn read(&self) -> LttpStatistics {
        LttpStatistics {
            sent: self.sent.read(),
            received: self.received.read(),
            malformed: self.malformed.read(),
            unknown_cookie: self.unknown_cookie.read(),
            wrong_address: self.wrong_address.read(),
            unwanted: self.unwanted.read(),
            unread: self.unread.read(),
        }
    }
}

/// A number that one thread adds to and others read.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
