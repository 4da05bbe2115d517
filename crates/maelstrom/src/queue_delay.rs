//! Queueing delay of the path, by one-way delay variation.
//!
//! Datagrams of the peer have the time at which they left, by the peer's clock. How much later than the
//! quickest of them one arrives is what it waited in queues: clocks need not agree, only run at the same
//! speed, to two milliseconds in half a minute. A queue drops when it is long: it counts as long from seven
//! eighths of the longest wait on that lasted. Losses of the link come at any wait.

use wellspring_core::{Duration, Time};

/// Unit of time stamps \[us\]: 16 bits last four seconds, more than any path's delay varies.
const UNIT_US: u64 = 64;
/// How long a least delay holds at least: routes change, and clocks drift.
const BASE_SPAN: Duration = Duration::from_secs(15);
/// How long a longest wait holds at least: a queue's length is there to stay, a flow that fills it comes
/// back after a while.
const PEAK_SPAN: Duration = Duration::from_secs(30);
/// How long a wait must last to be a queue's: machines are late for less.
const LASTING: Duration = Duration::from_millis(10);
/// Shorter waits are no queue, but the jitter of machines \[units\]: 2 ms.
const FLOOR: i32 = 2_000 / UNIT_US as i32;

/// Shorter waits are no queue that drops \[units\]: 5 ms.
const LONG: i32 = 5_000 / UNIT_US as i32;

/// A wait that no burst of a host makes for [`LASTING`] \[units\]: 10 ms.
const FULL: i32 = 10_000 / UNIT_US as i32;

/// What a datagram says of the time before it, at most.
const LONGEST_GAP: Duration = Duration::from_millis(20);

/// A time stamp of a datagram: a moment of the sender's clock, modulo four seconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Stamp(pub u16);

impl Stamp {
    /// The stamp of a datagram that leaves now.
    pub(crate) fn at(now: Time) -> Self {
        Stamp((now.as_picos() / 1_000_000 / UNIT_US) as u16)
    }
}

/// What a report says of the newest datagram that its sender has heard: its stamp, and for how long it has been
/// there. All zeros if none was heard.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Echo {
    pub stamp: u16,
    /// In units of stamps.
    pub held: u16,
}

impl Echo {
    /// Of a datagram with that stamp that came then.
    pub(crate) fn new(stamp: Stamp, arrived: Time, now: Time) -> Self {
        let held = now.since(arrived).as_micros() / UNIT_US;
        // What was heard longer ago than stamps tell is as good as nothing.
        u16::try_from(held).map_or(Echo::default(), |held| Echo { stamp: stamp.0, held })
    }

    /// The round trip that it measures.
    pub(crate) fn round_trip(self, now: Time) -> Option<Duration> {
        if self == Echo::default() {
            return None;
        }
        let units = Stamp::at(now).0.wrapping_sub(self.stamp).wrapping_sub(self.held) as i16;
        (units > 0).then(|| Duration::from_micros(units as u64 * UNIT_US))
    }
}

/// An extreme over the last one to two spans.
#[derive(Clone, Copy, Debug)]
struct Extreme {
    now: i32,
    before: i32,
    span: Duration,
    ends: Time,
}

impl Extreme {
    fn new(first: i32, now: Time, span: Duration) -> Self {
        Extreme { now: first, before: first, span, ends: now + span }
    }

    /// Takes in a sample; `better` chooses between two.
    fn add(&mut self, now: Time, sample: i32, better: impl Fn(i32, i32) -> i32) {
        if now.has_reached(self.ends) {
            self.before = self.now;
            // Silence longer than a span: nothing older counts.
            if now.has_reached(self.ends + self.span) {
                self.before = sample;
            }
            self.now = sample;
            self.ends = now + self.span;
        }
        self.now = better(self.now, sample);
    }
}

/// Measures what datagrams wait in queues.
#[derive(Debug, Default)]
pub(crate) struct QueueDelay(Option<State>);

#[derive(Debug)]
struct State {
    /// The transit time that others are counted from, modulo what a stamp holds.
    anchor: u16,
    least: Extreme,
    most: Extreme,
    /// The shortest wait since then.
    lasting: i32,
    lasting_since: Time,
    /// That wait when it was last over.
    lasted: i32,
    last: i32,
    /// When the newest came, how long there was a queue since that was asked for, and when that was.
    came: Time,
    queued: Duration,
    asked: Time,
}

impl QueueDelay {
    /// A datagram with that stamp arrives. Whether the queue that it comes from is long.
    pub(crate) fn on_arrival(&mut self, now: Time, stamp: Stamp) -> bool {
        let transit = Stamp::at(now).0.wrapping_sub(stamp.0);
        let state = self.0.get_or_insert_with(|| State {
            anchor: transit,
            least: Extreme::new(0, now, BASE_SPAN),
            most: Extreme::new(0, now, PEAK_SPAN),
            lasting: 0,
            lasting_since: now,
            lasted: 0,
            last: 0,
            came: now,
            queued: Duration::ZERO,
            asked: now,
        });
        let later = i32::from(transit.wrapping_sub(state.anchor) as i16);
        state.least.add(now, later, i32::min);
        let base = state.least.now.min(state.least.before);
        if base != 0 {
            // Counted from the least again, so that no drift of clocks leaves the 16 bits.
            state.anchor = state.anchor.wrapping_add(base as u16);
            state.least.now -= base;
            state.least.before -= base;
        }
        state.last = later - base;
        if state.last >= FLOOR {
            state.queued += now.since(state.came).min(LONGEST_GAP);
        }
        state.came = now;
        state.lasting = state.lasting.min(state.last);
        if now.has_reached(state.lasting_since + LASTING) {
            state.most.add(now, state.lasting, i32::max);
            state.lasted = state.lasting;
            (state.lasting, state.lasting_since) = (state.last, now);
        }
        let peak = state.most.now.max(state.most.before);
        state.last >= LONG.max(peak / 8 * 7)
    }

    /// Thousandths of the time since the last call in which datagrams waited in a queue: bursts make one for a moment, a
    /// flow that fills the link makes one that stays.
    pub(crate) fn take_queued(&mut self, now: Time) -> u16 {
        let Some(state) = &mut self.0 else { return 0 };
        let span = now.since(std::mem::replace(&mut state.asked, now));
        let queued = std::mem::take(&mut state.queued);
        let thousandths = queued.as_micros() * 1_000 / span.as_micros().max(1);
        thousandths.min(1_000) as u16
    }

    /// Whether there is a queue that lasts: hosts send more than the path carries.
    pub(crate) fn lasts(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.lasted.min(state.last) >= FULL)
    }

    /// What the newest datagram waited.
    pub(crate) fn last(&self) -> Duration {
        let units = self.0.as_ref().map_or(0, |state| state.last.max(0));
        Duration::from_micros(units as u64 * UNIT_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds datagrams a millisecond apart that wait so long; returns for each whether the queue is full.
    fn long(delay: &mut QueueDelay, from: u64, waits: impl Iterator<Item = u64>) -> Vec<bool> {
        let offset = Duration::from_secs(1_000);
        waits
            .enumerate()
            .map(|(n, wait)| {
                let sent = Time::ZERO + Duration::from_millis(from + n as u64);
                delay.on_arrival(
                    sent + Duration::from_micros(50_000 + wait),
                    Stamp::at(sent + offset),
                )
            })
            .collect()
    }

    #[test]
    fn a_queue_is_long_near_its_longest_wait() {
        let mut delay = QueueDelay::default();
        assert!(long(&mut delay, 0, (0..1_000).map(|n| n % 7 * 200)).iter().all(|long| !long));
        let ramp = long(&mut delay, 1_000, (0..1_000).map(|n| n * 100));
        assert!(ramp[60..].iter().all(|&long| long), "each is the longest so far");
        let sawtooth = long(&mut delay, 2_000, (0..2_000).map(|n| n % 100 * 1_000));
        for (n, full) in sawtooth.into_iter().enumerate() {
            let wait = n % 100;
            assert!(full == (wait >= 80) || (72..=88).contains(&wait), "{wait} ms: {full}");
        }
    }

    #[test]
    fn bursts_make_a_queue_for_a_moment_and_full_links_one_that_stays() {
        let mut delay = QueueDelay::default();
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        // A tenth of the time datagrams wait, up to 5 ms.
        let burst = |n: u64| if n < 10 { n.min(10 - n) * 1_000 } else { 0 };
        long(&mut delay, 0, (0..1_000).map(|n| burst(n % 100)));
        let queued = delay.take_queued(at(1_050));
        assert!((50..100).contains(&queued), "{queued}");
        long(&mut delay, 1_000, std::iter::repeat_n(5_000, 1_000));
        let queued = delay.take_queued(at(2_050));
        assert!(queued > 900, "{queued}");
        assert_eq!(delay.take_queued(at(3_000)), 0);
    }

    #[test]
    fn a_queue_lasts_where_no_datagram_passes_without_a_wait() {
        let mut delay = QueueDelay::default();
        // Bursts of 16 ms that drain, as slow flows make them.
        long(&mut delay, 0, (0..1_600).map(|n| (16 - n % 16) * 1_000));
        assert!(!delay.lasts());
        long(&mut delay, 1_600, std::iter::repeat_n(15_000, 100));
        assert!(delay.lasts());
        long(&mut delay, 1_700, std::iter::once(0));
        assert!(!delay.lasts(), "it has drained");
    }

    #[test]
    fn echoes_measure_the_round_trip() {
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        for left in [1_000, 4_100, 8_300] {
            let echo = Echo::new(Stamp::at(at(left)), at(77_050), at(77_750));
            let measured = echo.round_trip(at(left + 100 + 700)).expect("a round trip");
            assert!(
                measured >= Duration::from_millis(99) && measured <= Duration::from_millis(101)
            );
            assert_eq!(echo.round_trip(at(left + 600)), None, "before it can be");
        }
        assert_eq!(Echo::new(Stamp(5), at(0), at(10_000)).round_trip(at(10_050)), None);
    }

    #[test]
    fn routes_and_clocks_may_change() {
        let mut delay = QueueDelay::default();
        long(&mut delay, 0, (0..1_000).map(|n| n % 100 * 1_000));
        // The way is 20 ms longer from then on: within half a minute that is no queue any more.
        let after = long(&mut delay, 1_000, std::iter::repeat_n(20_000, 40_000));
        assert!(after[35_000..].iter().all(|&long| !long));
        // The clocks drift by 50 parts in a million, for twenty minutes.
        let drift = long(&mut delay, 41_000, (0..1_200_000).map(|n| 20_000 + n / 20));
        assert!(drift[40_000..].iter().all(|&long| !long));
        assert!(delay.last() < Duration::from_millis(5));
    }
}
