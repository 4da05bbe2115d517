//! Disk, ledger and counters of one run, which its sessions share.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wellspring_store::{DigestCache, Store};

use crate::ledger::Ledger;
use crate::objects::NAMES;
use crate::process::Process;
use crate::virtual_disk::VirtualDisk;

/// What happened in runs.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counters {
    /// Objects that were said to be complete.
    pub complete: u64,
    /// Objects that were said to be there already.
    pub confirmed: u64,
    /// Objects refused because another one has the name.
    pub refused: u64,
    /// Objects refused because their bytes were altered.
    pub altered: u64,
    /// Sessions that ended by an error.
    pub failed: u64,
    /// Sessions that their sender gave up.
    pub given_up: u64,
    /// Blocks that were taken up from part files.
    pub resumed_blocks: u64,
    /// Processes killed.
    pub kills: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Calls on the disk.
    pub calls: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.complete += other.complete;
        self.confirmed += other.confirmed;
        self.refused += other.refused;
        self.altered += other.altered;
        self.failed += other.failed;
        self.given_up += other.given_up;
        self.resumed_blocks += other.resumed_blocks;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.calls += other.calls;
    }
}

/// A process that serves the directory.
pub(crate) struct Server {
    pub process: Arc<Process>,
    pub store: Store,
    pub cache: DigestCache,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("process", &self.process).finish_non_exhaustive()
    }
}

/// What is shared.
pub(crate) struct Account {
    pub disk: Arc<VirtualDisk>,
    ledger: Mutex<Ledger>,
    counters: Mutex<Counters>,
    usual_mode: u32,
}

impl Account {
    /// A new one. Files get the permissions `usual_mode`.
    pub(crate) fn new(disk: VirtualDisk, usual_mode: u32) -> Self {
        let disk = Arc::new(disk);
        Account { disk, ledger: Mutex::default(), counters: Mutex::default(), usual_mode }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut lock(&self.counters));
    }

    pub(crate) fn usual_mode(&self) -> u32 {
        self.usual_mode
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters { calls: self.disk.calls(), ..*lock(&self.counters) }
    }

    /// Under each name there is what may be there.
    pub(crate) fn check_names(&self) {
        for (number, name) in NAMES.iter().enumerate() {
            let there = self.disk.check_name(name);
            if !self.ledger().allows(number, there) {
                self.disk.breach(format!("{name}: {there:?} is there, not what was complete"));
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
