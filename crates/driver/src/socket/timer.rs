//! A timer that an event loop can wait for.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::sys;

/// A timer whose descriptor becomes readable when it goes off: with edges (as `mio` asks for
/// them) each setting is told once, and nothing needs to be read.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Timer> {
        sys::timer_create().map(Timer)
    }

    /// Goes off once, after `span`, instead of when it was set to before; zero: never.
    ///
    /// # Errors
    /// What the system says.
    pub fn set(&self, span: Duration) -> io::Result<()> {
        sys::timer_set(self.0.as_raw_fd(), span)
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
