//! Monotonic clock of the machines that the threads drive.

use std::time::Instant;

use wellspring_core::Time;

/// A clock on the circle of [`Time`]: it goes round, for an appliance runs for years.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    begin: Instant,
}

impl Clock {
    /// A clock that shows [`Time::ZERO`] at that instant.
    pub(crate) fn starting_at(begin: Instant) -> Self {
        Clock { begin }
    }

    pub(crate) fn now(self) -> Time {
        self.at(Instant::now())
    }

    /// What it shows at an instant.
    pub(crate) fn at(self, instant: Instant) -> Time {
        // Nanoseconds last 584 years.
        Time::ZERO.plus_nanos(instant.saturating_duration_since(self.begin).as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use wellspring_core::Duration as Span;

    #[test]
    fn the_clock_does_not_stop() {
        let begin = Instant::now();
        let clock = Clock::starting_at(begin);
        let day = Duration::from_secs(86_400);
        // Half the circle is 106.75 days.
        for days in [0, 106, 107, 213, 214, 3_650] {
            let then = begin + day * days;
            let second = clock.at(then + Duration::from_secs(1)).since(clock.at(then));
            assert_eq!(second, Span::from_secs(1), "after {days} days");
        }
    }
}
