//! Deadlines of repairs: a bin that packets do not fill in time is sent as it is.
//!
//! Hosts take a packet for lost when it is late by a quarter of a round trip (RFC 8985 §6.2.1), so the near layers'
//! deadline is a fifth of one. The far layers, which bring back what the near ones cannot, have four times as long.
//! Codes for single losses have one near layer, of interleave 1: the others' bins wait until they are full.
//! At high rates bins are full long before; at low rates deadlines make of every code one of shorter XORs.
//!
//! Overhead stays bounded. While the path has no queue, there is capacity to spare: as many repairs leave as the limits
//! allow for each packet, and [`THIN_RATE`] a second beside, of which thin streams live. Where it has one, bins that
//! are not full leave for one packet in [`FULL_PART`] at most.

use std::collections::VecDeque;

use wellspring_codec::interleave::Parameters;
use wellspring_core::{Duration, Time};

/// Repairs a second that may leave beside those that the limits allow for packets.
pub(crate) const THIN_RATE: f64 = 300.0;
/// Packets for each bin that leaves unfilled while the path has a queue.
const FULL_PART: f64 = 20.0;
/// A path on which datagrams wait for more of the time, in thousandths, has a queue.
const QUEUED: u16 = 300;
/// Repairs that may be saved up, and owed.
const SAVED: f64 = 64.0;
/// Deadlines while the round trip is unknown, and their bounds.
const UNKNOWN: Duration = Duration::from_millis(20);
const LEAST: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_millis(50);
/// The near layers' part of a round trip.
const PART: u64 = 5;
/// How much longer far layers have.
const FAR: u64 = 4;
/// Moments remembered within a near layer's deadline.
const STEPS: u64 = 8;
/// Packets of which it is remembered that a repair of them alone has left.
const ALONE: usize = 256;
/// Repairs of a sliding window that are counted, at most: more than any burst needs.
const MOST_COUNTED: usize = 512;
/// Bursts that take the repairs of the packets that they take.
const LONG_BURST: u64 = 8;
/// Fewer packets are a thin stream, which pays for one repair each.
const FEW: u64 = 3;

/// When bins are to be sent, and whether they may.
#[derive(Debug)]
pub(crate) struct Deadlines {
    /// What the user has set.
    budget: Option<Duration>,
    round_trip: Option<Duration>,
    /// Moments, and the number of the packet that was next then.
    marks: VecDeque<(Time, u64)>,
    check_at: Option<Time>,
    /// Repairs for each packet that the limits allow.
    overhead: f64,
    /// Whether the path has no queue.
    spare: bool,
    credit: f64,
    credited_at: Time,
    /// Packets of which a repair of them alone has left, by number modulo the length.
    alone: Vec<u64>,
    /// When repairs of a sliding window left, in two of a near layer's deadlines.
    sliding: VecDeque<Time>,
    /// The number of packets when repairs last followed a silence.
    silent_at: u64,
}

impl Deadlines {
    pub(crate) fn new(budget: Option<Duration>, overhead: f64) -> Self {
        Deadlines {
            budget,
            round_trip: None,
            marks: VecDeque::new(),
            check_at: None,
            overhead,
            spare: true,
            credit: SAVED,
            credited_at: Time::ZERO,
            alone: vec![u64::MAX; ALONE],
            sliding: VecDeque::new(),
            silent_at: 0,
        }
    }

    /// The path's round trip is known, if it is not zero, and the thousandths of the time in
    /// which there is a queue on it.
    pub(crate) fn on_path(&mut self, round_trip: Duration, queued: u16) {
        if round_trip > Duration::ZERO {
            self.round_trip = Some(round_trip);
        }
        self.spare = queued < QUEUED;
    }

    /// Packets are numbered anew.
    pub(crate) fn restart(&mut self) {
        self.marks.clear();
        self.check_at = None;
        self.alone.fill(u64::MAX);
        self.sliding.clear();
        self.silent_at = 0;
    }

    /// How long bins of a layer wait, if not for ever: near layers are those of interleave 1 and, of a code for
    /// bursts, the next.
    pub(crate) fn of_layer(&self, code: &Parameters, layer: usize) -> Option<Duration> {
        let near = self.near();
        let wide = code.interleaves()[..=layer].iter().filter(|&&i| i > 1).count();
        match wide {
            0 => Some(near),
            _ if !code.delayed => None,
            1 => Some(near),
            _ => Some(near * FAR),
        }
    }

    /// How long near layers wait, and blocks.
    pub(crate) fn near(&self) -> Duration {
        let by_path = self.round_trip.map_or(UNKNOWN, |round_trip| round_trip / PART);
        self.budget.unwrap_or(by_path.max(LEAST).min(MOST))
    }

    /// How long far layers wait, and a sliding window reaches back.
    pub(crate) fn far(&self) -> Duration {
        self.near() * FAR
    }

    /// A repair of a sliding window leaves.
    pub(crate) fn on_sliding(&mut self, now: Time) {
        while self.sliding.front().is_some_and(|&at| now.has_reached(at + self.near() * 2))
            || self.sliding.len() > MOST_COUNTED
        {
            self.sliding.pop_front();
        }
        self.sliding.push_back(now);
    }

    /// How many more repairs of a sliding window are wanted that serves bursts of so many packets; `next` is the next
    /// packet's number.
    ///
    /// In the time of a near deadline there are to be as many as the burst has packets, but no more than packets left.
    /// A burst may take the last packets before a silence with all their repairs: some follow when it is that long.
    pub(crate) fn wanted(&mut self, now: Time, next: u64, burst: u64) -> u64 {
        let near = self.near();
        let recent = next.saturating_sub(self.before(now, near / 2 * 3));
        if recent == 0 && burst >= LONG_BURST && self.silent_at != next {
            self.silent_at = next;
            let last = next.saturating_sub(self.before(now, self.far()));
            return if last < FEW { 0 } else { last.min(burst / 4 + 1) };
        }
        // As long as packets are recent, and what that is rounded to.
        let counted = near + if recent < FEW { near } else { Duration::ZERO };
        let sent = self.sliding.iter().filter(|&&at| now.is_before(at + counted)).count() as u64;
        recent.min(burst).saturating_sub(sent)
    }

    fn step(&self) -> Duration {
        self.near() / STEPS
    }

    /// A packet leaves; `number` is its number.
    pub(crate) fn on_packet(&mut self, now: Time, number: u64) {
        self.earn(now, if self.spare { self.overhead } else { 1.0 / FULL_PART });
        self.mark(now, number);
        if self.check_at.is_none() {
            self.check_at = Some(now + self.step());
        }
    }

    fn earn(&mut self, now: Time, repairs: f64) {
        let rate = if self.spare { THIN_RATE } else { 0.0 };
        let by_time = now.since(self.credited_at).as_secs_f64() * rate;
        self.credited_at = now;
        self.credit = (self.credit + repairs + by_time).min(SAVED);
    }

    fn mark(&mut self, now: Time, number: u64) {
        if self.marks.back().is_some_and(|&(last, _)| now.is_before(last + self.step())) {
            return;
        }
        self.marks.push_back((now, number));
        let longest = self.near() * (FAR + 1);
        // One of those that are older than every deadline says all that they say.
        while self.marks.get(1).is_some_and(|&(second, _)| now.has_reached(second + longest)) {
            self.marks.pop_front();
        }
    }

    /// When bins are to be looked at.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.check_at
    }

    /// Whether bins are to be looked at now; `next` is the next packet's number.
    pub(crate) fn is_due(&mut self, now: Time, next: u64) -> bool {
        if self.check_at.is_none_or(|at| now.is_before(at)) {
            return false;
        }
        self.earn(now, 0.0);
        self.mark(now, next);
        // Until all that has left is older than the longest deadline.
        let newest = self.marks.iter().find(|&&(_, number)| number >= next);
        let over = newest.is_some_and(|&(at, _)| now.has_reached(at + self.near() * FAR));
        self.check_at = (!over).then(|| now + self.step());
        true
    }

    /// Packets before this number left so long ago, at least.
    pub(crate) fn before(&self, now: Time, ago: Duration) -> u64 {
        let old = self.marks.iter().rev().find(|&&(at, _)| now.has_reached(at + ago));
        old.map_or(0, |&(_, number)| number)
    }

    /// A repair leaves, of one packet alone or of several, from a bin that was full or not. While there is a queue the
    /// former are the code's, and owe nothing.
    pub(crate) fn on_repair(&mut self, alone: Option<u64>, full: bool) {
        if self.spare || !full {
            self.credit = (self.credit - 1.0).max(-SAVED);
        }
        if let Some(number) = alone {
            self.alone[number as usize % ALONE] = number;
        }
    }

    /// Whether a bin may be sent that is not full.
    pub(crate) fn may_send(&self) -> bool {
        self.credit >= 1.0
    }

    /// Whether a repair of that packet alone has left.
    pub(crate) fn went_alone(&self, number: u64) -> bool {
        self.alone[number as usize % ALONE] == number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn deadlines_follow_the_path_and_the_user() {
        let mut deadlines = Deadlines::new(None, 0.5);
        let mut code = Parameters::new(8, &[1, 19, 41]).expect("a code");
        let ms = Duration::from_millis;
        assert_eq!([0, 1, 2].map(|n| deadlines.of_layer(&code, n)), [Some(ms(20)), None, None]);
        code.delayed = true;
        let of = |deadlines: &Deadlines| {
            [0, 1, 2].map(|layer| deadlines.of_layer(&code, layer).expect("of a code for bursts"))
        };
        assert_eq!(of(&deadlines), [ms(20), ms(20), ms(80)]);
        deadlines.on_path(ms(100), 0);
        deadlines.on_path(Duration::ZERO, 0);
        assert_eq!(of(&deadlines), [ms(20), ms(20), ms(80)]);
        deadlines.on_path(ms(2_000), 0);
        assert_eq!(of(&deadlines), [ms(50), ms(50), ms(200)]);
        assert_eq!(of(&Deadlines::new(Some(ms(7)), 0.5)), [ms(7), ms(7), ms(28)]);
    }

    #[test]
    fn what_is_old_is_known_to_a_step() {
        let mut deadlines = Deadlines::new(None, 0.5);
        for number in 0..100 {
            deadlines.on_packet(at(10 + number), number);
            let before = deadlines.before(at(10 + number), Duration::from_millis(20));
            let expected = number.saturating_sub(20);
            assert!(before <= expected && before + 3 >= expected, "{number}: {before}");
        }
        // After the last packet bins are looked at until the far layers' deadline, and no longer.
        let mut last = None;
        while let Some(check) = deadlines.poll_timeout() {
            assert!(deadlines.is_due(check, 100));
            last = Some(check);
        }
        let last = last.expect("one at least");
        assert_eq!(deadlines.before(last, Duration::from_millis(80)), 100);
        assert!(last.is_before(at(110 + 90)), "{last:?}");
        assert!(deadlines.marks.len() < 64);
    }

    #[test]
    fn credit_bounds_repairs() {
        for (queued, for_each, a_second) in [(200, 0.5, THIN_RATE), (800, 1.0 / FULL_PART, 0.0)] {
            let mut deadlines = Deadlines::new(None, 0.5);
            deadlines.on_path(Duration::ZERO, queued);
            let mut sent = 0;
            for number in 0..10_000 {
                deadlines.on_packet(at(number), number);
                while deadlines.may_send() {
                    deadlines.on_repair(None, false);
                    sent += 1;
                }
            }
            let allowed = (10_000.0 * for_each + 10.0 * a_second + SAVED) as u64;
            assert!(sent <= allowed && sent + 2 >= allowed, "{sent} of {allowed}");
        }
    }
}
