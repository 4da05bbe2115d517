//! Bytes of part files that this process has verified, until the files are taken up again.
//!
//! A client that is killed and comes again finds a server that has written and verified what it has sent so far. The
//! server need not read it again as long as it runs and the file is in the state in which it was left: what it
//! relies on is what a transfer that is not interrupted relies on.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::Fingerprint;

/// Part files remembered, at most.
const MAX_FILES: usize = 256;
/// Ranges of one of them, at most: 64 KiB for a file.
const MAX_RANGES: usize = 4_096;

/// Part files that were left, oldest first.
#[derive(Debug, Default)]
pub(super) struct Memory {
    left: Mutex<VecDeque<Left>>,
}

#[derive(Debug)]
struct Left {
    state: Fingerprint,
    verified: Vec<Range<u64>>,
    /// Its bytes could not be brought onto the disk.
    failed: Arc<AtomicBool>,
}

impl Memory {
    /// Notes what is verified of a file that is left. `stamp` is the time of its last change, set a moment ago.
    pub(super) fn keep(
        &self,
        file: &File,
        stamp: SystemTime,
        verified: Vec<Range<u64>>,
        failed: Arc<AtomicBool>,
    ) {
        // Where file times cannot show its state from a later one, it is read again.
        let state = Fingerprint::of(file).ok().filter(|state| state.was_modified_at(stamp));
        let Some(state) = state.filter(|_| verified.len() <= MAX_RANGES) else { return };
        let mut left = self.lock();
        left.push_back(Left { state, verified, failed });
        if left.len() > MAX_FILES {
            left.pop_front();
        }
    }

    /// What was verified of a file, if it is in the state in which it was left; and whether it could not be brought
    /// onto the disk, which may show later.
    pub(super) fn recall(&self, file: &File) -> Option<(Vec<Range<u64>>, Arc<AtomicBool>)> {
        let state = Fingerprint::of(file).ok()?;
        let mut left = self.lock();
        let place = left.iter().position(|left| left.state == state)?;
        let left = left.remove(place)?;
        (!left.failed.load(Ordering::Acquire)).then_some((left.verified, left.failed))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_file_is_recalled_once_and_only_as_it_was_left() {
        let memory = Memory::default();
        let mut file = tempfile::tempfile().expect("temporary file");
        let keep = |file: &File, failed: bool| {
            let now = SystemTime::now();
            file.set_modified(now).expect("ours");
            memory.keep(file, now, vec![3..7, 9..12], Arc::new(AtomicBool::new(failed)));
        };
        let recall = |file: &File| memory.recall(file).map(|(verified, _)| verified);
        assert_eq!(recall(&file), None);
        keep(&file, false);
        assert_eq!(recall(&file), Some(vec![3..7, 9..12]));
        assert_eq!(recall(&file), None, "once");
        keep(&file, false);
        file.write_all(b"more").expect("written");
        assert_eq!(recall(&file), None, "somebody has written to it");
        keep(&file, true);
        assert_eq!(recall(&file), None, "a sync has failed");
        memory.keep(&file, SystemTime::UNIX_EPOCH, std::iter::once(3..7).collect(), Arc::default());
        assert_eq!(recall(&file), None, "changed at another time");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let memory = Memory::default();
        let file = tempfile::tempfile().expect("temporary file");
        let now = SystemTime::now();
        file.set_modified(now).expect("ours");
        memory.keep(&file, now, vec![0..1; MAX_RANGES + 1], Arc::default());
        assert!(memory.lock().is_empty());
        for _ in 0..2 * MAX_FILES {
            memory.keep(&file, now, vec![0..1; 3], Arc::default());
        }
        assert_eq!(memory.lock().len(), MAX_FILES);
    }
}
