//! Settings and counters of the send side.

use wellspring_core::Duration;

use crate::choice::Limits;
use crate::code::Code;

/// How a send side protects.
#[derive(Clone, Debug)]
pub struct SendConfig {
    /// The code; with limits, one is chosen within those instead.
    pub code: Code,
    /// Follow the loss that the peer reports, within these limits: on until the link is known, and off while
    /// nothing is lost.
    pub adaptive: Option<Limits>,
    /// Longest packet protected \[bytes\]: [`MtuPlan::longest`](crate::MtuPlan::longest).
    pub longest: usize,
    /// After so long without a packet, what the first layer has begun is sent unfinished, so that
    /// the last packets before a silence are protected: one repair a silence for an interleave of 1.
    pub flush_after: Duration,
    /// How long packets wait in the near layers for others that fill a repair; in far ones four times as long. If none
    /// is given: a fifth of the round trip with limits, and for ever without, as in the paper.
    pub repair_within: Option<Duration>,
}

/// What a send side has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SendCounters {
    /// Packets protected.
    pub packets: u64,
    /// Their bytes.
    pub packet_bytes: u64,
    /// Packets not protected: no whole IP packets, or with options.
    pub foreign: u64,
    /// Packets not protected because they are too long.
    pub too_long: u64,
    /// Repairs sent.
    pub repairs: u64,
    /// Their bytes, without headers of UDP and below.
    pub repair_bytes: u64,
    /// Digests sent, while the code is off.
    pub digests: u64,
    /// Their bytes, without headers of UDP and below.
    pub digest_bytes: u64,
    /// Times the code was changed.
    pub changes: u64,
}

impl SendCounters {
    /// Adds what another send side has done.
    pub fn add(&mut self, other: &SendCounters) {
        self.packets += other.packets;
        self.packet_bytes += other.packet_bytes;
        self.foreign += other.foreign;
        self.too_long += other.too_long;
        self.repairs += other.repairs;
        self.repair_bytes += other.repair_bytes;
        self.digests += other.digests;
        self.digest_bytes += other.digest_bytes;
        self.changes += other.changes;
    }
}
