//! Loss events and the average loss interval (RFC 5348 §5).

use alloc::collections::VecDeque;
use wellspring_core::{Duration, Time};

/// Later packets that make a missing one a lost one (§5.1).
const NDUPACK: u8 = 3;
/// Loss intervals that are averaged (§5.4).
const N: usize = 8;
/// Weights of them, the current one first (§5.4).
const WEIGHTS: [f64; N] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// The least discount of older intervals (§5.5).
const THRESHOLD: f64 = 0.25;
/// Gaps that are watched at once; each lasts until three packets came from behind it.
const MAX_GAPS: usize = 16;

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
struct Seen {
    number: u32,
    at: Time,
}

/// Packets that are missing, in one row.
#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u32,
    count: u32,
    before: Seen,
    after: Seen,
    /// Packets that came from behind it.
    later: u8,
}

/// A loss interval that has ended.
#[derive(Clone, Copy, Debug)]
struct Interval {
    packets: f64,
    /// `DF_i` of §5.5.
    discount: f64,
}

/// What arrived of a flow, as far as losses are concerned. Memory does not grow.
#[derive(Debug)]
pub struct LossHistory {
    highest: Option<Seen>,
    gaps: VecDeque<Gap>,
    /// The newest first, `N` at most.
    intervals: VecDeque<Interval>,
    /// Number and nominal time of the packet that the current loss event began with.
    event: Option<Seen>,
    packets_lost: u64,
    discounting: bool,
}

/// How far `number` is ahead of `of`, on the circle of sequence numbers.
fn ahead(number: u32, of: u32) -> i32 {
    number.wrapping_sub(of) as i32
}

impl LossHistory {
    /// Of a flow that has not begun; `discounting` as in §5.5.
    pub fn new(discounting: bool) -> Self {
        LossHistory {
            highest: None,
            gaps: VecDeque::with_capacity(MAX_GAPS),
            intervals: VecDeque::with_capacity(N + 1),
            event: None,
            packets_lost: 0,
            discounting,
        }
    }

    /// Takes in a packet. `rtt` is the sender's, `first_interval` gives the length of the first
    /// loss interval, should the packet reveal the first loss (§6.3.1) \[packets\].
    pub fn on_packet(
        &mut self,
        now: Time,
        number: u32,
        rtt: Duration,
        first_interval: impl Fn() -> f64,
    ) {
        let arrived = Seen { number, at: now };
        let Some(highest) = self.highest else {
            self.highest = Some(arrived);
            return;
        };
        let step = ahead(number, highest.number);
        self.fill(number);
        for gap in &mut self.gaps {
            if ahead(number, gap.first) >= gap.count as i32 {
                gap.later = gap.later.saturating_add(1);
            }
        }
        if step > 0 {
            self.highest = Some(arrived);
        }
        if step > 1 {
            let (first, count) = (highest.number.wrapping_add(1), step as u32 - 1);
            self.push_gap(Gap { first, count, before: highest, after: arrived, later: 1 });
        }
        while let Some(gap) = self.gaps.front()
            && (gap.later >= NDUPACK || self.gaps.len() > MAX_GAPS)
        {
            let gap = *gap;
            self.gaps.pop_front();
            self.lost(&gap, rtt, &first_interval);
        }
    }

    /// Packets that did not come, so far.
    pub fn packets_lost(&self) -> u64 {
        self.packets_lost
    }

    fn push_gap(&mut self, gap: Gap) {
        self.gaps.push_back(gap);
    }

    /// A packet that was only late: takes it out of its gap.
    fn fill(&mut self, number: u32) {
        let within = |gap: &Gap| {
            let place = ahead(number, gap.first);
            place >= 0 && (place as u32) < gap.count
        };
        let Some(index) = self.gaps.iter().position(within) else { return };
        let gap = &mut self.gaps[index];
        let below = number.wrapping_sub(gap.first);
        let above = gap.count - below - 1;
        let (first, upper) = (number.wrapping_add(1), *gap);
        gap.count = below;
        if above > 0 {
            self.gaps.insert(index + 1, Gap { first, count: above, ..upper });
        }
        if below == 0 {
            self.gaps.remove(index);
        }
    }

    /// Packets are lost: begins loss events with those that were sent a round trip or more behind
    /// the beginning of the last one (§5.2). Of one gap as many at most as are averaged.
    fn lost(&mut self, gap: &Gap, rtt: Duration, first_interval: &impl Fn() -> f64) {
        self.packets_lost += u64::from(gap.count);
        // T_loss of §5.2, between the arrivals around the gap.
        let between = gap.after.at.since(gap.before.at).as_picos();
        let steps = gap.after.number.wrapping_sub(gap.before.number).max(1);
        let nominal = |number: u32| {
            let part = u128::from(number.wrapping_sub(gap.before.number)) * u128::from(between);
            gap.before.at + Duration::from_picos((part / u128::from(steps)) as u64)
        };
        let spacing = (between / u64::from(steps)).max(1);
        let mut next = 0_u32;
        for _ in 0..2 * N {
            if next >= gap.count {
                return;
            }
            let number = gap.first.wrapping_add(next);
            let at = nominal(number);
            if let Some(event) = self.event
                && (event.at + rtt).has_reached(at)
            {
                // The first packet that is far enough, without a look at each one before it.
                let missing = (event.at + rtt).since(at).as_picos() / spacing + 1;
                next = next.saturating_add(u32::try_from(missing).unwrap_or(u32::MAX));
                continue;
            }
            self.begin_event(Seen { number, at }, first_interval);
            next += 1;
        }
    }

    fn begin_event(&mut self, begins: Seen, first_interval: &impl Fn() -> f64) {
        let packets = match self.event {
            None => first_interval(),
            Some(event) => f64::from(begins.number.wrapping_sub(event.number)),
        };
        let discount = if self.discounting { self.current_discount() } else { 1.0 };
        for interval in &mut self.intervals {
            interval.discount *= discount;
        }
        self.intervals.push_front(Interval { packets: packets.max(1.0), discount: 1.0 });
        self.intervals.truncate(N);
        self.event = Some(begins);
    }

    /// `I_0`: packets since the last loss event began, itself included \[packets\] (§5.3).
    fn current(&self) -> f64 {
        match (self.highest, self.event) {
            (Some(highest), Some(event)) => {
                f64::from(ahead(highest.number, event.number).max(0)) + 1.0
            }
            _ => 0.0,
        }
    }

    /// (`I_tot1`, `W_tot1`): the intervals that have ended.
    fn ended(&self) -> (f64, f64) {
        let pairs = self.intervals.iter().zip(WEIGHTS);
        pairs.fold((0.0, 0.0), |(total, weights), (interval, weight)| {
            let weight = weight * interval.discount;
            (total + interval.packets * weight, weights + weight)
        })
    }

    /// DF of §5.5: less than 1 while the current interval is more than twice the average.
    fn current_discount(&self) -> f64 {
        let (total, weights) = self.ended();
        let mean = total / weights.max(f64::MIN_POSITIVE);
        let current = self.current();
        if current > 2.0 * mean && current > 0.0 {
            (2.0 * mean / current).max(THRESHOLD)
        } else {
            1.0
        }
    }

    /// p, the loss event rate: 0 before the first loss (§5.4).
    pub fn loss_event_rate(&self) -> f64 {
        if self.event.is_none() {
            return 0.0;
        }
        let discount = if self.discounting { self.current_discount() } else { 1.0 };
        let pairs = self.intervals.iter().zip(&WEIGHTS[1..]);
        let (total, weights) = pairs.fold(
            (self.current() * WEIGHTS[0], WEIGHTS[0]),
            |(total, weights), (interval, weight)| {
                let weight = weight * interval.discount * discount;
                (total + interval.packets * weight, weights + weight)
            },
        );
        let (ended, ended_weights) = self.ended();
        let mean = (total / weights).max(ended / ended_weights.max(f64::MIN_POSITIVE));
        1.0 / mean.max(1.0)
    }

    /// Whether any packet was lost.
    pub fn has_losses(&self) -> bool {
        self.event.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Packets 1 ms apart, some missing, with a round trip of so many ms: 1/p at the end.
    fn mean(upto: u32, missing: &[u32], rtt: u64, discounting: bool) -> f64 {
        let mut history = LossHistory::new(discounting);
        for number in (0..upto).filter(|number| !missing.contains(number)) {
            let now = Time::ZERO + Duration::from_millis(u64::from(number));
            history.on_packet(now, number, Duration::from_millis(rtt), || 10.0);
        }
        1.0 / history.loss_event_rate()
    }

    #[test]
    fn three_later_packets_make_a_loss_and_the_first_interval_is_given() {
        assert_eq!(mean(7, &[4], 10, false), f64::INFINITY);
        // Numbers 5, 6, 7 are later; I_0 = 4..=7, I_1 = 10; without the current one 10.
        assert_eq!(mean(8, &[4], 10, false), 10.0);
        // I_0 = 20: (20 + 10) / 2.
        assert_eq!(mean(24, &[4], 10, false), 15.0);
    }

    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        assert_eq!(mean(30, &[4, 5, 9, 14], 10, false), (26.0 + 10.0) / 2.0);
        // 15 is sent 11 ms behind 4: a second event, I_1 = 11.
        assert_eq!(mean(30, &[4, 5, 9, 15], 10, false), (15.0 + 11.0 + 10.0) / 3.0);
        // A gap of 30 ms holds three events.
        let gap: Vec<u32> = (10..40).collect();
        let (closed, first) = (11.0, 10.0);
        let open = 100.0 - 32.0;
        let expected = (open + closed + closed + first) / 4.0;
        assert_eq!(mean(100, &gap, 10, false), expected);
    }

    #[test]
    fn eight_intervals_weigh_less_with_age() {
        // Events every 20 packets from 20 on: I_1.. = 20 each, the first 10 falls out at the ninth.
        let missing: Vec<u32> = (1..=9).map(|event| event * 20).collect();
        assert_eq!(mean(190, &missing, 10, false), 20.0);
        // With eight events the given one has weight 0.2 of W = 6 without I_0: (5.8*20 + 0.2*10)/6.
        let expected = (5.8 * 20.0 + 0.2 * 10.0) / 6.0;
        assert!((mean(170, &missing[..8], 10, false) - expected).abs() < 1e-9);
    }

    #[test]
    fn a_long_interval_without_loss_discounts_the_older_ones() {
        // I_0 = 96, I_1 = 10: DF = max(20/96, 1/4) = 1/4, (96 + 10/4) / 1.25 = 78.8.
        assert!((mean(100, &[4], 10, true) - 78.8).abs() < 1e-9);
        assert_eq!(mean(100, &[4], 10, false), 53.0);
        // I_0 = 25: DF = 0.8, (25 + 8) / 1.8.
        assert!((mean(29, &[4], 10, true) - 33.0 / 1.8).abs() < 1e-9);
    }

    #[test]
    fn late_packets_are_no_losses_and_numbers_wrap() {
        let mut history = LossHistory::new(true);
        let start = u32::MAX - 3;
        for (step, place) in [0_u32, 2, 1, 3, 6, 5, 4, 7, 8, 9, 10].into_iter().enumerate() {
            let now = Time::ZERO + Duration::from_millis(step as u64);
            history.on_packet(now, start.wrapping_add(place), Duration::from_millis(1), || 5.0);
        }
        assert!(!history.has_losses());
        for place in [12, 13, 14_u32] {
            let now = Time::ZERO + Duration::from_millis(u64::from(place));
            history.on_packet(now, start.wrapping_add(place), Duration::from_millis(1), || 5.0);
        }
        assert!(history.has_losses());
    }

    #[test]
    fn hostile_numbers_cost_neither_time_nor_memory() {
        let mut history = LossHistory::new(true);
        let mut number = 1_u32;
        for step in 0..20_000_u64 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let now = Time::ZERO + Duration::from_micros(step);
            history.on_packet(now, number, Duration::ZERO, || f64::NAN);
            assert!(history.gaps.len() <= MAX_GAPS + 1);
            let p = history.loss_event_rate();
            assert!((0.0..=1.0).contains(&p), "{p}");
        }
    }
}
