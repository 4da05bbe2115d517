//! Pace at which an object must come to be worth the space that is held for it.

use std::time::{Duration, Instant};

/// What of an object must come in [`idle_put`](super::ServerConfig::idle_put), however small it is \[bytes\].
const LEAST_PROGRESS: u64 = 32 << 10;

/// Time in which an object must come as a whole, at the pace that is asked for.
const LONGEST: Duration = Duration::from_secs(3 * 86_400);

/// How long a client of which nothing has come yet may be silent beside `idle_put`, at most.
const FIRST_SILENCE: Duration = Duration::from_secs(60);

/// What comes beyond twice an object's length and this is of no use: it may be lost or superfluous, but not all of it
/// \[bytes\].
const SLACK: u64 = 64 << 20;

/// The time that an object has left, which its bytes earn and which passes with the clock.
///
/// A client may be silent for as long as it has said that it waits, as when its link is down, but only once its bytes have
/// earned that: a client that sends nothing, or little for what is held for it, runs out of time.
#[derive(Debug)]
pub(super) struct Pace {
    /// The object's length \[bytes\].
    size: u64,
    idle: Duration,
    /// Bytes that are worth a second.
    a_second: u64,
    /// Time that is earned at most.
    most: Duration,
    left: Duration,
    /// Bytes that had come when it was last looked, and when that was.
    seen: Option<(u64, Instant)>,
}

impl Pace {
    /// For an object of `size` bytes, of a client that waits for `waits`.
    pub(super) fn new(size: u64, waits: Duration, idle: Duration) -> Self {
        let left = idle + waits.min(FIRST_SILENCE);
        let mut pace = Pace { size, idle, a_second: 1, most: idle + waits, left, seen: None };
        pace.expect(size);
        pace
    }

    /// So many bytes of the object are missing.
    pub(super) fn expect(&mut self, missing: u64) {
        let idle = u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX).max(1);
        let least = LEAST_PROGRESS.min(missing) * 1_000 / idle;
        self.a_second = least.max(missing / LONGEST.as_secs()).max(1);
    }

    /// How long its client may be silent where nothing comes because nothing is asked of it.
    pub(super) fn patience(&self) -> Duration {
        self.most
    }

    /// Whether its time is over, now that so many bytes have come.
    pub(super) fn is_too_slow(&mut self, came: u64, now: Instant) -> bool {
        let came = came.min(self.size.saturating_mul(2).saturating_add(SLACK));
        let (before, since) = self.seen.replace((came, now)).unwrap_or((came, now));
        let micros = came.saturating_sub(before).saturating_mul(1_000_000) / self.a_second;
        let earned = self.left.saturating_add(Duration::from_micros(micros));
        self.left = earned.saturating_sub(now.saturating_duration_since(since)).min(self.most);
        self.left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const IDLE: Duration = Duration::from_secs(60);

    /// How long a put of `size` bytes lasts of which `rate` bytes come a second, but none while `is_down`.
    fn lasts(
        (size, rate, waits): (u64, u64, Duration),
        end: Duration,
        is_down: impl Fn(u32) -> bool,
    ) -> Option<Duration> {
        let (mut pace, start, mut came) = (Pace::new(size, waits, IDLE), Instant::now(), 0);
        assert!(!pace.is_too_slow(0, start));
        let step = 15;
        (1..).map(|n| n * step).take_while(|s| SECOND * *s <= end).find_map(|second| {
            came += if is_down(second) { 0 } else { rate * u64::from(step) };
            pace.is_too_slow(came, start + SECOND * second).then_some(SECOND * second)
        })
    }

    #[test]
    fn who_sends_nothing_or_little_for_what_is_held_runs_out_of_time_however_long_it_waits() {
        let waits = Duration::from_secs(600);
        let hour = SECOND * 3_600;
        let never = |_| false;
        let silent = lasts((1 << 40, 0, waits), hour, never);
        assert_eq!(silent, Some(IDLE + FIRST_SILENCE), "nothing comes");
        let trickle = lasts((1 << 40, 30_000, waits), hour, never);
        let latest = IDLE + FIRST_SILENCE + SECOND * 15;
        assert!(trickle.is_some_and(|lasts| lasts <= latest), "at 240 kbit/s: {trickle:?}");
        let fell_silent = lasts((1 << 40, 100_000_000, waits), hour, |second| second > 60);
        assert_eq!(fell_silent, Some(SECOND * 60 + IDLE + waits));
        let small = lasts((1_000_000, 500, waits), SECOND * 86_400, never);
        assert!(small.is_some_and(|lasts| lasts < hour), "less than 32 KiB a minute: {small:?}");
        let endless = lasts((1_000_000, 100_000, waits), hour, never);
        assert!(endless.is_some_and(|lasts| lasts < SECOND * 3_000), "never whole: {endless:?}");
    }

    #[test]
    fn slow_links_and_those_that_are_down_for_a_minute_get_an_object_through() {
        let day = SECOND * 86_400;
        let mbit = 1_000_000 / 8;
        let ten_gb = (10_000_000_000, mbit, SECOND * 10);
        assert_eq!(lasts(ten_gb, day * 22 / 24, |_| false), None, "1 Mbit/s");
        // Down for a minute in each ten, and at first.
        let outages = |second: u32| second % 600 < 60;
        let waits = SECOND * 90;
        assert_eq!(lasts((10_000_000_000, mbit, waits), day, outages), None);
        assert_eq!(lasts((1_000_000, 600, waits), SECOND * 1_600, |_| false), None, "4.8 kbit/s");
        // Of a terabyte, the last megabyte.
        let mut pace = Pace::new(1 << 40, waits, IDLE);
        pace.expect(1_000_000);
        let start = Instant::now();
        let slow = |n: u32| pace.is_too_slow(u64::from(n) * 9_000, start + SECOND * 15 * n);
        assert!(!(0..100).any(slow));
    }
}
