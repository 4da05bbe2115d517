//! The retransmission timer.

use super::config::Config;
use crate::RttEstimator;
use wellspring_core::{Duration, Time};

/// The clock granularity G, as a part of the least timeout: RFC 6298 §4 finds 100 ms or finer enough beside
/// its least timeout of 1 s.
const GRANULARITY: u64 = 10;

/// When to retransmit (RFC 6298 §2, §5), and Karn's rule for what is measured (§3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RetransmissionTimer {
    rtt: RttEstimator,
    /// Timeouts since a round trip was last measured: so often the timeout has been doubled.
    backoff: u32,
    deadline: Option<Time>,
    /// The segment that is being timed: where it ends, and when it left. None that was sent twice.
    timed: Option<(u64, Time)>,
}

impl RetransmissionTimer {
    /// The timeout now (§2, §5.5).
    pub fn timeout(&self, config: &Config) -> Duration {
        let base = match self.rtt.smoothed() {
            Some(_) => {
                let granularity = config.min_timeout / GRANULARITY;
                self.rtt.timeout(Duration::ZERO, config.min_timeout, granularity)
            }
            None => config.initial_timeout.max(config.min_timeout),
        };
        (base * (1 << self.backoff.min(16))).min(config.max_timeout)
    }

    /// When it goes off.
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// A segment that ends at `end` leaves: the timer runs from now on (§5.1). New data is timed
    /// where nothing else is; whatever is sent again spoils what is being timed (§3).
    pub fn on_sent(&mut self, now: Time, end: u64, is_new: bool, config: &Config) {
        if !is_new {
            self.timed = None;
        } else if self.timed.is_none() {
            self.timed = Some((end, now));
        }
        if self.deadline.is_none() {
            self.restart(now, config);
        }
    }

    /// Data up to `next` is acknowledged: the round trip, if that was timed, undoes what timeouts
    /// have doubled (§5.7).
    pub fn on_acked(&mut self, now: Time, next: u64) {
        if let Some((end, sent)) = self.timed
            && next >= end
        {
            self.rtt.sample(now.since(sent));
            self.backoff = 0;
            self.timed = None;
        }
    }

    /// Starts anew (§5.3).
    pub fn restart(&mut self, now: Time, config: &Config) {
        self.deadline = Some(now + self.timeout(config));
    }

    /// Nothing is in flight (§5.2).
    pub fn stop(&mut self) {
        self.deadline = None;
    }

    /// It went off: twice as long from now on (§5.5), from when something is sent again (§5.6).
    pub fn back_off(&mut self) {
        self.backoff += u32::from(self.backoff < 16);
        self.timed = None;
        self.deadline = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Congestion;
    use wellspring_core::{HostId, Seed};

    fn config() -> Config {
        let mut config = Config::new(HostId(0), Congestion::NewReno, Seed(1));
        config.min_timeout = Duration::from_millis(200);
        config
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn the_timeout_is_a_second_then_measured_and_no_less_than_the_least() {
        let (config, mut timer) = (config(), RetransmissionTimer::default());
        assert_eq!(timer.timeout(&config), Duration::from_secs(1));
        timer.on_sent(at(0), 1_000, true, &config);
        assert_eq!(timer.deadline(), Some(at(1_000)));
        timer.on_acked(at(100), 1_000);
        // SRTT 100, RTTVAR 50.
        assert_eq!(timer.timeout(&config), Duration::from_millis(300));
        for _ in 0..50 {
            timer.on_sent(at(200), 2_000, true, &config);
            timer.on_acked(at(210), 2_000);
        }
        assert_eq!(timer.timeout(&config), Duration::from_millis(200));
    }

    #[test]
    fn timeouts_double_it_up_to_the_greatest_until_a_round_trip_is_measured() {
        let (config, mut timer) = (config(), RetransmissionTimer::default());
        timer.on_sent(at(0), 1_000, true, &config);
        timer.on_acked(at(1), 1_000);
        let doubled = [400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 60_000, 60_000];
        for millis in doubled {
            timer.back_off();
            assert_eq!(timer.deadline(), None);
            assert_eq!(timer.timeout(&config), Duration::from_millis(millis));
        }
        // Karn: the ACK of what was sent again measures nothing, that of new data does.
        timer.on_sent(at(5), 2_000, false, &config);
        timer.on_acked(at(6), 2_000);
        assert_eq!(timer.timeout(&config), Duration::from_secs(60));
        timer.on_sent(at(7), 3_000, true, &config);
        timer.on_acked(at(8), 3_000);
        assert_eq!(timer.timeout(&config), Duration::from_millis(200));
    }

    #[test]
    fn what_is_sent_again_spoils_the_sample_under_way() {
        let (config, mut timer) = (config(), RetransmissionTimer::default());
        timer.on_sent(at(0), 1_000, true, &config);
        timer.on_sent(at(1), 1_000, false, &config);
        timer.on_acked(at(500), 1_000);
        assert_eq!(timer.timeout(&config), Duration::from_secs(1), "still unmeasured");
    }
}
