//! Clocks: one for spans of time, and the time of day.

use std::time::{Instant, SystemTime};

/// Now, by the clock that never goes back: of the runtime, if its time is paused.
pub(crate) fn now() -> Instant {
    #[cfg(feature = "simulation")]
    return tokio::time::Instant::now().into_std();
    #[cfg(not(feature = "simulation"))]
    Instant::now()
}

/// Now, by the clock that files are dated by.
pub(crate) fn time_of_day() -> SystemTime {
    #[cfg(feature = "simulation")]
    if crate::simulation::machine().is_some() {
        // Long after every change of a file: what depends on how long ago that was is the same in each run.
        return SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(10_000_000_000);
    }
    SystemTime::now()
}
