//! The pace of one sender's credits: no faster than its congestion controller says.
//!
//! Answers clock most credits. The pace spreads those that answers do not: of a window that opens at once,
//! after a pause or when losses are found.

use wellspring_core::{Duration, Time};

use crate::scdp::Config;

/// Credits that may leave at once, at least: what a delayed acknowledgement brings TCP, and more.
const MIN_QUANTUM: u32 = 4;

/// When further credits may be granted.
#[derive(Debug)]
pub(super) struct Pace {
    /// Credits that may leave at once.
    quantum: u32,
    /// When all that was granted would have left at the pace.
    free_at: Option<Time>,
    waiting_until: Option<Time>,
}

impl Pace {
    pub(super) fn new(config: &Config) -> Self {
        let quantum = u32::from(config.burst).max(MIN_QUANTUM);
        Pace { quantum, free_at: None, waiting_until: None }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting_until.is_some()
    }

    pub(super) fn waiting_until(&self) -> Option<Time> {
        self.waiting_until
    }

    pub(super) fn on_time(&mut self, now: Time) {
        if self.waiting_until.is_some_and(|at| now.since(at) > Duration::ZERO || now == at) {
            self.waiting_until = None;
        }
        if self.free_at.is_some_and(|at| now.since(at) > Duration::ZERO) {
            self.free_at = None;
        }
    }

    /// So many credits leave now, at `rate` \[credits/s\], in runs of no more than `run`.
    pub(super) fn on_granted(&mut self, now: Time, credits: u32, run: u32, rate: Option<f64>) {
        let Some(rate) = rate.filter(|rate| *rate > 0.0) else {
            (self.free_at, self.waiting_until) = (None, None);
            return;
        };
        let span = |credits: u32| Duration::from_nanos((f64::from(credits) * 1e9 / rate) as u64);
        self.on_time(now);
        let free_at = self.free_at.unwrap_or(now) + span(credits);
        self.free_at = Some(free_at);
        let ahead = free_at.since(now);
        let allowed = span(self.quantum.min(run.max(MIN_QUANTUM)));
        let wait = ahead.saturating_sub(allowed);
        self.waiting_until = (wait > Duration::ZERO).then(|| now + wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_core::{HostId, Rate};

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn credits_beyond_the_quantum_wait_for_the_pace() {
        let mut pace = Pace::new(&Config::new(HostId(0), Rate::from_mbps(1_000)));
        pace.on_granted(at(0), 4, 32, Some(1_000.0));
        assert_eq!(pace.waiting_until(), None);
        pace.on_granted(at(0), 2, 32, Some(1_000.0));
        assert_eq!(pace.waiting_until(), Some(at(2_000)));
        pace.on_time(at(1_999));
        assert!(pace.is_waiting());
        pace.on_time(at(2_000));
        assert!(!pace.is_waiting());
        pace.on_granted(at(2_000), 1, 32, Some(1_000.0));
        assert_eq!(pace.waiting_until(), Some(at(3_000)));
        pace.on_time(at(60_000));
        pace.on_granted(at(60_000), 4, 32, Some(1_000.0));
        assert!(!pace.is_waiting(), "a pause allows one quantum, not more");
        pace.on_granted(at(60_000), 1, 32, None);
        assert!(!pace.is_waiting());
    }
}
