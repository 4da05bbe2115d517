//! The congestion window.

use super::config::{Config, Halves};

/// cwnd and ssthresh \[bytes\], and how events move them (RFC 5681 §3, RFC 6582 §3.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct CongestionWindow {
    segment: u64,
    window: u64,
    threshold: u64,
    halves: Halves,
    /// The most that the receiver grants.
    granted: u64,
    /// What the window was after the last halving, before what it was inflated by.
    halved: u64,
}

impl CongestionWindow {
    /// In slow start, with no threshold (RFC 5681 §3.1: "arbitrarily high").
    pub fn new(config: &Config) -> Self {
        CongestionWindow {
            segment: config.segment(),
            window: config.initial_window_bytes(),
            threshold: u64::MAX,
            halves: config.halves,
            granted: config.receive_window,
            halved: 0,
        }
    }

    /// cwnd \[bytes\].
    pub fn bytes(&self) -> u64 {
        self.window
    }

    /// An ACK of new data outside recovery: slow start (RFC 5681 §3.1, equation 2) below the
    /// threshold, congestion avoidance (equation 3) from there on.
    pub fn on_acked(&mut self, acked: u64) {
        let increase = if self.window < self.threshold {
            acked.min(self.segment)
        } else {
            (self.segment * self.segment / self.window).max(1)
        };
        self.window = self.window.saturating_add(increase);
    }

    /// Three duplicate ACKs with so much in flight: halves, and counts the three segments that have
    /// left the network (RFC 5681 §3.2, steps 2 and 3).
    pub fn enter_recovery(&mut self, flight: u64) {
        self.halve(flight);
        self.window = self.halved + 3 * self.segment;
    }

    /// A further duplicate ACK: another segment has left the network (RFC 5681 §3.2, step 4).
    pub fn inflate(&mut self) {
        self.window = self.window.saturating_add(self.segment);
    }

    /// A partial ACK: out goes what it acknowledges, and a segment back in (RFC 6582 §3.2, step 3).
    pub fn on_partial(&mut self, acked: u64) {
        self.window = self.window.saturating_sub(acked);
        if acked >= self.segment {
            self.window += self.segment;
        }
        self.window = self.window.max(self.segment);
    }

    /// All that was out when recovery began is acknowledged: the threshold, or no more than what is
    /// in flight and a segment, which keeps it from a burst (RFC 6582 §3.2, step 3, option 1).
    pub fn leave_recovery(&mut self, flight: u64) {
        match self.halves {
            Halves::Flight => {
                self.window = self.threshold.min(flight.max(self.segment) + self.segment);
            }
            Halves::Window => {
                self.window = self.halved;
                self.on_acked(self.segment);
            }
        }
    }

    /// The retransmission timer went off with so much in flight (RFC 5681 §3.1, equation 4 and the
    /// loss window); the threshold stays if the same segment had timed out before.
    pub fn on_timeout(&mut self, flight: u64, again: bool) {
        if !again {
            self.halve(flight);
        }
        self.window = self.segment;
    }

    /// Takes away `part` (0 to 1) of the window, down to `least` segments: DCTCP's answer to marks
    /// (RFC 8257 §3.3, step 9).
    pub fn cut(&mut self, part: f64, least: u64) {
        let left = (self.window as f64 * (1.0 - part)) as u64;
        self.window = left.max(least * self.segment).min(self.window.max(self.segment));
        self.threshold = self.window.max(2 * self.segment);
    }

    fn halve(&mut self, flight: u64) {
        let least = 2 * self.segment;
        (self.threshold, self.halved) = match self.halves {
            Halves::Flight => {
                let half = (flight / 2).max(least);
                (half, half)
            }
            Halves::Window => {
                let half = self.window.min(self.granted) / 2;
                ((half / self.segment * self.segment).max(least), half.max(self.segment))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Congestion;
    use super::*;
    use wellspring_core::{HostId, Seed};

    fn window(segments: u32) -> CongestionWindow {
        window_that(Halves::Flight, segments)
    }

    fn window_that(halves: Halves, segments: u32) -> CongestionWindow {
        let mut config = Config::new(HostId(0), Congestion::NewReno, Seed(1));
        (config.segment_size, config.initial_window) = (1_000, Some(segments));
        (config.halves, config.receive_window) = (halves, 20_000);
        CongestionWindow::new(&config)
    }

    #[test]
    fn what_is_halved_may_be_the_window_that_is_granted() {
        let mut window = window_that(Halves::Window, 9);
        window.enter_recovery(5_000);
        assert_eq!((window.bytes(), window.threshold), (7_500, 4_000), "of the window, and three");
        window.inflate();
        window.leave_recovery(1_000);
        assert_eq!(window.bytes(), 4_500 + 1_000 * 1_000 / 4_500, "opened by the last ACK");
        let mut wide = window_that(Halves::Window, 50);
        wide.on_timeout(3_000, false);
        assert_eq!((wide.bytes(), wide.threshold), (1_000, 10_000), "of what is granted");
    }

    #[test]
    fn slow_start_doubles_a_window_in_a_round_trip() {
        let mut window = window(2);
        for expected in [4_000, 8_000, 16_000] {
            for _ in 0..window.bytes() / 1_000 {
                window.on_acked(1_000);
            }
            assert_eq!(window.bytes(), expected);
        }
        // An ACK of much counts as one segment, of little as what it is.
        window.on_acked(5_000);
        window.on_acked(10);
        assert_eq!(window.bytes(), 17_010);
    }

    #[test]
    fn congestion_avoidance_adds_a_segment_in_a_round_trip() {
        let mut window = window(20);
        window.on_timeout(20_000, false);
        assert_eq!(window.bytes(), 1_000);
        for _ in 0..9 {
            window.on_acked(1_000);
        }
        assert_eq!(window.bytes(), 10_000, "slow start up to half of what was in flight");
        for _ in 0..10 {
            window.on_acked(1_000);
        }
        // Equation 3 falls a little short of a segment, as the window grows under way.
        assert!((10_950..11_000).contains(&window.bytes()), "{}", window.bytes());
    }

    #[test]
    fn recovery_halves_inflates_deflates_and_leaves_without_a_burst() {
        let mut window = window(10);
        window.enter_recovery(10_000);
        assert_eq!(window.bytes(), 8_000);
        window.inflate();
        window.inflate();
        assert_eq!(window.bytes(), 10_000);
        window.on_partial(3_000);
        assert_eq!(window.bytes(), 8_000);
        window.on_partial(500);
        assert_eq!(window.bytes(), 7_500, "less than a segment: nothing is put back");
        let mut idle = window;
        window.leave_recovery(6_000);
        assert_eq!(window.bytes(), 5_000);
        idle.leave_recovery(0);
        assert_eq!(idle.bytes(), 2_000);
    }

    #[test]
    fn the_threshold_is_two_segments_at_least_and_stays_when_a_segment_times_out_again() {
        let mut window = window(3);
        window.on_timeout(3_000, false);
        assert_eq!((window.bytes(), window.threshold), (1_000, 2_000));
        window.threshold = 7_000;
        window.on_timeout(1_000, true);
        assert_eq!((window.bytes(), window.threshold), (1_000, 7_000));
    }

    #[test]
    fn cuts_take_a_part_and_leave_the_least() {
        let mut window = window(10);
        window.cut(0.25, 2);
        assert_eq!((window.bytes(), window.threshold), (7_500, 7_500));
        window.cut(0.9, 2);
        assert_eq!(window.bytes(), 2_000);
        window.cut(0.5, 1);
        assert_eq!((window.bytes(), window.threshold), (1_000, 2_000));
        window.cut(0.0, 2);
        assert_eq!(window.bytes(), 1_000, "a cut never widens");
    }
}
