//! A put's sessions and receivers: how far they are, and the report at its end.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;
use wellspring_core::SessionId;
use wellspring_net::canonical;
use wellspring_transport::scdp::{ObjectInfo, SendStats, StragglerCause};

use super::offers::{Offered, Offering};
use crate::driver::SessionProgress;
use crate::manifest::object_of;
use crate::report::{PutReport, ReceiverReport, ReceiverState};
use crate::store::Digest;
use crate::{ReceiverProgress, Update, Updates};

/// Bytes of these blocks \[bytes\].
fn bytes_of(object: &ObjectInfo, blocks: &[Range<u32>]) -> u64 {
    let first = |sbn| object.byte_range_of_block(sbn).0;
    blocks.iter().map(|run| first(run.end).min(object.transfer_len) - first(run.start)).sum()
}

/// A session that sends, and what the protocol told at its end.
pub(super) struct Sending {
    pub(super) session: SessionId,
    /// Source symbols of the blocks that are missing.
    pub(super) needed: u64,
    pub(super) progress: SessionProgress,
    pub(super) stats: Option<SendStats>,
}

impl Sending {
    /// The account of a session that was cut short. Which of its symbols were source symbols is not
    /// known: those come first.
    pub(super) fn cut_short(&self) -> SendStats {
        let sent = self.progress.symbols();
        let source_symbols = sent.min(self.needed);
        SendStats { source_symbols, repair_symbols: sent - source_symbols, pulls: 0 }
    }
}

/// A host that the object is put to.
pub(super) struct Receiver {
    pub(super) offered: Offered,
    pub(super) state: ReceiverState,
    /// Why it was detached from the group, if it was.
    pub(super) detached: Option<StragglerCause>,
    pub(super) blocks: (u32, u32),
    /// What the protocol said about it, for the reason of a failure.
    pub(super) lost: Option<String>,
    /// When it last got on.
    pub(super) advanced: Instant,
}

/// The object of a put, and what is known of its sessions and receivers.
pub(super) struct Account {
    pub(super) size: u64,
    pub(super) digest: Digest,
    pub(super) object: ObjectInfo,
    /// Hosts that must have it.
    pub(super) needed: usize,
    began: Instant,
    pub(super) receivers: Vec<Receiver>,
    pub(super) sendings: Vec<Sending>,
}

impl Account {
    /// Of an object that is offered: how many hosts must have it, and when the put began.
    pub(super) fn new(offer: &Offering, (needed, began): (usize, Instant)) -> Self {
        let (size, digest) = (offer.size, offer.digest);
        let object = object_of(size, &offer.geometry, digest.tag());
        let (receivers, sendings) = (Vec::new(), Vec::new());
        Account { size, digest, object, needed, began, receivers, sendings }
    }

    /// Since the put began.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn index_of(&self, receiver: SocketAddr) -> Option<usize> {
        let receiver = canonical(receiver);
        self.receivers.iter().position(|r| r.offered.address.map(canonical) == Some(receiver))
    }

    pub(super) fn has_unfinished(&self) -> bool {
        self.receivers.iter().any(|r| r.state == ReceiverState::Unfinished)
    }

    /// Hosts that have the object.
    pub(super) fn complete(&self) -> usize {
        self.receivers.iter().filter(|r| matches!(r.state, ReceiverState::Complete(_))).count()
    }

    /// Source symbols of the blocks that are not among these.
    pub(super) fn symbols_beside(&self, held: &[Range<u32>]) -> u64 {
        let first = |sbn| self.object.first_symbol_of_block(sbn);
        let held: u64 = held.iter().map(|run| first(run.end) - first(run.start)).sum();
        self.object.total_symbols() - held
    }

    pub(super) fn tell_progress(&self, updates: &Updates) {
        // Those that count: the furthest, as many as are needed.
        let mut done: Vec<u32> = self.receivers.iter().map(|r| r.blocks.0).collect();
        done.sort_unstable_by(|a, b| b.cmp(a));
        let blocks = done.get(self.needed - 1).copied().unwrap_or(0);
        let done = self.bytes_of_first(blocks);
        if updates.are_of_hosts() {
            let receivers = self.receivers.iter().map(|receiver| self.progress_of(receiver));
            updates.tell(Update::Receivers { receivers: receivers.collect() });
        }
        let symbols = self.sendings.iter().map(|s| s.progress.symbols()).sum();
        updates.tell(Update::Moving { done, total: self.size, symbols });
    }

    fn progress_of(&self, receiver: &Receiver) -> ReceiverProgress {
        let (blocks, total) = receiver.blocks;
        let is_live = receiver.state == ReceiverState::Unfinished;
        let is_complete = matches!(receiver.state, ReceiverState::Complete(_));
        let state = match (&receiver.state, &receiver.detached) {
            (ReceiverState::Complete(_), _) => "complete".to_owned(),
            (ReceiverState::Failed(reason), _) => reason.clone(),
            _ if total > 0 && blocks == total => "verifies".to_owned(),
            (_, Some(cause)) => format!("by unicast: {cause}"),
            _ if !receiver.offered.accepted => "has not begun".to_owned(),
            _ => "receives".to_owned(),
        };
        let done = if is_complete { self.size } else { self.bytes_of_first(blocks) };
        let host = receiver.offered.host.clone();
        let (total, idle) = (self.size, receiver.advanced.elapsed());
        ReceiverProgress { host, is_live, state, done, total, idle }
    }

    /// Length of so many blocks, taken from the first on \[bytes\].
    fn bytes_of_first(&self, blocks: u32) -> u64 {
        let (first, len) = self.object.byte_range_of_block(blocks.saturating_sub(1));
        if blocks == 0 { 0 } else { (first + len).min(self.size) }
    }

    /// The report at the end, with what is known.
    pub(super) fn report(&mut self, quorum_after: Option<Duration>) -> PutReport {
        let mut stats = SendStats::default();
        for sending in &self.sendings {
            let of = sending.stats.unwrap_or_else(|| sending.cut_short());
            stats.source_symbols += of.source_symbols;
            stats.repair_symbols += of.repair_symbols;
            stats.pulls += of.pulls;
        }
        PutReport {
            size: self.size,
            digest: self.digest,
            elapsed: self.began.elapsed(),
            quorum_after,
            needed: self.needed,
            symbols_needed: self.sendings.iter().map(|s| s.needed).sum(),
            stats,
            receivers: self
                .receivers
                .drain(..)
                .map(|r| ReceiverReport {
                    host: r.offered.host,
                    address: r.offered.address,
                    state: r.state,
                    trouble: r.offered.trouble,
                    detached: r.detached,
                    resumed: bytes_of(&self.object, &r.offered.held),
                    blocks: r.blocks,
                })
                .collect(),
        }
    }
}
