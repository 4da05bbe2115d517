//! Segmentation offload of a socket: whether the system has it, and when it is tried again after a refusal.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Refusals in a row before batches go by untried.
const REFUSALS: u32 = 4;
/// Batches in a row that go by untried, at most: a device that never segments costs one call more in so many.
const LONGEST_PAUSE: u32 = 64;

#[derive(Debug)]
pub(super) struct Segmentation {
    there: AtomicBool,
    /// Refusals since a batch was taken.
    refusals: AtomicU32,
    /// Batches that are still to go by untried.
    pause: AtomicU32,
}

impl Segmentation {
    pub(super) fn new(there: bool) -> Self {
        let (refusals, pause) = (AtomicU32::new(0), AtomicU32::new(0));
        Segmentation { there: AtomicBool::new(there), refusals, pause }
    }

    /// Whether the system has it.
    pub(super) fn is_there(&self) -> bool {
        self.there.load(Relaxed)
    }

    /// Whether the next batch is to be tried.
    pub(super) fn is_tried(&self) -> bool {
        self.is_there() && self.pause.load(Relaxed) == 0
    }

    /// A batch went by untried.
    pub(super) fn on_untried(&self) {
        self.pause.store(self.pause.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// A batch was segmented.
    pub(super) fn on_taken(&self) {
        self.refusals.store(0, Relaxed);
    }

    /// A batch was refused that could be sent otherwise. A path may refuse it that takes only shorter datagrams, or that
    /// is encrypted, which says nothing of the others.
    pub(super) fn on_refused(&self, error: &io::Error) {
        if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)) {
            self.there.store(false, Relaxed);
        }
        let refusals = self.refusals.load(Relaxed).saturating_add(1);
        self.refusals.store(refusals, Relaxed);
        if let Some(more) = refusals.checked_sub(REFUSALS) {
            self.pause.store((1 << more.min(31)).min(LONGEST_PAUSE), Relaxed);
        }
    }
}

/// Errors by which systems and drivers say that they cannot segment this batch.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends so many batches that are all refused; how many of them were tried.
    fn tried(segmentation: &Segmentation, errno: i32, batches: u32) -> u32 {
        let mut tried = 0;
        for _ in 0..batches {
            if segmentation.is_tried() {
                tried += 1;
                segmentation.on_refused(&io::Error::from_raw_os_error(errno));
            } else {
                segmentation.on_untried();
            }
        }
        tried
    }

    #[test]
    fn what_one_path_refuses_the_others_are_asked_again() {
        for errno in [libc::EINVAL, libc::EIO, libc::EMSGSIZE] {
            let segmentation = Segmentation::new(true);
            for _ in 0..1_000 {
                assert_eq!(tried(&segmentation, errno, 1), 1);
                segmentation.on_taken();
            }
            tried(&segmentation, errno, 1_000);
            assert!(segmentation.is_there());
            let untried = (0..1_000).take_while(|_| {
                segmentation.on_untried();
                !segmentation.is_tried()
            });
            assert!(untried.count() < 64);
        }
    }

    #[test]
    fn a_device_that_never_segments_costs_few_calls() {
        assert!(tried(&Segmentation::new(true), libc::EIO, 10_000) < 200);
        for errno in [libc::EOPNOTSUPP, libc::ENOPROTOOPT] {
            let segmentation = Segmentation::new(true);
            assert_eq!(tried(&segmentation, errno, 10_000), 1);
            assert!(!segmentation.is_there());
        }
    }
}
