//! HyStart++ (RFC 9406): slow start ends when round trips grow, before packets are lost.

use wellspring_core::Duration;

use super::Delivery;

const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const RTT_SAMPLES: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
/// Rounds of conservative slow start (RFC 9406 §4.3).
const CSS_ROUNDS: u32 = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    SlowStart,
    /// Conservative slow start, entered at that round trip.
    Conservative {
        baseline: Duration,
        rounds: u32,
    },
    Done,
}

/// Slow start's growth and its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    phase: Phase,
    round_end: u64,
    samples: u32,
    least: Option<Duration>,
    least_before: Option<Duration>,
}

impl HyStart {
    /// Slow start that nothing has happened in.
    pub(super) fn new() -> Self {
        HyStart {
            phase: Phase::SlowStart,
            round_end: 0,
            samples: 0,
            least: None,
            least_before: None,
        }
    }

    /// What the window grows by for a packet that came through; `None` once slow start is over.
    pub(super) fn on_delivered(&mut self, delivery: &Delivery) -> Option<f64> {
        if delivery.delivered_before >= self.round_end {
            self.round_end = delivery.delivered;
            self.end_round();
        }
        self.samples = self.samples.saturating_add(1);
        self.least = Some(self.least.map_or(delivery.rtt, |least| least.min(delivery.rtt)));
        if self.samples >= RTT_SAMPLES {
            self.compare();
        }
        match self.phase {
            Phase::SlowStart => Some(1.0),
            Phase::Conservative { .. } => Some(1.0 / CSS_GROWTH_DIVISOR),
            Phase::Done => None,
        }
    }

    fn compare(&mut self) {
        let Some(least) = self.least else { return };
        match self.phase {
            Phase::SlowStart => {
                let Some(before) = self.least_before else { return };
                let threshold =
                    (before / MIN_RTT_DIVISOR).max(MIN_RTT_THRESHOLD).min(MAX_RTT_THRESHOLD);
                if least >= before + threshold {
                    self.phase = Phase::Conservative { baseline: least, rounds: 0 };
                }
            }
            // The growth was a passing one.
            Phase::Conservative { baseline, .. } if least < baseline => {
                self.phase = Phase::SlowStart;
            }
            Phase::Conservative { .. } | Phase::Done => {}
        }
    }

    fn end_round(&mut self) {
        (self.least_before, self.least, self.samples) = (self.least, None, 0);
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            *rounds = rounds.saturating_add(1);
            if *rounds > CSS_ROUNDS {
                self.phase = Phase::Done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_core::Time;

    /// Rounds of ten packets with these round trips; gives back what the last packet of each adds.
    fn growth(millis: &[u64]) -> std::vec::Vec<Option<f64>> {
        let mut hystart = HyStart::new();
        let round = |(index, &ms): (usize, &u64)| {
            let mut last = None;
            for packet in 0..10 {
                let delivered_before = index as u64 * 10;
                last = hystart.on_delivered(&Delivery {
                    now: Time::ZERO,
                    rtt: Duration::from_millis(ms),
                    delivered: delivered_before + packet + 1,
                    delivered_before,
                    rate: 0.0,
                    in_flight: 10,
                    window_limited: true,
                });
            }
            last
        };
        millis.iter().enumerate().map(round).collect()
    }

    #[test]
    fn growing_round_trips_slow_growth_down_and_end_it_after_five_rounds() {
        let conservative = [Some(0.25); 6];
        let mut expected = std::vec![Some(1.0), Some(1.0)];
        expected.extend(conservative);
        expected.push(None);
        assert_eq!(growth(&[100, 100, 113, 113, 114, 115, 113, 115, 116]), expected);
    }

    #[test]
    fn round_trips_that_shrink_again_resume_slow_start() {
        assert_eq!(growth(&[100, 113, 112]), [Some(1.0), Some(0.25), Some(1.0)]);
    }

    #[test]
    fn small_growth_is_none() {
        assert_eq!(growth(&[10, 13, 16, 19]), [Some(1.0); 4]);
    }
}
