//! A timer that an event loop can wait for.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

#[cfg(target_os = "linux")]
use super::sys;

/// A timer whose descriptor becomes readable when it goes off: with edges (as `mio` asks for
/// them) each setting is told once, and nothing needs to be read. Linux alone has it.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::Unsupported`] if it has no such timers.
    pub fn new() -> io::Result<Timer> {
        #[cfg(target_os = "linux")]
        return sys::timer_create().map(Timer);
        #[cfg(not(target_os = "linux"))]
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Goes off once, after `span`, instead of when it was set to before; zero: never.
    ///
    /// # Errors
    /// What the system says.
    pub fn set(&self, span: Duration) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        return sys::timer_set(self.0.as_raw_fd(), span);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = span;
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
