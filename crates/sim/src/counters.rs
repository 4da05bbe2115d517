//! Counters of a run.

use core::fmt;
use wellspring_core::Time;

/// Counts over a whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Events taken from the event list.
    pub events: u64,
    /// Packets put on a link (each hop of each packet).
    pub packet_hops: u64,
    /// Packets that hosts sent.
    pub sent: u64,
    /// Copies that switches made of multicast packets, beyond the original.
    pub replicated: u64,
    /// Packets that hosts received.
    pub delivered: u64,
    /// Payloads cut away.
    pub trimmed: u64,
    /// Packets marked.
    pub marked: u64,
    /// Packets dropped because a queue was full.
    pub dropped_full: u64,
    /// Packets lost on links or switches that were down.
    pub dropped_down: u64,
    /// Packets without a way to their destination.
    pub dropped_unroutable: u64,
    /// Packets dropped by a loss rule of the run ([`Config::loss`](crate::Config::loss)).
    pub dropped_by_rule: u64,
    /// Received packets that endpoints had no use for.
    pub refused: u64,
    /// Digest of every delivery: its time, host, session, length and flags.
    pub digest: u64,
    /// The most events that waited.
    pub peak_pending: u64,
    /// The most packets in the network.
    pub peak_packets: u64,
}

impl Counters {
    /// All packets dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped_full + self.dropped_down + self.dropped_unroutable + self.dropped_by_rule
    }

    /// Counts a delivery, and takes it into the digest: when, to which host, of which session, how much payload, whether
    /// it was trimmed.
    pub fn on_delivered(
        &mut self,
        now: Time,
        host: u32,
        session: u32,
        (len, trimmed): (u32, bool),
    ) {
        self.delivered += 1;
        let lens = (u64::from(len) << 1) | u64::from(trimmed);
        let ends = (u64::from(host) << 32) | u64::from(session);
        self.fold([now.as_picos() ^ (lens << 40), ends]);
    }

    fn fold(&mut self, words: [u64; 2]) {
        for word in words {
            self.digest = (self.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }
}

/// Counts of one port and its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Payloads cut away.
    pub trimmed: u64,
    /// Packets dropped, for whatever reason.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
}

/// Packets that are neither delivered nor dropped nor in the network: a bug of the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Imbalance {
    /// Packets sent and copied.
    pub entered: u64,
    /// Packets delivered and dropped.
    pub left: u64,
    /// Packets that the network accounts for.
    pub live: u64,
    /// Packets found in queues and on links.
    pub found: u64,
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Imbalance { entered, left, live, found } = self;
        write!(f, "{entered} packets entered, {left} left, {live} should be there, {found} are")
    }
}

impl core::error::Error for Imbalance {}
