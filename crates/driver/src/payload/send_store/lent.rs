//! Memory of blocks that were let go while workers had a part of them.

use std::collections::BTreeMap;

use crate::payload::key::BlockKey;

/// A job of a block: whether it is read, or its encoder made ready.
pub(super) type LentJob = (BlockKey, bool);

/// What workers still have of blocks that were let go, one entry a job.
#[derive(Debug, Default)]
pub(super) struct Lent {
    jobs: BTreeMap<LentJob, Vec<usize>>,
    bytes: usize,
}

impl Lent {
    /// All of it \[bytes\].
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether workers have nothing.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.bytes == 0
    }

    /// A worker keeps so many bytes until a job is done.
    pub(super) fn add(&mut self, job: LentJob, bytes: usize) {
        self.bytes += bytes;
        self.jobs.entry(job).or_default().push(bytes);
    }

    /// A worker brings back what it had for a job, if it was lent at all.
    pub(super) fn take_back(&mut self, job: LentJob) {
        let Some(of_job) = self.jobs.get_mut(&job) else { return };
        self.bytes -= of_job.pop().unwrap_or(0);
        if of_job.is_empty() {
            self.jobs.remove(&job);
        }
    }
}
