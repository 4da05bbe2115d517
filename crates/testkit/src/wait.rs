//! Polling of another process's state, which has no event to wait for.

use std::time::{Duration, Instant};

/// The longest wait: no step of a test takes that long unless something hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(10);

/// Waits until `holds`.
///
/// # Panics
/// It does not hold within [`PATIENCE`]; the message is `what`, taken then.
pub fn wait_until<W: std::fmt::Display>(what: impl Fn() -> W, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {}", what());
        std::thread::sleep(INTERVAL);
    }
}
