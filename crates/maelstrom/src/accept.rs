//! Check of packets that repairs gave back, and the decision whether they are sent on.

use wellspring_codec::interleave::{MAX_LAYERS, PacketName};
use wellspring_core::{Duration, Time};

use crate::arrival::{CongestionLoss, ReceiveCounters};
use crate::hold::Hold;
use crate::identity::{Namer, Volatile, restore};
use crate::meter::Meter;
use crate::named::NamedPackets;
use crate::retransmissions::Retransmissions;
use crate::signals::Signals;

/// A packet as repairs of the sliding-window code name it.
pub(crate) fn half(name: PacketName) -> PacketName {
    PacketName(u64::from(name.0 as u32))
}

/// What looks at a packet that a repair gave back.
pub(crate) struct Accept<'a> {
    pub namer: &'a Namer,
    pub named: &'a NamedPackets,
    pub meter: &'a Meter,
    pub now: Time,
    pub congestion: CongestionLoss,
    /// What is left lost for that.
    pub signals: &'a mut Signals,
    pub retransmissions: Option<&'a Retransmissions>,
    /// How long it takes a host to answer to congestion, and the queue to go down.
    pub answered_in: Duration,
    /// Whether the repair that completes the packets came with the mark CE.
    pub marked: bool,
    /// Whether packets passed unseen of late.
    pub lately_blind: bool,
    /// Whether no report had losses for a while.
    pub calm: bool,
    pub counters: &'a mut ReceiveCounters,
    pub hold: &'a mut Hold,
}

impl Accept<'_> {
    /// Whether the bytes deserve their name; if so they are a packet again.
    pub fn packet(&mut self, name: PacketName, normal: &[u8], layer: u8) -> bool {
        if self.namer.name(normal) != name {
            return false;
        }
        let named = self.named.get(name).or_else(|| self.named.get(half(name)));
        // A window's repairs may bring back what none of them that came has named.
        if named.map_or(self.lately_blind, |named| named.doubtful) {
            self.counters.doubtful += 1;
            return true;
        }
        // Forgotten only when thousands were missing since: then as a host would send it.
        let mut volatile = named.map_or(Volatile { hops: 64, class: 0 }, |named| named.volatile);
        let congestion = || named.is_some_and(|named| self.meter.is_congestion(named.number));
        let signals = self.congestion == CongestionLoss::Signal;
        let congested = signals && congestion();
        if congested || self.marked {
            let listens = volatile.mark();
            if congested && !listens && self.is_to_learn(normal) {
                self.counters.congested += 1;
                return true;
            }
            self.counters.marked += u64::from(listens);
        }
        let expected = named.and_then(|named| self.meter.expected(named.number));
        let layer = layer.min(MAX_LAYERS as u8 - 1);
        let tcp_waits = self.calm && !self.meter.has_losses();
        self.hold.put(self.now, tcp_waits, name, layer, expected, |bytes| {
            bytes.extend_from_slice(normal);
            restore(&mut bytes[..], volatile);
        });
        true
    }

    /// Whether the packet's flow is to learn of congestion by its loss.
    fn is_to_learn(&mut self, packet: &[u8]) -> bool {
        let retransmitted = |flow| self.retransmissions?.newest_of(flow);
        self.signals.is_due(self.now, packet, retransmitted, self.answered_in)
    }
}
