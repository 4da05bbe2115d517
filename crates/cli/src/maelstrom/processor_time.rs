//! Processor time of a thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this thread.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
