//! Monotonic clock.

use std::time::Instant;

use wellspring_core::{Duration, Time};

/// Now, by the clock that never goes back: of the runtime, if its time is paused.
pub fn now() -> Instant {
    #[cfg(feature = "simulation")]
    return tokio::time::Instant::now().into_std();
    #[cfg(not(feature = "simulation"))]
    Instant::now()
}

/// A monotonic clock on the circle of [`Time`]: it comes round after 213 days, which nobody
/// notices (see there).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    start: Time,
}

impl Clock {
    /// A clock that shows `start` now.
    pub(crate) fn starting_at(start: Time) -> Self {
        Clock { epoch: now(), start }
    }

    pub(crate) fn now(&self) -> Time {
        // Nanoseconds last 584 years.
        self.start.plus_nanos(now().duration_since(self.epoch).as_nanos() as u64)
    }
}

/// How long an operating system is asked to sleep until then.
pub(crate) fn sleep_until(now: Time, deadline: Time) -> std::time::Duration {
    let left: Duration = deadline.since(now);
    std::time::Duration::from_nanos(left.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on_over_the_turn_of_the_circle() {
        let clock = Clock::starting_at(Time::ZERO - Duration::from_millis(5));
        let first = clock.now();
        let mut turned = false;
        while !turned {
            let now = clock.now();
            assert!(now.has_reached(first));
            turned = now.as_picos() < first.as_picos();
        }
    }

    #[test]
    fn a_deadline_that_has_passed_asks_for_no_sleep() {
        let (early, late) = (Time::from_picos(5), Time::from_picos(2_000_005));
        assert_eq!(sleep_until(early, late), std::time::Duration::from_micros(2));
        assert_eq!(sleep_until(late, early), std::time::Duration::ZERO);
    }
}
