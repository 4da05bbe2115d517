//! Progress of several fetches as that of one transfer.

use std::sync::{Arc, Mutex, PoisonError};

use super::super::{Update, Updates};

/// Fetches at one time, at most.
pub(super) const LANES: usize = 4;

/// What was moved by all of them.
pub(super) struct Progress {
    total: u64,
    updates: Updates,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    /// Bytes and symbols of fetches that are over.
    over: (u64, u64),
    /// Of those under way.
    lanes: [(u64, u64); LANES],
    started: bool,
}

impl Progress {
    pub(super) fn new(total: u64, updates: &Updates) -> Arc<Self> {
        Arc::new(Progress { total, updates: updates.clone(), done: Mutex::default() })
    }

    /// Where the updates of a lane's fetch go.
    pub(super) fn updates(self: &Arc<Self>, lane: usize) -> Updates {
        let this = Arc::clone(self);
        Updates::to(move |update| this.hear(lane, update))
    }

    fn hear(&self, lane: usize, update: Update) {
        let mut locked = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        match update {
            Update::Started { symbol_size, digest, hosts, .. } => {
                if !std::mem::replace(&mut locked.started, true) {
                    let size = self.total;
                    self.updates.tell(Update::Started { size, symbol_size, digest, hosts });
                }
            }
            Update::Moving { done, symbols, .. } => {
                locked.lanes[lane] = (done, symbols);
                let all = locked.lanes.iter().chain([&locked.over]);
                let (done, symbols) =
                    all.fold((0, 0), |sum, lane| (sum.0 + lane.0, sum.1 + lane.1));
                self.updates.tell(Update::Moving { done, total: self.total, symbols });
            }
            Update::Hashing { .. } | Update::Verifying => {}
            other => self.updates.tell(other),
        }
    }

    /// A lane's fetch of so many bytes is over.
    pub(super) fn end(&self, lane: usize, len: u64) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, symbols) = std::mem::take(&mut done.lanes[lane]);
        done.over = (done.over.0 + len, done.over.1 + symbols);
    }
}
