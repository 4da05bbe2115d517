//! Windowed extremes of samples over time.

use wellspring_core::{Duration, Time};

/// The largest sample of a window of time that slides by halves: between one half and a whole of `window`
/// back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowedMax {
    window: Duration,
    since: Time,
    started: bool,
    current: u64,
    previous: u64,
}

impl WindowedMax {
    pub(crate) fn new(window: Duration) -> Self {
        WindowedMax { window, since: Time::ZERO, started: false, current: 0, previous: 0 }
    }

    /// Takes in a sample.
    pub(crate) fn update(&mut self, now: Time, sample: u64) {
        let elapsed = now.since(self.since);
        if !self.started || elapsed >= self.window {
            *self = WindowedMax { since: now, started: true, ..Self::new(self.window) };
        } else if elapsed >= self.window / 2 {
            (self.previous, self.current, self.since) = (self.current, 0, now);
        }
        self.current = self.current.max(sample);
    }

    /// The largest, 0 without any.
    pub(crate) fn get(&self) -> u64 {
        self.current.max(self.previous)
    }
}

/// The least round trip of a window of time that slides by halves.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeastRtt(WindowedMax);

impl LeastRtt {
    pub(super) fn new(window: Duration) -> Self {
        LeastRtt(WindowedMax::new(window))
    }

    pub(super) fn update(&mut self, now: Time, rtt: Duration) {
        self.0.update(now, u64::MAX - rtt.as_picos());
    }

    pub(super) fn get(&self) -> Option<Duration> {
        match self.0.get() {
            0 => None,
            complement => Some(Duration::from_picos(u64::MAX - complement)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_are_forgotten_after_their_window() {
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        let ms = Duration::from_millis;
        let (mut most, mut least) =
            (WindowedMax::new(Duration::from_secs(10)), LeastRtt::new(Duration::from_secs(10)));
        assert_eq!((most.get(), least.get()), (0, None));
        for (secs, sample) in [(0, 9), (1, 3), (6, 4)] {
            most.update(at(secs), sample);
            least.update(at(secs), ms(10 - sample));
        }
        assert_eq!((most.get(), least.get()), (9, Some(ms(1))));
        most.update(at(11), 2);
        least.update(at(11), ms(8));
        assert_eq!((most.get(), least.get()), (4, Some(ms(6))));
        most.update(at(60), 1);
        assert_eq!(most.get(), 1);
    }
}
