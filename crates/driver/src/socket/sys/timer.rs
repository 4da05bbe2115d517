//! Timers as descriptors (timerfd_create(2)).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// A timer that becomes readable, finer than epoll's milliseconds.
pub(in crate::socket) fn timer_create() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a valid result is a new descriptor that nobody else owns.
    unsafe {
        match libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Sets a timer to go off once, after `span` (zero: never).
pub(in crate::socket) fn timer_set(fd: RawFd, span: std::time::Duration) -> io::Result<()> {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value = libc::timespec {
        tv_sec: span.as_secs().try_into().unwrap_or(i32::MAX.into()),
        tv_nsec: span.subsec_nanos().into(),
    };
    let setting = libc::itimerspec { it_interval: never, it_value: value };
    // SAFETY: the kernel reads one live itimerspec; the old setting is not asked for.
    match unsafe { libc::timerfd_settime(fd, 0, &raw const setting, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
