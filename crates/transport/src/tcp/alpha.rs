//! DCTCP's estimate of how much of its data is marked.

/// DCTCP.Alpha and the window it is measured over (RFC 8257 §3.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Alpha {
    gain: f64,
    alpha: f64,
    acked: u64,
    marked: u64,
    /// DCTCP.WindowEnd.
    window_end: u64,
    /// Marks up to here have been answered: one cut a window.
    answered_to: u64,
}

impl Alpha {
    /// Alpha is 1 at first: the first mark halves the window (RFC 8257 §3.3).
    pub fn new(gain: f64) -> Self {
        let gain = if gain > 0.0 { gain.min(1.0) } else { 1.0 / 16.0 };
        Alpha { gain, alpha: 1.0, acked: 0, marked: 0, window_end: 0, answered_to: 0 }
    }

    #[cfg(test)]
    fn value(&self) -> f64 {
        self.alpha
    }

    /// An ACK up to `next` of `acked` new bytes, `highest` being the end of what was sent: what
    /// part of the window to take away, if this echo calls for it.
    pub fn on_ack(&mut self, next: u64, acked: u64, echo: bool, highest: u64) -> Option<f64> {
        self.acked += acked;
        if echo {
            self.marked += acked;
        }
        if next > self.window_end {
            self.close_window(highest);
        }
        // RFC 3168 §6.1.2: at most once for a window of data.
        if echo && next > self.answered_to {
            self.answered_to = highest;
            return Some(self.alpha / 2.0);
        }
        None
    }

    fn close_window(&mut self, highest: u64) {
        if self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha = self.alpha * (1.0 - self.gain) + self.gain * share;
        }
        (self.acked, self.marked) = (0, 0);
        self.window_end = highest;
    }

    /// A loss was answered: marks of the same window are not (RFC 3168 §6.1.2).
    pub fn on_loss(&mut self, highest: u64) {
        self.answered_to = highest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// g = 0.25 and windows of four segments: the values are worked out by hand.
    #[test]
    fn alpha_follows_the_share_of_marked_bytes() {
        let mut alpha = Alpha::new(0.25);
        assert_eq!(alpha.value(), 1.0);
        // The first ACK closes the window that ends at 0: nothing of it was marked.
        assert_eq!(alpha.on_ack(1_000, 1_000, false, 4_000), None);
        assert_eq!(alpha.value(), 0.75);
        // Of the next window, up to 4,000, two thousand of four are marked: 0.75 * 0.75 + 0.25 / 2.
        assert_eq!(alpha.on_ack(2_000, 1_000, true, 6_000), Some(0.375));
        assert_eq!(alpha.on_ack(3_000, 1_000, true, 7_000), None, "one cut a window");
        assert_eq!(alpha.on_ack(4_000, 1_000, false, 8_000), None);
        assert_eq!(alpha.value(), 0.75);
        assert_eq!(alpha.on_ack(5_000, 1_000, false, 8_000), None);
        assert_eq!(alpha.value(), 0.687_5);
        // Marks beyond what was out at the cut are answered again.
        assert_eq!(alpha.on_ack(6_000, 1_000, true, 9_000), None);
        assert_eq!(alpha.on_ack(7_000, 1_000, true, 9_000), Some(0.343_75));
        // The ACK that passes 8,000 closes that window: two of four thousand were marked.
        assert_eq!(alpha.on_ack(9_000, 2_000, false, 9_000), None);
        assert_eq!(alpha.value(), 0.687_5 * 0.75 + 0.25 * 0.5);
    }

    #[test]
    fn without_marks_alpha_fades_and_with_nothing_else_it_stays_one() {
        let (mut clean, mut marked) = (Alpha::new(0.0625), Alpha::new(0.0625));
        for window in 1..=100_u64 {
            clean.on_ack(window * 1_000, 1_000, false, window * 1_000);
            marked.on_ack(window * 1_000, 1_000, true, window * 1_000);
        }
        assert!((clean.value() - 0.937_5_f64.powi(100)).abs() < 1e-12);
        assert_eq!(marked.value(), 1.0);
    }

    #[test]
    fn a_loss_counts_as_the_cut_of_its_window() {
        let mut alpha = Alpha::new(0.0625);
        alpha.on_loss(5_000);
        assert_eq!(alpha.on_ack(5_000, 1_000, true, 9_000), None);
        assert!(alpha.on_ack(6_000, 1_000, true, 9_000).is_some());
    }
}
