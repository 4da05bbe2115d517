//! The queues of one egress port.

use crate::config::{Overflow, PortConfig, Sharing, Victim};
use crate::lists::Lists;
use crate::packet::Packet;

const CONTROL: usize = 0;
const LISTS: usize = 1 + PortConfig::MAX_CLASSES as usize;

/// What became of a packet offered to a [`Port`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admission<P> {
    /// A packet lost its payload (the offered one or, by [`Victim`], another).
    pub trimmed: bool,
    /// The offered packet was marked.
    pub marked: bool,
    /// This packet is gone: there was no room for it, or for the header cut from it.
    pub dropped: Option<P>,
}

impl<P> Admission<P> {
    const QUEUED: Self = Admission { trimmed: false, marked: false, dropped: None };
}

/// The queues of one egress port: a control queue (by configuration) and data queues by class.
///
/// The [`PortConfig`] is an argument of each call, so that thousands of ports share one.
#[derive(Clone, Debug)]
pub struct Port<P> {
    lists: Lists<P, LISTS>,
    data_packets: u32,
    data_bytes: u32,
    /// Control packets sent in a row while data waited.
    control_run: u32,
    /// State of the coin for [`Victim::ArrivingOrLast`].
    coin: u32,
}

impl<P: Packet + Copy> Port<P> {
    /// An empty port. `seed` sets off its coin.
    pub const fn new(seed: u32) -> Self {
        Port { lists: Lists::new(), data_packets: 0, data_bytes: 0, control_run: 0, coin: seed | 1 }
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lists.occupied() == 0
    }

    /// Packets that wait, control and data.
    pub fn len(&self) -> u32 {
        self.data_packets + self.lists.len(CONTROL)
    }

    /// Data packets that wait.
    pub fn data_packets(&self) -> u32 {
        self.data_packets
    }

    /// Bytes that wait in the data queues.
    pub fn data_bytes(&self) -> u64 {
        u64::from(self.data_bytes)
    }

    /// Packets that wait in the control queue.
    pub fn control_packets(&self) -> u32 {
        self.lists.len(CONTROL)
    }

    /// Offers a packet.
    pub fn enqueue(&mut self, config: &PortConfig, mut packet: P) -> Admission<P> {
        if config.control.is_some() && packet.class() == 0 {
            return self.enqueue_control(config, packet);
        }
        let mut admission = Admission::QUEUED;
        if config.ecn_threshold.reached(self.data_packets, u64::from(self.data_bytes)) {
            admission.marked = packet.mark();
        }
        let list = data_list(config, packet.class());
        let len = packet.wire_len();
        let (packets, bytes) = match config.sharing {
            Sharing::Shared => (self.data_packets, self.data_bytes),
            Sharing::Split => (self.lists.len(list), self.lists.bytes(list)),
        };
        if config.data_limit.admits(packets, u64::from(bytes), len) {
            self.push_data(list, packet);
            return admission;
        }
        match config.overflow {
            Overflow::Trim(victim) => self.overflow_trim(config, victim, list, packet, admission),
            Overflow::Drop => Admission { dropped: Some(packet), ..admission },
        }
    }

    /// The packet to send next.
    pub fn dequeue(&mut self, config: &PortConfig) -> Option<P> {
        let occupied = self.lists.occupied();
        let data = occupied >> 1;
        if occupied & 1 == 1 {
            let weight = config.control.map_or(0, |control| control.weight);
            if data == 0 || self.control_run < weight {
                self.control_run += u32::from(data != 0 && weight != u32::MAX);
                return self.lists.pop_front(CONTROL, P::wire_len);
            }
        }
        if data == 0 {
            return None;
        }
        self.control_run = 0;
        let packet = self.lists.pop_front(1 + data.trailing_zeros() as usize, P::wire_len)?;
        self.data_packets -= 1;
        self.data_bytes -= packet.wire_len();
        Some(packet)
    }

    fn push_data(&mut self, list: usize, packet: P) {
        let len = packet.wire_len();
        self.data_packets += 1;
        self.data_bytes += len;
        self.lists.push_back(list, packet, len);
    }

    fn enqueue_control(&mut self, config: &PortConfig, packet: P) -> Admission<P> {
        let limit = config.control.map_or(crate::Limit::Unlimited, |control| control.limit);
        let len = packet.wire_len();
        let (packets, bytes) = (self.lists.len(CONTROL), self.lists.bytes(CONTROL));
        if !limit.admits(packets, u64::from(bytes), len) {
            return Admission { dropped: Some(packet), ..Admission::QUEUED };
        }
        self.lists.push_back(CONTROL, packet, len);
        Admission::QUEUED
    }

    fn overflow_trim(
        &mut self,
        config: &PortConfig,
        victim: Victim,
        list: usize,
        packet: P,
        admission: Admission<P>,
    ) -> Admission<P> {
        if config.control.is_none() || !packet.trimmable() {
            return Admission { dropped: Some(packet), ..admission };
        }
        let other = match victim {
            Victim::Arriving => None,
            Victim::ArrivingOrLast => Some(list).filter(|_| self.toss()),
            Victim::LowestClass => {
                let lowest = 31 - (self.lists.occupied() | 1).leading_zeros() as usize;
                Some(lowest).filter(|lowest| *lowest > list)
            }
        };
        let pushed_out = other.and_then(|other| self.lists.pop_back(other, P::wire_len));
        let mut cut = match pushed_out {
            Some(last) => {
                self.data_packets -= 1;
                self.data_bytes -= last.wire_len();
                self.push_data(list, packet);
                last
            }
            None => packet,
        };
        if !cut.trimmable() {
            return Admission { dropped: Some(cut), ..admission };
        }
        cut.trim();
        Admission { trimmed: true, marked: admission.marked, ..self.enqueue_control(config, cut) }
    }

    fn toss(&mut self) -> bool {
        // Marsaglia's xorshift: enough for a coin.
        self.coin ^= self.coin << 13;
        self.coin ^= self.coin >> 17;
        self.coin ^= self.coin << 5;
        self.coin >> 31 == 1
    }
}

/// The list of a data class: classes count from 1 where there is a control queue, else from 0.
fn data_list(config: &PortConfig, class: u8) -> usize {
    let first = u8::from(config.control.is_some());
    let last = config.data_classes.clamp(1, PortConfig::MAX_CLASSES) - 1;
    1 + usize::from(class.saturating_sub(first).min(last))
}
