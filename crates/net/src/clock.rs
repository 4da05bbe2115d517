//! Clocks: one for spans of time, and the time of day.

use std::time::SystemTime;

pub use wellspring_driver::clock::now;

/// Now, by the clock that files are dated by.
pub fn time_of_day() -> SystemTime {
    #[cfg(feature = "simulation")]
    if crate::simulation::machine().is_some() {
        // Long after every change of a file: what depends on how long ago that was is the same in each run.
        return SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(10_000_000_000);
    }
    SystemTime::now()
}
