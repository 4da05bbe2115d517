//! Loss meter of the receive side: how much the link loses, and in what bursts.
//!
//! A repair has the numbers of its packets, so each repair reports for up to r packets whether they
//! had arrived. The meter records that by number and counts a number once no repair can report on it
//! any more: a run of packets that had not arrived is a burst.

use wellspring_core::{Duration, Time};

/// How many numbers are remembered \[packets\]. Interleaves reach less far.
const WINDOW: usize = 1 << 14;
/// How far behind the newest number a packet is counted \[packets\], at least and at most: beyond
/// the reach of the code no repair reports on it.
const LAG: std::ops::RangeInclusive<u32> = 64..=WINDOW as u32 / 2;
/// How far to look for a packet that arrived before or after a lost one \[packets\].
const NEAR: u32 = 512;

/// The receive side's report to the send side about a span of packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LossReport {
    /// Packets that were sent.
    pub packets: u32,
    /// Those that did not arrive by themselves.
    pub lost: u32,
    /// Runs of lost packets.
    pub bursts: u32,
    /// Packets brought back in the same time.
    pub recovered: u32,
    /// Nineteen of twenty lost packets were in bursts no longer than this \[packets\].
    pub usual_burst: u16,
    /// The longest burst \[packets\].
    pub longest_burst: u16,
}

impl LossReport {
    /// Part of the packets lost, 0 to 1.
    pub fn loss(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { f64::from(self.lost) / f64::from(self.packets) }
    }
}

impl LossReport {
    /// This and another part of the same link's packets together.
    #[must_use]
    pub fn and(&self, other: &LossReport) -> LossReport {
        LossReport {
            packets: self.packets.saturating_add(other.packets),
            lost: self.lost.saturating_add(other.lost),
            bursts: self.bursts.saturating_add(other.bursts),
            recovered: self.recovered.saturating_add(other.recovered),
            usual_burst: self.usual_burst.max(other.usual_burst),
            longest_burst: self.longest_burst.max(other.longest_burst),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum State {
    /// No repair has reported on it.
    #[default]
    Unknown,
    Arrived(Time),
    Lost,
}

/// Longest burst distinguished \[packets\].
const LONGEST: usize = 1_024;

/// Collects what repairs report.
#[derive(Debug)]
pub(crate) struct Meter {
    /// By number, modulo the window.
    states: Vec<State>,
    /// One more than the newest number; nothing is known before the first repair.
    end: Option<u32>,
    /// The next number to be counted.
    settled: u32,
    /// How far behind the newest number that is.
    lag: u32,
    /// Length of the burst that the counted numbers end in.
    run: u32,
    packets: u32,
    lost: u32,
    longest: u32,
    /// Bursts by length.
    bursts: Vec<u32>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Meter {
            states: vec![State::Unknown; WINDOW],
            end: None,
            settled: 0,
            lag: *LAG.start(),
            run: 0,
            packets: 0,
            lost: 0,
            longest: 0,
            bursts: vec![0; LONGEST + 1],
        }
    }

    /// The peer began anew, and so do its numbers.
    pub(crate) fn restart(&mut self) {
        self.close_run();
        self.end = None;
        self.lag = *LAG.start();
    }

    /// A repair's packets span so many numbers.
    pub(crate) fn reach(&mut self, span: u32) {
        self.lag = self.lag.max(span.saturating_add(*LAG.start()).min(*LAG.end()));
    }

    /// Records a repair's report on a packet: when it arrived, or that it has not. The first report holds:
    /// later the packet may have been brought back.
    pub(crate) fn record(&mut self, number: u32, arrived: Option<Time>) {
        let end = match self.end {
            // Numbers that leap by more than is remembered start a new count.
            Some(end) if (number.wrapping_sub(end) as i32).unsigned_abs() < WINDOW as u32 / 2 => {
                end
            }
            _ => {
                self.close_run();
                self.states.fill(State::Unknown);
                self.settled = number;
                self.end = Some(number);
                number
            }
        };
        let ahead = number.wrapping_sub(end) as i32;
        if ahead >= 0 {
            for between in 0..=ahead as u32 {
                self.states[place(end.wrapping_add(between))] = State::Unknown;
            }
            let end = number.wrapping_add(1);
            self.end = Some(end);
            while end.wrapping_sub(self.settled) > self.lag {
                self.settle();
            }
        }
        if (number.wrapping_sub(self.settled) as i32) < 0 {
            return;
        }
        let state = &mut self.states[place(number)];
        if *state == State::Unknown {
            *state = arrived.map_or(State::Lost, State::Arrived);
        }
    }

    /// Whether a repair has reported that a packet had arrived, and it is not counted yet.
    pub(crate) fn has_arrived(&self, number: u32) -> bool {
        let open = |end: u32| number.wrapping_sub(self.settled) < end.wrapping_sub(self.settled);
        self.end.is_some_and(open) && matches!(self.states[place(number)], State::Arrived(_))
    }

    /// A packet that had not arrived when a repair reported on it arrives after all: the repair had
    /// overtaken it.
    pub(crate) fn arrived_late(&mut self, number: u32, at: Time) {
        let counted = (number.wrapping_sub(self.settled) as i32) < 0;
        let state = &mut self.states[place(number)];
        if !counted && *state == State::Lost {
            *state = State::Arrived(at);
        }
    }

    /// When a lost packet would have arrived: between those sent before and after it.
    pub(crate) fn expected(&self, number: u32) -> Option<Time> {
        let arrival = |at: u32| match self.states[place(at)] {
            State::Arrived(time) => Some(time),
            _ => None,
        };
        let end = self.end?;
        let room = (end.wrapping_sub(number) as i32).clamp(0, NEAR as i32) as u32;
        let before = (1..NEAR).find_map(|n| Some((n, arrival(number.wrapping_sub(n))?)));
        let after = (1..room).find_map(|n| Some((n, arrival(number.wrapping_add(n))?)));
        match (before, after) {
            (Some((b, early)), Some((a, late))) => {
                let gap = late.since(early).as_picos() / u64::from(a + b);
                Some(early + Duration::from_picos(gap) * u64::from(b))
            }
            (Some((_, time)), None) | (None, Some((_, time))) => Some(time),
            (None, None) => None,
        }
    }

    /// What was counted since the last report. Packets of a burst that has not ended go with the burst
    /// into a later one: no report has more lost than sent.
    pub(crate) fn report(&mut self, recovered: u32) -> LossReport {
        let bursts = self.bursts.iter().sum();
        let in_bursts = |(length, &count): (usize, &u32)| length as u64 * u64::from(count);
        let all: u64 = self.bursts.iter().enumerate().map(in_bursts).sum();
        let mut covered = 0;
        let usual = self.bursts.iter().enumerate().position(|burst| {
            covered += in_bursts(burst);
            covered * 20 >= all * 19
        });
        let report = LossReport {
            packets: self.packets.saturating_sub(self.run),
            lost: self.lost,
            bursts,
            recovered,
            usual_burst: usual.unwrap_or(0) as u16,
            longest_burst: self.longest.min(u32::from(u16::MAX)) as u16,
        };
        (self.packets, self.lost, self.longest) = (self.run, 0, 0);
        self.bursts.fill(0);
        report
    }

    /// Counts the next number.
    fn settle(&mut self) {
        let state = &mut self.states[place(self.settled)];
        self.settled = self.settled.wrapping_add(1);
        self.packets = self.packets.saturating_add(1);
        match std::mem::take(state) {
            State::Arrived(_) => self.close_run(),
            State::Lost => self.run += 1,
            // All its repairs were lost: in a burst it was, most likely, lost with them.
            State::Unknown if self.run > 0 => self.run += 1,
            State::Unknown => {}
        }
    }

    fn close_run(&mut self) {
        if self.run > 0 {
            self.lost = self.lost.saturating_add(self.run);
            self.longest = self.longest.max(self.run);
            self.bursts[(self.run as usize).min(LONGEST)] += 1;
            self.run = 0;
        }
    }
}

fn place(number: u32) -> usize {
    number as usize % WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_counted_by_length() {
        let mut meter = Meter::new();
        // Numbers that pass 2^32 on the way.
        let start = u32::MAX - 30_000;
        let lost = |n: u32| n % 1_000 == 500 || (n % 1_000 >= 700 && n % 1_000 < 720);
        for n in 0..100_000 {
            let arrived = Time::ZERO + Duration::from_micros(u64::from(n));
            meter.record(start.wrapping_add(n), (!lost(n)).then_some(arrived));
        }
        let report = meter.report(7);
        let expected = report.packets / 1_000;
        assert!(report.packets >= 98_000, "{report:?}");
        assert!(report.lost.abs_diff(21 * expected) <= 21, "{report:?}");
        assert!(report.bursts.abs_diff(2 * expected) <= 2, "{report:?}");
        assert_eq!((report.usual_burst, report.longest_burst, report.recovered), (20, 20, 7));
        assert_eq!(meter.report(0), LossReport::default());
    }

    #[test]
    fn a_burst_counts_where_it_ends_with_all_its_packets() {
        let mut meter = Meter::new();
        let mut number = 0;
        let mut record = |meter: &mut Meter, count: u32, lost: bool| {
            for _ in 0..count {
                meter.record(number, (!lost).then_some(Time::ZERO));
                number += 1;
            }
        };
        let account = |report: LossReport| (report.packets, report.lost, report.bursts);
        let lag = *LAG.start();
        record(&mut meter, 100, false);
        record(&mut meter, 50 + lag, true);
        assert_eq!(account(meter.report(0)), (100, 0, 0), "fifty more are of a burst under way");
        record(&mut meter, 10 + lag, false);
        assert_eq!(account(meter.report(0)), (50 + lag + 10, 50 + lag, 1));
    }

    #[test]
    fn a_lost_packet_is_expected_between_its_neighbours() {
        let mut meter = Meter::new();
        let at = |n: u32| Time::ZERO + Duration::from_micros(u64::from(n) * 10);
        for n in 0..100 {
            meter.record(n, (!(40..60).contains(&n)).then(|| at(n)));
        }
        assert_eq!(meter.expected(40), Some(at(40)));
        assert_eq!(meter.expected(55), Some(at(55)));
        assert_eq!(Meter::new().expected(5), None);
    }

    #[test]
    fn wild_numbers_cost_no_more_than_the_window() {
        let mut meter = Meter::new();
        for step in 0..2_000_u32 {
            meter.record(step.wrapping_mul(0x9e37_79b9), None);
            assert!(meter.run <= WINDOW as u32);
        }
    }
}
