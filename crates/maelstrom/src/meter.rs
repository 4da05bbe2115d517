//! Loss meter of the receive side: how much the link loses, and in what bursts.
//!
//! A repair has the numbers of its packets, so each repair reports for up to r packets whether they
//! had arrived. The meter records that by number and counts a number once no repair can report on it
//! any more: a run of packets that had not arrived is a burst.
//!
//! What was sent while the path's queue was long is counted apart. Where losses are far more frequent
//! there than elsewhere, they are the queue's drops, congestion, and say nothing of the link. Otherwise
//! they are the link's.

use wellspring_core::{Duration, Time};

use crate::loss_counts::Counts;
use crate::loss_frequency::{CERTAIN, Frequency};
use crate::loss_report::LossReport;
use crate::queue_samples::QueueSamples;

/// How many numbers are remembered \[packets\]. Interleaves reach less far.
const WINDOW: usize = 1 << 14;
/// The same of numbers that are recorded in order.
const WINDOW_IN_ORDER: usize = 1 << 10;
/// How far behind the newest number a packet is counted \[packets\], at least and at most: beyond
/// the reach of the code no repair reports on it.
const LAG: std::ops::RangeInclusive<u32> = 64..=WINDOW as u32 / 2;
/// How far to look for a packet that arrived before or after a lost one \[packets\].
const NEAR: u32 = 512;

/// What is known of a packet: when it arrived \[ps\], or one of two moments at which none did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct State(u64);

impl State {
    /// No repair has reported on it.
    const UNKNOWN: State = State(0);
    const LOST: State = State(1);

    fn arrived(at: Time) -> State {
        State(at.as_picos().max(2))
    }

    fn arrival(self) -> Option<Time> {
        (self.0 >= 2).then(|| Time::from_picos(self.0))
    }
}

/// How many packets of short queues count as of late, and of long ones: those are few, and it matters soon
/// what they say.
const LATELY_SHORT: f64 = 8_000.0;
const LATELY_LONG: f64 = 2_000.0;
/// Packets at a short queue before which none that is lost at a long one is left to the hosts, unless [`CERTAIN`] runs are:
/// until then one or two may be the link's.
const CERTAIN_PACKETS: f64 = 1_000.0;

/// Packets at a short queue that say that a link of some loss would have lost one.
const SUSPECT_PACKETS: f64 = 300.0;

/// Collects what repairs report.
#[derive(Debug)]
pub(crate) struct Meter {
    /// By number, modulo its length, a power of two.
    states: Vec<State>,
    /// One more than the newest number; nothing is known before the first repair.
    end: Option<u32>,
    /// The next number to be counted.
    settled: u32,
    /// How far behind the newest number that is, and at least is.
    lag: u32,
    least_lag: u32,
    /// Length of the burst that the counted numbers end in.
    run: u32,
    queue: QueueSamples,
    /// Whether the queue was long at the numbers that are counted now, and at the burst's.
    long_queue: bool,
    run_long: bool,
    /// What was counted at short queues and at long ones since the last report, and lately.
    short: Counts,
    long: Counts,
    lately_short: Frequency,
    lately_long: Frequency,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self::with_lag(*LAG.start(), WINDOW)
    }

    /// A meter of numbers that are recorded in order: each is counted when the next one is.
    pub(crate) fn in_order() -> Self {
        Self::with_lag(1, WINDOW_IN_ORDER)
    }

    fn with_lag(lag: u32, window: usize) -> Self {
        Meter {
            states: vec![State::UNKNOWN; window],
            end: None,
            settled: 0,
            least_lag: lag,
            lag,
            run: 0,
            queue: QueueSamples::new(),
            long_queue: false,
            run_long: false,
            short: Counts::new(),
            long: Counts::new(),
            lately_short: Frequency::default(),
            lately_long: Frequency::default(),
        }
    }

    /// Right behind that packet, the path's queue was long or not.
    pub(crate) fn record_queue(&mut self, number: u32, long: bool) {
        self.queue.record(number, long);
    }

    /// Behind that packet or a newer one that is known, the path's queue was long or not: a repair may
    /// follow its last packet late.
    pub(crate) fn record_queue_at_newest(&mut self, number: u32, long: bool) {
        let newest = self.end.map_or(number, |end| end.wrapping_sub(1));
        let ahead = newest.wrapping_sub(number);
        let number = if ahead < WINDOW as u32 / 2 { newest } else { number };
        self.record_queue(number, long);
    }

    /// Whether a lost packet was the drop of a long queue.
    pub(crate) fn is_congestion(&self, number: u32) -> bool {
        let certain =
            self.lately_long.events >= CERTAIN || self.lately_short.packets >= CERTAIN_PACKETS;
        certain && self.queue_drops() && self.queue.around(number)
    }

    /// Whether losses are far more frequent while the queue is long.
    fn queue_drops(&self) -> bool {
        self.lately_long.exceeds(&self.lately_short)
    }

    /// Whether nothing but a long queue seems to lose packets, which may be chance so far.
    fn queue_is_suspect(&self) -> bool {
        self.lately_short.events == 0.0 && self.lately_short.packets >= SUSPECT_PACKETS
    }

    /// Whether losses of the link were counted since the last report.
    pub(crate) fn has_losses(&self) -> bool {
        let of_link = !self.queue_drops() && !self.queue_is_suspect();
        self.short.lost > 0 || (self.long.lost > 0 && of_link)
    }

    /// Whether drops of a long queue were counted since the last report, and are no chance.
    pub(crate) fn has_queue_drops(&self) -> bool {
        self.long.lost > 0 && self.lately_long.events >= CERTAIN && self.queue_drops()
    }

    /// Whether nothing was lost of so many packets that the link loses few.
    pub(crate) fn is_clean(&self) -> bool {
        let of = |sum: fn(&Frequency) -> f64| sum(&self.lately_short) + sum(&self.lately_long);
        self.run == 0 && of(|f| f.events) == 0.0 && of(|f| f.packets) >= CERTAIN_PACKETS
    }

    /// Goes on with what another meter of the same link knows of it.
    pub(crate) fn learn(&mut self, other: &Meter) {
        (self.lately_short, self.lately_long) = (other.lately_short, other.lately_long);
    }

    /// The peer began anew, and so do its numbers.
    pub(crate) fn restart(&mut self) {
        self.close_run();
        self.end = None;
        self.lag = self.least_lag;
        self.queue.clear();
        self.long_queue = false;
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
                self.states.fill(State::UNKNOWN);
                self.long_queue = false;
                self.settled = number;
                self.end = Some(number);
                number
            }
        };
        let ahead = number.wrapping_sub(end) as i32;
        if ahead >= 0 {
            for between in 0..=ahead as u32 {
                *self.state(end.wrapping_add(between)) = State::UNKNOWN;
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
        let state = self.state(number);
        if *state == State::UNKNOWN {
            *state = arrived.map_or(State::LOST, State::arrived);
        }
    }

    /// Whether a repair has reported that a packet had arrived, and it is not counted yet.
    pub(crate) fn has_arrived(&self, number: u32) -> bool {
        let open = |end: u32| number.wrapping_sub(self.settled) < end.wrapping_sub(self.settled);
        self.end.is_some_and(open) && self.arrival(number).is_some()
    }

    /// A packet that had not arrived when a repair reported on it arrives after all: the repair had
    /// overtaken it.
    pub(crate) fn arrived_late(&mut self, number: u32, at: Time) {
        let counted = (number.wrapping_sub(self.settled) as i32) < 0;
        let state = self.state(number);
        if !counted && *state == State::LOST {
            *state = State::arrived(at);
        }
    }

    /// When a lost packet would have arrived: between those sent before and after it.
    pub(crate) fn expected(&self, number: u32) -> Option<Time> {
        match self.nearest(number) {
            [Some((b, early)), Some((a, late))] => {
                let gap = late.since(early).as_picos() / u64::from(a + b);
                Some(early + Duration::from_picos(gap) * u64::from(b))
            }
            [Some((_, time)), None] | [None, Some((_, time))] => Some(time),
            [None, None] => None,
        }
    }

    /// When those arrived that were sent before and after a packet, the nearest that repairs have reported.
    pub(crate) fn neighbours(&self, number: u32) -> [Option<Time>; 2] {
        self.nearest(number).map(|found| found.map(|(_, time)| time))
    }

    /// The same, each with its distance.
    fn nearest(&self, number: u32) -> [Option<(u32, Time)>; 2] {
        let Some(end) = self.end else { return [None, None] };
        let room = (end.wrapping_sub(number) as i32).clamp(0, NEAR as i32) as u32;
        let arrival = |n: u32, at: u32| Some((n, self.arrival(at)?));
        let before = (1..NEAR).find_map(|n| arrival(n, number.wrapping_sub(n)));
        let after = (1..room).find_map(|n| arrival(n, number.wrapping_add(n)));
        [before, after]
    }

    /// What was counted since the last report. Packets of a burst that has not ended go with the burst
    /// into a later one: no report has more lost than sent.
    pub(crate) fn report(&mut self, recovered: u32) -> LossReport {
        let mut congested = (0, 0);
        let open = if self.run_long { (0, self.run) } else { (self.run, 0) };
        let mut short = self.short.take(open.0);
        let long = self.long.take(open.1);
        if self.queue_drops() || self.queue_is_suspect() {
            congested = (long.packets, long.lost);
        } else {
            short.add(&long);
        }
        LossReport {
            packets: short.packets,
            lost: short.lost,
            bursts: short.runs(),
            recovered,
            usual_burst: short.usual_burst(),
            longest_burst: short.longest.min(u32::from(u16::MAX)) as u16,
            congested: congested.0,
            congested_lost: congested.1,
            full: false,
            queue_delay: Duration::ZERO,
            queued: 0,
            round_trip: Duration::ZERO,
        }
    }

    fn state(&mut self, number: u32) -> &mut State {
        let window = self.states.len();
        &mut self.states[number as usize & (window - 1)]
    }

    fn arrival(&self, number: u32) -> Option<Time> {
        self.states[number as usize & (self.states.len() - 1)].arrival()
    }

    /// Counts the next number.
    fn settle(&mut self) {
        let number = self.settled;
        let state = std::mem::take(self.state(number));
        self.settled = number.wrapping_add(1);
        if let Some((_, long)) = self.queue.at(number) {
            self.long_queue = long;
        }
        let lost = match state {
            State::LOST => true,
            // All its repairs were lost: in a burst it was, most likely, lost with them.
            State::UNKNOWN => self.run > 0,
            _ => false,
        };
        if !lost {
            if state != State::UNKNOWN {
                self.close_run();
            }
            self.count(self.long_queue);
            return;
        }
        // A burst is of a long queue if one of its packets is.
        let long = self.run_long || self.queue.around(number);
        if long && !self.run_long {
            self.short.packets = self.short.packets.saturating_sub(self.run);
            self.long.packets = self.long.packets.saturating_add(self.run);
        }
        self.run_long = long;
        self.run += 1;
        self.count(long);
    }

    fn close_run(&mut self) {
        let (run, long) = (std::mem::take(&mut self.run), std::mem::take(&mut self.run_long));
        if run == 0 {
            return;
        }
        let (counts, lately) = if long {
            (&mut self.long, &mut self.lately_long)
        } else {
            (&mut self.short, &mut self.lately_short)
        };
        counts.add_burst(run);
        lately.add_burst(run);
    }

    fn count(&mut self, long: bool) {
        let (counts, lately, span) = if long {
            (&mut self.long, &mut self.lately_long, LATELY_LONG)
        } else {
            (&mut self.short, &mut self.lately_short, LATELY_SHORT)
        };
        counts.packets = counts.packets.saturating_add(1);
        lately.add_packet(span);
    }
}

#[cfg(test)]
mod tests;
