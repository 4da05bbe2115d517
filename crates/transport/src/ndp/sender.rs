//! The sending side of a flow.

use super::config::Config;
use super::seen::Seen;
use crate::transfer::{Key, SendTransfer};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use wellspring_core::{Class, Destination, Duration, Ecn, Frame, RandomStream, SessionId, Time};
use wellspring_wire::ndp::{Data, NdpHeader};

/// The account of a flow at its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendStats {
    /// Data packets sent, repeats included.
    pub sent: u64,
    /// Repeats a NACK asked for.
    pub retransmitted: u64,
    /// Packets given up for lost after a timeout.
    pub timed_out: u64,
}

/// A flow at its sender.
#[derive(Debug)]
pub(super) struct Sender {
    transfer_len: u64,
    total: u32,
    window: u16,
    fixed_class: Option<Class>,
    /// First packet never sent.
    next_new: u32,
    /// Packets pushed so far without a pull, of the initial window.
    pushed: u16,
    granted: u32,
    used: u32,
    acked: Seen,
    /// Packets in flight in the order sent; `None` once answered.
    in_flight: VecDeque<(Option<u32>, Time)>,
    nacked: VecDeque<u32>,
    /// Timed out, and to be sent again without a pull.
    probe: Option<u32>,
    vanished: u32,
    labels: Labels,
    last_heard: Time,
    /// A receiver silent for that long is lost.
    peer_timeout: Duration,
    smoothed_rtt: Duration,
    backoff: u32,
    pub stats: SendStats,
}

impl Sender {
    pub fn new(now: Time, config: &Config, transfer: &SendTransfer) -> Sender {
        let transfer_len = transfer.transfer_len.max(1);
        Sender {
            transfer_len,
            total: config.packets(transfer_len),
            window: config.initial_window.max(1),
            fixed_class: transfer.class,
            next_new: 0,
            pushed: 0,
            granted: 0,
            used: 0,
            acked: Seen::default(),
            in_flight: VecDeque::new(),
            nacked: VecDeque::new(),
            probe: None,
            vanished: 0,
            labels: Labels::of(config, transfer.session),
            last_heard: now,
            peer_timeout: config.peer_timeout,
            smoothed_rtt: config.initial_rtt,
            backoff: 0,
            stats: SendStats::default(),
        }
    }

    /// Waits for a silent receiver for so long from now on.
    pub fn wait_for(&mut self, peer_timeout: Duration) {
        self.peer_timeout = peer_timeout;
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether a packet could be sent now.
    pub fn can_send(&self) -> bool {
        let new = self.next_new < self.total;
        self.probe.is_some()
            || (new && self.pushed < self.window)
            || (self.used < self.granted && (new || !self.nacked.is_empty()))
    }

    /// The next packet, if one may be sent.
    pub fn transmit(&mut self, now: Time, to: Key, config: &Config) -> Option<Frame<NdpHeader>> {
        let number = self.next_number()?;
        self.stats.sent += 1;
        self.in_flight.push_back((Some(number), now));
        let data = Data {
            number,
            total: self.total,
            window: self.window,
            vanished: self.vanished,
            sent: now,
            rtt: self.smoothed_rtt,
        };
        let cut = (self.transfer_len, self.fixed_class);
        Some(packet(config, (Destination::Host(to.0), to.1), cut, self.labels.next(), data))
    }

    fn next_number(&mut self) -> Option<u32> {
        if let Some(number) = self.probe.take() {
            return Some(number);
        }
        let new = (self.next_new < self.total).then_some(self.next_new);
        if new.is_some() && self.pushed < self.window {
            self.pushed += 1;
            self.next_new += 1;
            return new;
        }
        if self.used == self.granted {
            return None;
        }
        while let Some(number) = self.nacked.pop_front() {
            if !self.acked.contains(number) {
                self.used += 1;
                self.stats.retransmitted += 1;
                return Some(number);
            }
        }
        if new.is_some() {
            self.used += 1;
            self.next_new += 1;
        }
        new
    }

    /// A packet arrived that was sent at `sent`.
    pub fn on_ack(&mut self, now: Time, number: u32, sent: Time, config: &Config) {
        if number < self.next_new {
            let last_sent = self.answered(now, number);
            let rtt = now.since(sent).min(config.peer_timeout);
            self.smoothed_rtt = if last_sent == Some(sent) {
                (self.smoothed_rtt * 7 + rtt) / 8
            } else {
                // It had been given up too early.
                self.smoothed_rtt.max(rtt)
            };
            self.acked.insert(number);
        }
    }

    /// A packet was trimmed.
    pub fn on_nack(&mut self, now: Time, number: u32) {
        if number < self.next_new && !self.acked.contains(number) {
            self.answered(now, number);
            // A receiver may say so as often as it likes: twice all packets hold every honest answer.
            let is_full = self.nacked.len() >= 2 * self.next_new as usize;
            if !(is_full && self.nacked.contains(&number)) {
                self.nacked.push_back(number);
            }
        }
    }

    /// The receiver grants packets.
    pub fn on_pull(&mut self, now: Time, granted: u32) {
        self.last_heard = now;
        self.granted = self.granted.max(granted);
    }

    /// Notes an answer about a packet: when it was sent, if it is in flight.
    fn answered(&mut self, now: Time, number: u32) -> Option<Time> {
        self.last_heard = now;
        self.backoff = 0;
        let entry = self.in_flight.iter_mut().find(|entry| entry.0 == Some(number));
        let sent = entry.map(|entry| {
            entry.0 = None;
            entry.1
        });
        while let Some((None, _)) = self.in_flight.front() {
            self.in_flight.pop_front();
        }
        sent
    }

    fn timeout(&self, config: &Config) -> Duration {
        config.backed_off((self.smoothed_rtt * 3).max(config.min_timeout), self.backoff)
    }

    /// When to look for lost packets, or for a lost receiver.
    pub fn deadline(&self, config: &Config) -> Time {
        let lost_peer = self.last_heard + self.peer_timeout;
        match self.in_flight.front() {
            Some((_, sent)) => (*sent + self.timeout(config)).earlier_of(lost_peer),
            None => lost_peer,
        }
    }

    /// Gives packets up for lost; false if the receiver is.
    pub fn on_timeout(&mut self, now: Time, config: &Config) -> bool {
        if now.has_reached(self.last_heard + self.peer_timeout) {
            return false;
        }
        let timeout = self.timeout(config);
        let mut found = false;
        while let Some((number, sent)) = self.in_flight.front().copied() {
            if number.is_some() && (sent + timeout).is_after(now) {
                break;
            }
            self.in_flight.pop_front();
            if let Some(number) = number {
                self.stats.timed_out += 1;
                if self.probe.is_none() && !found {
                    self.probe = Some(number);
                } else {
                    self.vanished = self.vanished.saturating_add(1);
                    self.nacked.push_back(number);
                }
                found = true;
            }
        }
        self.backoff += u32::from(found && self.backoff < 10);
        true
    }
}

/// A packet of a transfer of that length, with a fixed class or by the configuration's rule.
pub(super) fn packet(
    config: &Config,
    (destination, session): (Destination, SessionId),
    (transfer_len, class): (u64, Option<Class>),
    path: u16,
    data: Data,
) -> Frame<NdpHeader> {
    let payload = u64::from(config.payload.max(1));
    let sent = u64::from(data.number) * payload;
    Frame {
        source: config.host,
        destination,
        session,
        payload_len: transfer_len.saturating_sub(sent).min(payload) as u16,
        path,
        class: class.unwrap_or_else(|| config.priority.class(sent, transfer_len)),
        ecn: Ecn::NotCapable,
        trimmed: false,
        header: NdpHeader::Data(data),
    }
}

/// Path labels: all labels below a bound in a random order, then in another (NDP §3.2: the list of paths is permuted
/// again after a packet on each).
#[derive(Debug)]
pub(super) struct Labels {
    order: Vec<u16>,
    next: usize,
    random: RandomStream,
}

impl Labels {
    /// Those of a flow.
    pub fn of(config: &Config, session: SessionId) -> Self {
        let number = (u64::from(config.host.0) << 32) | u64::from(session.0);
        Labels::new(config.paths, config.seed.numbered_stream("paths", number))
    }

    fn new(count: u16, random: RandomStream) -> Self {
        Labels { order: (0..count.max(1)).collect(), next: 0, random }
    }

    /// A step of Fisher and Yates at each packet: most flows end before they have used every label.
    pub fn next(&mut self) -> u16 {
        let left = self.order.len() - self.next;
        let pick = self.next + self.random.below(left as u64) as usize;
        self.order.swap(self.next, pick);
        let label = self.order[self.next];
        self.next = (self.next + 1) % self.order.len();
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;
    use wellspring_core::{HostId, Rate, Seed};

    #[test]
    fn nacks_repeated_for_ever_fill_no_queue() {
        let config = Config::new(HostId(0), Rate::from_mbps(1_000), Seed(1));
        let key = (HostId(1), SessionId(1));
        let transfer =
            SendTransfer { session: key.1, receiver: key.0, transfer_len: 100_000, class: None };
        let mut sender = Sender::new(Time::ZERO, &config, &transfer);
        while sender.transmit(Time::ZERO, key, &config).is_some() {}
        for number in (0..12).cycle().take(1_000) {
            sender.on_nack(Time::ZERO, number);
        }
        assert_eq!(sender.nacked.len(), 24);
    }

    #[test]
    fn labels_visit_every_path_in_turn() {
        for count in [1, 2, 12, 25, 36] {
            let mut labels = Labels::new(count, Seed(1).stream("labels"));
            for _ in 0..4 {
                let round: Vec<_> = (0..count).map(|_| labels.next()).collect();
                let distinct: BTreeSet<_> = round.iter().collect();
                assert_eq!(distinct.len(), count.into(), "{round:?}");
            }
        }
    }
}
