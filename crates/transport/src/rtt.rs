//! Round-trip time estimator and timeouts (RFC 6298).

use wellspring_core::Duration;

/// Smoothed round-trip time and its variation (RFC 6298 §2).
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimator {
    smoothed: Option<Duration>,
    least: Option<Duration>,
    latest: Duration,
    variation: Duration,
}

impl RttEstimator {
    /// Takes in a measured round trip.
    pub fn sample(&mut self, rtt: Duration) {
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        self.latest = rtt;
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                let error = rtt.saturating_sub(smoothed) + smoothed.saturating_sub(rtt);
                self.variation = (self.variation * 3 + error) / 4;
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
            }
        }
    }

    /// The smoothed round trip, once there is one.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The shortest round trip seen.
    pub fn least(&self) -> Option<Duration> {
        self.least
    }

    /// What a round trip hardly ever exceeds: the latest or the smoothed one, and a quarter of it or
    /// twice the variation. RFC 8985 §6.2 waits that long for a packet that a later one overtook.
    pub fn usual_maximum(&self) -> Option<Duration> {
        self.smoothed.map(|smoothed| {
            let recent = smoothed.max(self.latest);
            recent + (recent / 4).max(self.variation * 2)
        })
    }

    /// The retransmission timeout (RFC 6298 §2): SRTT + max(G, 4 RTTVAR), no less than `min`; before any
    /// sample three times `initial`. G is `granularity`, the least that the variation counts for: on a
    /// path of constant delay RTTVAR decays to nothing, and without G every answer would be overdue.
    pub fn timeout(&self, initial: Duration, min: Duration, granularity: Duration) -> Duration {
        let estimate = match self.smoothed {
            Some(smoothed) => smoothed + (self.variation * 4).max(granularity),
            None => initial * 3,
        };
        estimate.max(min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::default();
        let timeout = |rtt: &RttEstimator| rtt.timeout(ms(1), ms(2), ms(1));
        assert_eq!(timeout(&rtt), ms(3));
        rtt.sample(ms(100));
        assert_eq!(timeout(&rtt), ms(300));
        rtt.sample(ms(140));
        assert_eq!(rtt.smoothed(), Some(ms(105)));
        // RTTVAR = 3/4 * 50 + 1/4 * 40 = 47.5 ms.
        assert_eq!(timeout(&rtt), ms(105) + Duration::from_micros(190_000));
        assert_eq!(RttEstimator::default().timeout(Duration::ZERO, ms(2), ms(1)), ms(2));
    }

    #[test]
    fn a_constant_round_trip_does_not_become_its_own_timeout() {
        let ms = Duration::from_millis;
        for millis in [1, 50, 600] {
            let mut rtt = RttEstimator::default();
            (0..10_000).for_each(|_| rtt.sample(ms(millis)));
            assert_eq!(rtt.timeout(ms(1), ms(2), ms(5)), ms(millis + 5));
        }
    }
}
