//! Rate of a counter that forgets within about a second.

use std::time::Instant;

/// The rate of a counter.
#[derive(Clone, Copy)]
pub struct Average {
    at: Instant,
    count: u64,
    per_second: f64,
}

impl Average {
    /// Of a counter that was zero.
    pub fn new(at: Instant) -> Self {
        Average { at, count: 0, per_second: 0.0 }
    }

    /// Of a counter as it is.
    pub fn from(at: Instant, count: u64) -> Self {
        Average { at, count, per_second: 0.0 }
    }

    /// Takes the counter in as it is now.
    pub fn take(&mut self, at: Instant, count: u64) {
        let span = at.duration_since(self.at).as_secs_f64();
        if span > 0.0 {
            let current = count.saturating_sub(self.count) as f64 / span;
            let weight = if self.per_second == 0.0 { 1.0 } else { (span * 2.0).min(1.0) };
            self.per_second += weight * (current - self.per_second);
            (self.at, self.count) = (at, count);
        }
    }

    /// The rate \[1/s\].
    pub fn per_second(&self) -> f64 {
        self.per_second
    }
}
