//! The receiving side of a flow.

use super::config::Config;
use super::seen::Seen;
use wellspring_core::{Duration, Time};
use wellspring_wire::ndp::Data;

/// The account of a flow at its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiveStats {
    /// Payload bytes of the flow.
    pub bytes: u64,
    /// Data packets of the flow.
    pub packets: u64,
    /// Trimmed headers.
    pub trimmed: u64,
    /// Packets that were here already.
    pub duplicates: u64,
    /// Pulls sent, repeats included.
    pub pulls: u64,
}

/// What an arrival calls for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    pub ack: bool,
    pub complete: bool,
    /// Bytes after which progress is reported.
    pub progress: Option<u64>,
}

/// A flow at its receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    total: u32,
    window: u32,
    seen: Seen,
    /// Packets to be sent once more: trimmed or vanished.
    repeats_wanted: u64,
    /// Pulls granted, sent or queued.
    granted: u32,
    /// Of these, those that wait in the pull queue.
    queued: u32,
    /// The last pull is to be sent again, granting nothing new.
    repeat: bool,
    /// Packets the sender said had vanished.
    vanished: u32,
    last_arrival: Time,
    last_pull: Time,
    backoff: u32,
    /// The round trip, as the sender says.
    rtt: Duration,
    /// Payload that has been reported as progress \[bytes\].
    reported: u64,
    /// Whether everything is here.
    pub done: bool,
    pub stats: ReceiveStats,
}

impl Receiver {
    /// A receiver opened by a packet, and when it is first due.
    pub fn new(now: Time, data: &Data, config: &Config) -> (Receiver, Time) {
        let receiver = Receiver {
            total: data.total.max(1),
            window: u32::from(data.window).min(data.total.max(1)),
            seen: Seen::default(),
            repeats_wanted: 0,
            granted: 0,
            queued: 0,
            repeat: false,
            vanished: 0,
            last_arrival: now,
            last_pull: now,
            backoff: 0,
            rtt: data.rtt,
            reported: 0,
            done: false,
            stats: ReceiveStats::default(),
        };
        let due = receiver.deadline(config);
        (receiver, due)
    }

    /// Takes in a data packet or its header; `None` if it contradicts the flow.
    pub fn on_data(
        &mut self,
        now: Time,
        data: &Data,
        trimmed: bool,
        payload_len: u16,
        config: &Config,
    ) -> Option<Answer> {
        // Nobody sends what was not asked for; memory grows with what was.
        let asked_for = self.window.saturating_add(self.granted - self.queued);
        if data.total != self.total || data.number >= self.total.min(asked_for) {
            return None;
        }
        self.last_arrival = now;
        self.backoff = 0;
        self.rtt = data.rtt;
        let mut answer = Answer { ack: true, complete: false, progress: None };
        let is_new = if trimmed {
            self.stats.trimmed += 1;
            answer.ack = self.seen.contains(data.number);
            !answer.ack
        } else {
            self.seen.insert(data.number)
        };
        if is_new && !trimmed {
            self.stats.bytes += u64::from(payload_len);
            self.stats.packets += 1;
            answer.complete = self.seen.count() == self.total;
            answer.progress = self.progress(config);
        } else if !trimmed {
            self.stats.duplicates += 1;
        }
        if answer.complete {
            self.done = true;
            self.queued = 0;
            self.repeat = false;
        }
        if !self.done {
            self.grant(is_new, trimmed, data.vanished);
        }
        Some(answer)
    }

    fn progress(&mut self, config: &Config) -> Option<u64> {
        let every = u64::from(config.progress_every);
        let due = every > 0 && self.stats.packets.is_multiple_of(every);
        due.then(|| self.stats.bytes - core::mem::replace(&mut self.reported, self.stats.bytes))
    }

    /// One pull for a new packet as long as pulls are short of what is still to be sent, one for
    /// every header, and one for everything that vanished.
    fn grant(&mut self, is_new: bool, trimmed: bool, vanished: u32) {
        let newly_vanished = vanished.saturating_sub(self.vanished).min(u32::from(u16::MAX));
        self.vanished += newly_vanished;
        self.repeats_wanted += u64::from(is_new && trimmed) + u64::from(newly_vanished);
        let sendable = u64::from(self.window) + u64::from(self.granted);
        let short = (u64::from(self.total) + self.repeats_wanted).saturating_sub(sendable);
        let due = u64::from(is_new) + u64::from(newly_vanished);
        let pulls = short.min(due).min((u32::MAX - self.granted).into()) as u32;
        self.granted += pulls;
        self.queued += pulls;
    }

    /// Whether a pull waits to be sent.
    pub fn has_pull(&self) -> bool {
        self.queued > 0 || self.repeat
    }

    /// Takes one pull from the queue: what it grants in all.
    pub fn pull(&mut self, now: Time) -> u32 {
        match self.queued.checked_sub(1) {
            Some(left) => self.queued = left,
            None => self.repeat = false,
        }
        self.last_pull = now;
        self.stats.pulls += 1;
        self.granted - self.queued
    }

    fn timeout(&self, config: &Config) -> Duration {
        let base = self.rtt.min(config.peer_timeout).max(config.min_timeout);
        config.backed_off(base, self.backoff)
    }

    /// When to repeat a pull, or to give up, or to forget.
    pub fn deadline(&self, config: &Config) -> Time {
        match self.done {
            true => self.last_arrival + config.peer_timeout * 2,
            false => {
                let quiet_since = self.last_arrival.later_of(self.last_pull);
                quiet_since + self.timeout(config)
            }
        }
    }

    /// Whether the flow's sender is gone. While pulls wait for their turn it may be silent for
    /// longer.
    pub fn is_abandoned(&self, now: Time, config: &Config) -> bool {
        let patience = if self.has_pull() { 4 } else { 1 };
        !self.done && now.has_reached(self.last_arrival + config.peer_timeout * patience)
    }

    /// Silence: asks for the last pull to be sent again unless others wait; true if it does.
    pub fn repeat_pull(&mut self, now: Time) -> bool {
        self.last_pull = now;
        if self.has_pull() {
            return false;
        }
        self.backoff += u32::from(self.backoff < 10);
        self.repeat = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_core::{HostId, Rate, Seed};

    fn data(number: u32, total: u32, vanished: u32) -> Data {
        let (sent, rtt) = (Time::ZERO, Duration::ZERO);
        Data { number, total, window: 12, vanished, sent, rtt }
    }

    fn config() -> Config {
        Config::new(HostId(0), Rate::from_mbps(1_000), Seed(1))
    }

    /// One such packet took half a gigabyte to note.
    #[test]
    fn what_was_not_asked_for_is_not_taken() {
        let (config, first) = (config(), data(0, u32::MAX, 0));
        let (mut receiver, _) = Receiver::new(Time::ZERO, &first, &config);
        let mut take = |data| receiver.on_data(Time::ZERO, &data, false, 100, &config);
        assert!(take(first).is_some());
        assert_eq!(take(data(u32::MAX - 1, u32::MAX, 0)), None);
        assert_eq!(take(data(12, u32::MAX, 0)), None);
        assert!(take(data(11, u32::MAX, 0)).is_some());
        assert_eq!(receiver.pull(Time::ZERO), 1);
        assert!(
            receiver.on_data(Time::ZERO, &data(12, u32::MAX, 0), false, 100, &config).is_some()
        );
    }

    #[test]
    fn grants_end_with_their_counter() {
        let (config, first) = (config(), data(0, u32::MAX, 0));
        let (mut receiver, _) = Receiver::new(Time::ZERO, &first, &config);
        (receiver.granted, receiver.repeats_wanted) = (u32::MAX - 5, u64::from(u32::MAX));
        receiver.on_data(Time::ZERO, &data(0, u32::MAX, 100), false, 100, &config);
        assert_eq!((receiver.granted, receiver.queued), (u32::MAX, 5));
    }
}
