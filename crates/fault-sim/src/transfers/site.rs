//! Places of a run: a machine with a disk, on which processes start and die one after the other.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;
use wellspring_core::{RandomStream, Seed};

use super::machine::Machine;
use super::network::Network;
use crate::account::lock;
use crate::ledger::Ledger;
use crate::objects::{NAMES, Object};
use crate::virtual_disk::VirtualDisk;

/// A place.
pub(crate) struct Site {
    pub ip: IpAddr,
    pub disk: Arc<VirtualDisk>,
    pub ledger: Mutex<Ledger>,
    network: Arc<Network>,
    rng: Mutex<RandomStream>,
    machine: Mutex<Option<Arc<Machine>>>,
    /// Calls that wait for disk or decoder take up to so long \[ms\].
    work: u64,
    ends: Mutex<Ends>,
}

/// How processes ended.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Ends {
    pub kills: u64,
    pub power_cuts: u64,
}

impl Site {
    /// The place of that number, with an empty directory at `root`.
    pub(crate) fn new(
        seed: u64,
        number: u8,
        root: &Path,
        objects: Vec<Object>,
        network: &Arc<Network>,
        work: u64,
    ) -> Arc<Self> {
        let stream = |name| Seed(seed).numbered_stream(name, number.into());
        Arc::new(Site {
            ip: IpAddr::from([10, 0, 0, number]),
            disk: Arc::new(VirtualDisk::new(root, objects, stream("disk"))),
            ledger: Mutex::default(),
            network: Arc::clone(network),
            rng: Mutex::new(stream("machine")),
            machine: Mutex::default(),
            work,
            ends: Mutex::default(),
        })
    }

    /// Starts a process.
    pub(crate) fn start(&self) -> Arc<Machine> {
        let number = lock(&self.rng).next_u64();
        let rng = Seed(number).stream("process");
        let machine = Machine::start(self.ip, &self.network, &self.disk, rng, self.work);
        *lock(&self.machine) = Some(Arc::clone(&machine));
        machine
    }

    /// Kills the process within so many calls on the disk from now, or at once.
    pub(crate) fn kill_after(&self, calls: u64) {
        if let Some(machine) = &*lock(&self.machine) {
            machine.kill_after(calls);
        }
    }

    /// The process is gone: closes what it had open. After a power cut the disk has what was synced and a part of the
    /// rest.
    pub(crate) async fn bury(&self, died: bool) {
        let Some(machine) = lock(&self.machine).take() else { return };
        machine.kill();
        drop(machine);
        // Its tasks end.
        sleep(Duration::from_millis(1)).await;
        if self.disk.is_off() {
            lock(&self.ends).power_cuts += 1;
            self.disk.restore_power();
            self.check_names();
            for (number, name) in NAMES.iter().enumerate() {
                lock(&self.ledger).settle(number, self.disk.check_name(name));
            }
        } else {
            lock(&self.ledger).end_left();
            lock(&self.ends).kills += u64::from(died);
        }
    }

    /// Under each name there is what may be there.
    pub(crate) fn check_names(&self) {
        for (number, name) in NAMES.iter().enumerate() {
            let there = self.disk.check_name(name);
            if !lock(&self.ledger).allows(number, there) {
                let place = self.ip;
                self.disk
                    .breach(format!("{place} {name}: {there:?} is there, not what was complete"));
            }
        }
    }

    pub(crate) fn ends(&self) -> Ends {
        *lock(&self.ends)
    }

    /// Part files in the directory.
    pub(crate) fn parts(&self) -> usize {
        let entries = std::fs::read_dir(self.disk.root()).expect("a directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names.filter(|name| name.to_string_lossy().starts_with('.')).count()
    }
}
