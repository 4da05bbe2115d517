//! Counters of a server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use wellspring_transport::scdp::SenderStats;
use wellspring_trust::TrustCounters;
use wellspring_wire::control::RefusalCode;

use super::address_limit::Full;
use super::{QuotaRefusals, ServerEvent};

/// What a server counts; all but [`lttp_connections`](Self::lttp_connections), [`reserved_bytes`](Self::reserved_bytes),
/// [`sending`](Self::sending) and [`receiving`](Self::receiving) since it started.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ServerCounters {
    /// Refused requests by what the client was told.
    pub refused: BTreeMap<RefusalCode, u64>,
    /// Of these the requests beyond a quota, by the quota.
    pub over_quota: QuotaRefusals,
    /// Requests that were dropped, and that their clients repeat.
    pub dropped_requests: RequestsDropped,
    /// Events that were not told, since too many of their kind were.
    pub suppressed_events: u64,
    /// TCP connections of clients, for LTTP.
    pub lttp_connections: usize,
    /// Disk space that is promised to objects on their way \[bytes\].
    pub reserved_bytes: u64,
    /// Objects, and parts of objects, that are being sent.
    pub sending: usize,
    /// Objects that are being received.
    pub receiving: usize,
    /// Sends, by their end.
    pub sends: Transfers,
    /// Puts, by their end.
    pub puts: Transfers,
    /// Digests of requested objects that were known.
    pub digests_known: u64,
    /// Digests computed from a file's bytes.
    pub digests_computed: u64,
    /// Puts that were given up since they got on too slowly to keep their space or their place.
    pub puts_too_slow: u64,
    /// What came of the symbols of received objects.
    pub received: ReceivedObjects,
}

/// Requests that were dropped since too many were at work, by the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RequestsDropped {
    /// Of all clients together.
    pub of_all: u64,
    /// Of one address.
    pub of_address: u64,
}

/// Transfers, by their end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Transfers {
    /// Begun.
    pub begun: u64,
    /// Complete.
    pub complete: u64,
    /// Failed.
    pub failed: u64,
}

/// What came of the symbols of received objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ReceivedObjects {
    /// Bytes of objects that are verified and in place \[bytes\].
    pub bytes: u64,
    /// Source symbols that these objects have.
    pub needed: u64,
    /// Symbols that were of use.
    pub useful: u64,
    /// Symbols beyond need.
    pub redundant: u64,
    /// Symbols lost on the way.
    pub lost: u64,
    /// Blocks that took the decoder.
    pub decoded_blocks: u64,
    /// Blocks whose source symbols all arrived.
    pub decode_free_blocks: u64,
}

/// How a handshake by TCP ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handshake {
    Done,
    /// Too many came.
    PutOff,
    Wrong,
    Untrusted,
}

/// Counts the handshakes of LTTP's control channel, which the driver does not see.
#[derive(Debug, Default)]
pub(super) struct StreamHandshakes([AtomicU64; 4]);

impl StreamHandshakes {
    pub(super) fn count(&self, outcome: Handshake) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds them to those of datagrams.
    pub(super) fn add_to(&self, trust: &mut TrustCounters) {
        let of = |outcome: Handshake| self.0[outcome as usize].load(Ordering::Relaxed);
        trust.handshakes += of(Handshake::Done);
        trust.handshakes_put_off += of(Handshake::PutOff);
        trust.handshakes_wrong += of(Handshake::Wrong);
        trust.handshakes_untrusted += of(Handshake::Untrusted);
    }
}

/// Counts requests that are dropped.
#[derive(Debug, Default)]
pub(super) struct DroppedRequests([AtomicU64; 2]);

impl DroppedRequests {
    pub(super) fn count(&self, full: Full) {
        self.0[usize::from(full.is_of_address())].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn so_far(&self) -> RequestsDropped {
        let [of_all, of_address] = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        RequestsDropped { of_all, of_address }
    }
}

/// Counts the events of transfers.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<ServerCounters>);

impl Tally {
    /// Counts an event.
    pub(super) fn count(&self, event: &ServerEvent) {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            ServerEvent::Sending { .. } | ServerEvent::SendingPart { .. } => {
                counters.sends.begun += 1;
            }
            ServerEvent::Sent { .. }
            | ServerEvent::SentNdp { .. }
            | ServerEvent::SentPart { .. } => {
                counters.sends.complete += 1;
            }
            ServerEvent::SendFailed { .. } => counters.sends.failed += 1,
            ServerEvent::Receiving { .. } => counters.puts.begun += 1,
            ServerEvent::ReceiveFailed { .. } => counters.puts.failed += 1,
            ServerEvent::Received { size, stats: Some(stats), .. } => {
                counters.puts.complete += 1;
                let sum = |of: fn(&SenderStats) -> u64| stats.senders.iter().map(of).sum::<u64>();
                let received = &mut counters.received;
                received.bytes += size;
                received.needed += stats.needed;
                received.useful += sum(|sender| sender.useful);
                received.redundant += sum(|sender| sender.redundant);
                received.lost += sum(|sender| sender.lost);
                received.decoded_blocks += u64::from(stats.decoded_blocks);
                received.decode_free_blocks += u64::from(stats.decode_free_blocks);
            }
            ServerEvent::Received { size: 0, .. } => counters.puts.complete += 1,
            // It was there already, so that nothing was begun.
            ServerEvent::Received { .. } => {}
            ServerEvent::Hashing { .. }
            | ServerEvent::Refused { .. }
            | ServerEvent::Suppressed { .. } => {}
        }
    }

    /// Counts a put that is given up as too slow.
    pub(super) fn count_too_slow(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).puts_too_slow += 1;
    }

    /// The counts so far, without what others count.
    pub(super) fn counters(&self) -> ServerCounters {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_transport::scdp::{ReceiveStats, SendStats};

    #[test]
    fn transfers_are_counted_by_their_end() {
        let client = ([192, 0, 2, 1], 7).into();
        let name = || "x".to_owned();
        let tally = Tally::default();
        let sender = SenderStats { useful: 7, redundant: 2, lost: 1, ..SenderStats::default() };
        let stats = ReceiveStats {
            needed: 7,
            decoded_blocks: 1,
            decode_free_blocks: 3,
            senders: vec![sender, sender],
            ..ReceiveStats::default()
        };
        let received = |size, stats| {
            let event =
                ServerEvent::Received { name: name(), client, size, stats, socket_dropped: 0 };
            tally.count(&event);
        };
        received(100, Some(stats));
        received(0, None);
        received(50, None);
        tally.count(&ServerEvent::Sending { name: name(), client, share: (0, 1), resumed: false });
        tally.count(&ServerEvent::Sent { name: name(), client, stats: SendStats::default() });
        let reason = String::new();
        tally.count(&ServerEvent::SendFailed { name: name(), client, reason: reason.clone() });
        tally.count(&ServerEvent::ReceiveFailed { name: name(), client, reason });
        let counters = tally.counters();
        assert_eq!(counters.sends, Transfers { begun: 1, complete: 1, failed: 1 });
        assert_eq!(counters.puts, Transfers { begun: 0, complete: 2, failed: 1 });
        let received = ReceivedObjects {
            bytes: 100,
            needed: 7,
            useful: 14,
            redundant: 4,
            lost: 2,
            decoded_blocks: 1,
            decode_free_blocks: 3,
        };
        assert_eq!(counters.received, received);
    }
}
