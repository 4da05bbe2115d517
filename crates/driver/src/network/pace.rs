//! Pace of what leaves, where a rate bounds it.

use wellspring_core::{Duration, Rate, Time};

/// What leaves ahead of the rate in one burst: at least a run of datagrams for one system call.
const AHEAD: Duration = Duration::from_millis(1);
/// What a loop that got no processor may make good of its rate while something waited ...
const CATCH_UP: Duration = Duration::from_millis(10);
/// ... or so many bytes, if that is more: queues hold such a burst at any rate \[bytes\].
const CATCH_UP_BYTES: u64 = 64 << 10;

/// A link of a rate: a token bucket that is told as the time until which the link is busy.
pub(crate) struct Pace {
    rate: Rate,
    catch_up: Duration,
    /// `None`: nothing has waited for the rate since the link was last idle.
    busy_until: Option<Time>,
}

impl Pace {
    pub(crate) fn new(rate: Rate) -> Self {
        let catch_up = CATCH_UP.max(rate.time_for(CATCH_UP_BYTES).min(Duration::from_secs(1)));
        Pace { rate, catch_up, busy_until: None }
    }

    /// Whether the rate holds back what is to be sent.
    pub(crate) fn holds(&self, now: Time) -> bool {
        self.busy_until.is_some_and(|until| until.is_after(now + AHEAD))
    }

    /// When the rate lets a burst go, if it may hold anything back.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.busy_until
    }

    /// Nothing waits for the rate.
    pub(crate) fn forget(&mut self, now: Time) {
        self.busy_until = self.busy_until.filter(|until| until.is_after(now));
    }

    /// Counts bytes that leave.
    pub(crate) fn count(&mut self, now: Time, bytes: u64) {
        let earliest = now - self.catch_up;
        let start = match self.busy_until {
            Some(until) if until.is_after(earliest) => until,
            Some(_) => earliest,
            None => now,
        };
        self.busy_until = Some(start + self.rate.time_for(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1_250;

    /// Datagrams that leave in a second in which something always waits, if the loop runs each `wake_ups`.
    fn sent_in_a_second(rate: Rate, wake_ups: Duration) -> u64 {
        let mut pace = Pace::new(rate);
        let (mut now, mut sent) = (Time::ZERO + Duration::from_secs(1), 0);
        let end = now + Duration::from_secs(1);
        while end.is_after(now) {
            while !pace.holds(now) {
                pace.count(now, LEN);
                sent += 1;
            }
            now = now + wake_ups;
        }
        sent
    }

    #[test]
    fn a_loop_that_wakes_late_keeps_its_rate() {
        for micros in [10, 100, 1_000, 3_000, 9_000] {
            let sent = sent_in_a_second(Rate::from_mbps(100), Duration::from_micros(micros));
            assert!((9_900..=10_110).contains(&sent), "{sent} of 10,000, awake each {micros} us");
        }
    }

    #[test]
    fn what_was_missed_in_longer_gaps_is_not_made_good() {
        let sent = sent_in_a_second(Rate::from_mbps(100), Duration::from_millis(40));
        assert!((2_500..=3_000).contains(&sent), "{sent}");
    }

    #[test]
    fn a_low_rate_is_kept_by_a_loop_that_seldom_gets_a_processor() {
        for millis in [20, 50, 80] {
            let sent = sent_in_a_second(Rate::from_mbps(6), Duration::from_millis(millis));
            assert!((550..=660).contains(&sent), "{sent} of 600, awake each {millis} ms");
        }
    }

    #[test]
    fn an_idle_link_saves_nothing() {
        let mut pace = Pace::new(Rate::from_mbps(100));
        let now = Time::ZERO + Duration::from_secs(1);
        pace.count(now, LEN);
        let later = now + Duration::from_secs(5);
        pace.forget(later);
        let mut burst = 0;
        while !pace.holds(later) {
            pace.count(later, LEN);
            burst += 1;
        }
        assert_eq!(burst, 11);
    }
}
