//! Account of what a fetch of a tree has put in place.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::Existing;

/// Files that were fetched.
#[derive(Default)]
pub(super) struct Moved(Mutex<State>);

#[derive(Default)]
struct State {
    files: u64,
    bytes: u64,
    /// Kept only where what others have put there stays.
    paths: BTreeSet<String>,
}

impl Moved {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, path: &str, len: u64, existing: Existing) {
        let mut state = self.lock();
        state.files += 1;
        state.bytes += len;
        if existing == Existing::Keep {
            state.paths.insert(path.to_owned());
        }
    }

    /// Files, and their length \[bytes\].
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.files, state.bytes)
    }

    /// Whether this fetch has put the file of that path there, where it keeps those of others.
    pub(super) fn is_ours(&self, path: &str) -> bool {
        self.lock().paths.contains(path)
    }
}
