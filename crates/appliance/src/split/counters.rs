//! Counters of split mode.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What split mode has done. Gauges say what is now.
#[derive(Debug, Default)]
pub struct SplitCounters {
    /// Connections of this site's hosts that were taken.
    pub accepted: AtomicU64,
    /// Connections to this site's hosts that were made for the other site's.
    pub opened: AtomicU64,
    /// Connections that ended in order both ways.
    pub finished: AtomicU64,
    /// Connections that were reset, by a host or because one could not be reached.
    pub reset: AtomicU64,
    /// Bytes from hosts of this site to the other.
    pub sent_bytes: AtomicU64,
    /// Bytes to hosts of this site.
    pub received_bytes: AtomicU64,
    /// Trunks that were opened.
    pub trunks: AtomicU64,
    /// Trunks that were refused or had the wrong key.
    pub trunks_failed: AtomicU64,
    /// Whether connections are taken now.
    pub taking: AtomicBool,
    /// Connections now.
    pub flows: AtomicU64,
}

impl SplitCounters {
    pub(super) fn count(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}
