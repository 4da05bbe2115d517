//! CUBIC (RFC 9438), counting packets.

use wellspring_core::{Duration, Time};

use super::hystart::HyStart;
use super::{CongestionController, Delivery};

const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Additive increase of the Reno-friendly region (§4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
const MIN_WINDOW: f64 = 2.0;

/// A congestion window \[packets\].
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    window: f64,
    slow_start_threshold: f64,
    max_window: f64,
    /// Window just before the last reduction (W_max, after fast convergence).
    w_max: f64,
    /// The window a Reno flow would have (W_est).
    reno_window: f64,
    /// Window before the reduction (cwnd_prior).
    prior_window: f64,
    /// When the present growth began; `None` until the first packet after a reduction. Time in which the window was not
    /// in full use is left out: it begins so much later.
    epoch_start: Option<Time>,
    /// When a packet of a window in full use last came through.
    grown_at: Option<Time>,
    /// Time to grow back to `w_max` \[s\] (K in the RFC).
    regrowth_secs: f64,
    /// Smoothed round trip \[s\], for the pace.
    round_trip_secs: f64,
    /// Slow start as a controller of its own (§4.10).
    slow_start: HyStart,
    /// Part of a flow's share of a bottleneck that this one takes.
    part: f64,
}

/// The pace in slow start and after it, as a part of a window a round trip (as in Linux).
const PACING_GAINS: (f64, f64) = (2.0, 1.2);
/// Round trips without a packet of a window in full use that count as growth still.
const LONGEST_GAP: f64 = 2.0;
/// Windows below are not paced.
const MIN_PACED: f64 = 16.0;

impl Cubic {
    /// A window that starts at `initial` packets in slow start and never passes `max`.
    pub fn new(initial: u32, max: u32) -> Self {
        let max_window = f64::from(max).max(MIN_WINDOW);
        Cubic {
            window: f64::from(initial).clamp(MIN_WINDOW, max_window),
            slow_start_threshold: f64::INFINITY,
            max_window,
            w_max: 0.0,
            reno_window: 0.0,
            prior_window: 0.0,
            epoch_start: None,
            grown_at: None,
            regrowth_secs: 0.0,
            round_trip_secs: 0.0,
            slow_start: HyStart::new(),
            part: 1.0,
        }
    }

    /// Takes so much of a flow's share. The mean window at a given loss rate is proportional to the square root of
    /// Reno's increase, and to the fourth root of C (RFC 9438 §5.1).
    pub(super) fn set_part(&mut self, part: f64) {
        if part != self.part {
            (self.part, self.epoch_start) = (part, None);
        }
    }

    /// C for this part of a share.
    fn scale(&self) -> f64 {
        C * self.part * self.part * self.part * self.part
    }

    /// Whether the window is below the slow start threshold.
    pub fn in_slow_start(&self) -> bool {
        self.window < self.slow_start_threshold
    }

    /// Ends slow start where the window is.
    pub fn end_slow_start(&mut self) {
        self.slow_start_threshold = self.slow_start_threshold.min(self.window);
    }

    /// Grows by so many packets, in slow start.
    pub(super) fn grow(&mut self, packets: f64) {
        self.window = (self.window + packets).min(self.max_window);
    }

    /// The window \[packets\].
    pub(super) fn exact_window(&self) -> f64 {
        self.window
    }

    /// Sets the window, in slow start.
    pub(super) fn set_window(&mut self, packets: f64) {
        self.window = packets.clamp(MIN_WINDOW, self.max_window);
    }

    /// Keeps a round trip for the pace.
    pub(super) fn note_round_trip(&mut self, rtt: Duration) {
        let secs = rtt.as_secs_f64();
        let smoothed = self.round_trip_secs;
        self.round_trip_secs =
            if smoothed == 0.0 { secs } else { smoothed + (secs - smoothed) / 8.0 };
    }

    /// The pace of a window a round trip, and something more \[packets/s\].
    pub(super) fn pace(&self) -> Option<f64> {
        let gain = if self.in_slow_start() { PACING_GAINS.0 } else { PACING_GAINS.1 };
        let known = self.round_trip_secs > 0.0 && self.window >= MIN_PACED;
        known.then(|| gain * self.window / self.round_trip_secs)
    }

    /// A packet of a window in full use came through (§4.2-4.4).
    pub fn grow_on_delivered(&mut self, now: Time, rtt: Duration) {
        self.leave_out_pause(now);
        if self.in_slow_start() {
            self.grow(1.0);
            return;
        }
        let start = match self.epoch_start {
            Some(start) => start,
            None => {
                self.begin_epoch(now);
                now
            }
        };
        let gain = if self.reno_window >= self.prior_window { 1.0 } else { ALPHA };
        self.reno_window += gain * self.part * self.part / self.window;
        let elapsed = now.since(start).as_secs_f64();
        let cubic = self.cubic_at(elapsed);
        if cubic < self.reno_window {
            self.window = self.window.max(self.reno_window);
        } else {
            let target =
                self.cubic_at(elapsed + rtt.as_secs_f64()).clamp(self.window, 1.5 * self.window);
            self.window += (target - self.window) / self.window;
        }
        self.window = self.window.min(self.max_window);
    }

    /// Loss or mark: once a round trip (§4.6-4.7). The caller sees to the "once".
    pub fn reduce(&mut self) {
        self.prior_window = self.window;
        self.w_max = if self.window < self.w_max {
            self.window * (1.0 + BETA) / 2.0 // fast convergence
        } else {
            self.window
        };
        self.window = (self.window * BETA).max(MIN_WINDOW);
        self.slow_start_threshold = self.window;
        self.epoch_start = None;
    }

    /// Silence for a whole timeout: back to slow start (§4.8). The threshold is that of one reduction, however long the
    /// silence lasts (RFC 5681 §3.1), and it may have been answered before.
    pub fn restart(&mut self) {
        if self.window > self.slow_start_threshold || self.slow_start_threshold.is_infinite() {
            self.reduce();
        }
        self.window = MIN_WINDOW;
        self.epoch_start = None;
    }

    /// Nothing is learnt of the path while the window is not in full use, or nothing is sent at all: growth goes on from
    /// where it was (§5.8).
    fn leave_out_pause(&mut self, now: Time) {
        let before = self.grown_at.replace(now);
        let (Some(start), Some(before)) = (&mut self.epoch_start, before) else { return };
        let gap = now.since(before);
        if self.round_trip_secs > 0.0 && gap.as_secs_f64() > LONGEST_GAP * self.round_trip_secs {
            *start = *start + gap;
        }
    }

    fn begin_epoch(&mut self, now: Time) {
        self.epoch_start = Some(now);
        self.reno_window = self.window;
        self.w_max = self.w_max.max(self.window);
        self.regrowth_secs = libm::cbrt((self.w_max - self.window) / self.scale());
    }

    fn cubic_at(&self, secs: f64) -> f64 {
        let t = secs - self.regrowth_secs;
        self.scale() * t * t * t + self.w_max
    }
}

impl CongestionController for Cubic {
    fn window(&self) -> u32 {
        self.window as u32
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.pace()
    }

    fn on_delivered(&mut self, delivery: &Delivery) {
        self.note_round_trip(delivery.rtt);
        if !delivery.window_limited {
            return;
        }
        if !self.in_slow_start() {
            self.grow_on_delivered(delivery.now, delivery.rtt);
            return;
        }
        match self.slow_start.on_delivered(delivery) {
            Some(packets) => self.grow(packets),
            None => self.end_slow_start(),
        }
    }

    fn on_pushed(&mut self, now: Time) {
        self.grow_on_delivered(now, Duration::ZERO);
    }

    fn on_lost(&mut self, _now: Time, recovering: bool) -> bool {
        if !recovering {
            self.reduce();
        }
        !recovering
    }

    fn on_marked(&mut self, now: Time, recovering: bool) -> bool {
        self.on_lost(now, recovering)
    }

    fn on_persistent_congestion(&mut self, _now: Time) {
        self.restart();
        self.slow_start = HyStart::new();
    }

    fn set_part(&mut self, part: f64) {
        Cubic::set_part(self, part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn deliver_for(cubic: &mut Cubic, from: Time, rounds: u32) -> Time {
        let mut now = from;
        for _ in 0..rounds {
            for _ in 0..cubic.window() {
                cubic.grow_on_delivered(now, RTT);
            }
            now = now + RTT;
        }
        now
    }

    #[test]
    fn slow_start_doubles_every_round() {
        let mut cubic = Cubic::new(10, 10_000);
        deliver_for(&mut cubic, Time::ZERO, 3);
        assert_eq!(cubic.window(), 80);
    }

    #[test]
    fn grows_back_to_its_old_maximum_in_k_seconds() {
        let mut cubic = Cubic::new(1_000, 10_000);
        cubic.reduce();
        assert_eq!(cubic.window(), 700);
        // K = cbrt(1000 * 0.3 / 0.4) = 9.09 s.
        deliver_for(&mut cubic, Time::ZERO, 91);
        assert!((985..=1_010).contains(&cubic.window()), "{}", cubic.window());
    }

    #[test]
    fn is_no_slower_than_reno_at_short_round_trips() {
        let mut cubic = Cubic::new(20, 10_000);
        cubic.reduce();
        let before = cubic.window();
        let mut now = Time::ZERO;
        let rtt = Duration::from_micros(100);
        for _ in 0..100 {
            for _ in 0..cubic.window() {
                cubic.grow_on_delivered(now, rtt);
            }
            now = now + rtt;
        }
        assert!(cubic.window() >= before + 45, "{}", cubic.window());
    }

    #[test]
    fn stays_within_bounds() {
        let mut cubic = Cubic::new(10, 50);
        deliver_for(&mut cubic, Time::ZERO, 20);
        assert_eq!(cubic.window(), 50);
        for _ in 0..100 {
            cubic.reduce();
        }
        assert_eq!(cubic.window(), 2);
        cubic.restart();
        assert_eq!(cubic.window(), 2);
    }

    #[test]
    fn a_long_silence_is_one_reduction() {
        let mut cubic = Cubic::new(1_000, 10_000);
        cubic.end_slow_start();
        assert!(cubic.on_lost(Time::ZERO, false));
        for _ in 0..5 {
            cubic.on_persistent_congestion(Time::ZERO);
            assert!(cubic.in_slow_start() && cubic.window() == 2, "{cubic:?}");
        }
        assert_eq!(cubic.slow_start_threshold, 700.0);
        // It was not answered by a loss.
        let mut cubic = Cubic::new(1_000, 10_000);
        cubic.on_persistent_congestion(Time::ZERO);
        cubic.on_persistent_congestion(Time::ZERO);
        assert_eq!(cubic.slow_start_threshold, 700.0);
    }

    /// A window's packets come through, `limited` or not by it; returns what the window grows by.
    fn round(cubic: &mut Cubic, now: Time, limited: bool) -> f64 {
        let before = cubic.exact_window();
        for _ in 0..cubic.window() {
            cubic.on_delivered(&Delivery {
                now,
                rtt: RTT,
                delivered: 0,
                delivered_before: 0,
                rate: 0.0,
                in_flight: 0,
                window_limited: limited,
            });
        }
        cubic.exact_window() - before
    }

    #[test]
    fn time_in_which_the_window_is_not_used_is_no_growth() {
        let mut cubic = Cubic::new(1_000, 100_000);
        cubic.reduce();
        let at = |rounds: u64| Time::ZERO + RTT * rounds;
        let mut before = 0.0;
        for number in 0..50 {
            before = round(&mut cubic, at(number), true);
        }
        // Its reader takes little for a minute, then nothing for as long.
        for number in 50..650 {
            assert_eq!(round(&mut cubic, at(number), false), 0.0);
        }
        let after = round(&mut cubic, at(1_250), true);
        assert!(after <= before, "{before} a round trip before, {after} after");
        let next = round(&mut cubic, at(1_251), true);
        assert!(next > 0.0 && next <= before, "{before} before, {next} after");
    }
}
