//! Limits of the time that a silent peer is waited for.

use std::time::Duration;

/// Shortest silence of a peer that is waited for.
pub const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);

/// Longest silence of a peer that is waited for: a server holds a session's memory for so long.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(600);

/// A time limit as the protocol takes it.
pub fn peer_timeout(timeout: Duration) -> wellspring_core::Duration {
    wellspring_core::Duration::from_millis(timeout.as_millis() as u64)
}
