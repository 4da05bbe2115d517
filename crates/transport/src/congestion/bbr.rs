//! BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00): the window is twice the product of
//! measured bandwidth and least round trip, and losses change nothing.

use wellspring_core::{Duration, Time};

use super::{CongestionController, Delivery};

/// 2/ln 2: the least gain that doubles the rate each round (§4.3.2.1).
const HIGH_GAIN: f64 = 2.885;
const PROBE_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const WINDOW_GAIN: f64 = 2.0;
const BANDWIDTH_ROUNDS: usize = 10;
const LEAST_RTT_LIFE: Duration = Duration::from_secs(10);
const PROBE_RTT_FOR: Duration = Duration::from_millis(200);
const MIN_WINDOW: f64 = 4.0;
/// Rounds without growth by a quarter after which the path is full (§4.3.2.2).
const FULL_ROUNDS: u32 = 3;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth { phase: usize, since: Time },
    ProbeRtt { since: Time },
}

/// The controller.
#[derive(Clone, Copy, Debug)]
pub struct Bbr {
    mode: Mode,
    initial: f64,
    max_window: f64,
    /// The highest delivery rate of each of the last rounds \[packets/s\].
    rates: [f64; BANDWIDTH_ROUNDS],
    round: usize,
    round_end: u64,
    full_rate: f64,
    full_rounds: u32,
    filled: bool,
    least_rtt: Option<(Duration, Time)>,
}

impl Bbr {
    /// A window that starts at `initial` packets and never passes `max`.
    pub fn new(initial: u32, max: u32) -> Self {
        Bbr {
            mode: Mode::Startup,
            initial: f64::from(initial).max(MIN_WINDOW),
            max_window: f64::from(max).max(MIN_WINDOW),
            rates: [0.0; BANDWIDTH_ROUNDS],
            round: 0,
            round_end: 0,
            full_rate: 0.0,
            full_rounds: 0,
            filled: false,
            least_rtt: None,
        }
    }

    fn bandwidth(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn bandwidth_delay(&self) -> f64 {
        let least = self.least_rtt.map_or(0.0, |(least, _)| least.as_secs_f64());
        self.bandwidth() * least
    }

    fn gains(&self) -> (f64, f64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth { phase, .. } => (PROBE_GAINS[phase], WINDOW_GAIN),
            Mode::ProbeRtt { .. } => (1.0, 1.0),
        }
    }

    fn end_round(&mut self) {
        self.round = (self.round + 1) % BANDWIDTH_ROUNDS;
        self.rates[self.round] = 0.0;
        if self.filled {
            return;
        }
        if self.bandwidth() >= self.full_rate * 1.25 {
            (self.full_rate, self.full_rounds) = (self.bandwidth(), 0);
            return;
        }
        self.full_rounds += 1;
        self.filled = self.full_rounds >= FULL_ROUNDS;
    }

    fn change_mode(&mut self, delivery: &Delivery, stale: bool) {
        let now = delivery.now;
        let in_flight = f64::from(delivery.in_flight);
        let least = self.least_rtt.map_or(Duration::ZERO, |(least, _)| least);
        let cruise = Mode::ProbeBandwidth { phase: 2, since: now };
        self.mode = match self.mode {
            Mode::Startup if self.filled => Mode::Drain,
            Mode::Drain if in_flight <= self.bandwidth_delay() => cruise,
            Mode::ProbeBandwidth { phase, since } => {
                let drained = phase == 1 && in_flight <= self.bandwidth_delay();
                if now.since(since) > least || drained {
                    Mode::ProbeBandwidth { phase: (phase + 1) % PROBE_GAINS.len(), since: now }
                } else {
                    self.mode
                }
            }
            Mode::ProbeRtt { since } if now.since(since) >= PROBE_RTT_FOR.max(least) => {
                if let Some((_, stamp)) = &mut self.least_rtt {
                    *stamp = now;
                }
                if self.filled { cruise } else { Mode::Startup }
            }
            mode => mode,
        };
        if stale && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.mode = Mode::ProbeRtt { since: now };
        }
    }
}

impl CongestionController for Bbr {
    fn window(&self) -> u32 {
        let window = match self.mode {
            Mode::ProbeRtt { .. } => MIN_WINDOW,
            _ if self.bandwidth() == 0.0 => self.initial,
            Mode::Startup => (self.gains().1 * self.bandwidth_delay()).max(self.initial),
            _ => self.gains().1 * self.bandwidth_delay(),
        };
        window.clamp(MIN_WINDOW, self.max_window) as u32
    }

    fn pacing_rate(&self) -> Option<f64> {
        let bandwidth = self.bandwidth();
        (bandwidth > 0.0).then(|| bandwidth * self.gains().0)
    }

    fn on_delivered(&mut self, delivery: &Delivery) {
        if delivery.delivered_before >= self.round_end {
            self.round_end = delivery.delivered;
            self.end_round();
        }
        let stale =
            self.least_rtt.is_some_and(|(_, stamp)| delivery.now.since(stamp) > LEAST_RTT_LIFE);
        if self.least_rtt.is_none_or(|(least, _)| stale || delivery.rtt <= least) {
            self.least_rtt = Some((delivery.rtt, delivery.now));
        }
        // A sample that the application limited counts only if it is the highest (§4.1.1.3).
        if delivery.window_limited || delivery.rate > self.bandwidth() {
            let rate = &mut self.rates[self.round];
            *rate = rate.max(delivery.rate);
        }
        self.change_mode(delivery, stale);
    }

    fn on_pushed(&mut self, _now: Time) {}

    fn on_lost(&mut self, _now: Time, _recovering: bool) -> bool {
        false
    }

    fn on_marked(&mut self, _now: Time, _recovering: bool) -> bool {
        false
    }

    fn on_persistent_congestion(&mut self, _now: Time) {
        // The model stays, as the draft has it: only what is in flight is conservative (§4.2.3.4), and
        // that is the owner's part, who probes a silent sender with one packet at a time.
    }
}
