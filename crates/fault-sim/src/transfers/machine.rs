//! Machines of a run: what one process gets from its machine, and its end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use wellspring_client::simulation::{self, VirtualSocket};
use wellspring_client::socket::SocketConfig;
use wellspring_client::store::Disk;
use wellspring_core::RandomStream;

use super::network::Network;
use crate::account::lock;
use crate::process::{Others, Process};
use crate::virtual_disk::VirtualDisk;

/// Tells that the process has died within a call.
#[derive(Debug, Default)]
pub(crate) struct Death(Notify);

impl Others for Death {
    fn go_on(&self) {}

    fn died(&self) {
        self.0.notify_one();
    }
}

/// The machine as one process sees it.
pub(crate) struct Machine {
    ip: IpAddr,
    network: Arc<Network>,
    process: Arc<Process>,
    death: Arc<Death>,
    rng: Mutex<RandomStream>,
    tasks: Mutex<Vec<AbortHandle>>,
    /// Calls that wait take up to so long \[ms\].
    work: u64,
}

impl Machine {
    /// A new process on the machine at that address, with that disk.
    pub(crate) fn start(
        ip: IpAddr,
        network: &Arc<Network>,
        disk: &Arc<VirtualDisk>,
        rng: RandomStream,
        work: u64,
    ) -> Arc<Self> {
        let death = Arc::new(Death::default());
        let others = Arc::downgrade(&death);
        Arc::new(Machine {
            ip,
            network: Arc::clone(network),
            process: Process::new(Arc::clone(disk), others as Weak<dyn Others>),
            death,
            rng: Mutex::new(rng),
            tasks: Mutex::default(),
            work,
        })
    }

    /// Starts a task of the process.
    pub(crate) fn run(
        self: &Arc<Self>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        let machine = Arc::clone(self) as Arc<dyn simulation::Machine>;
        let task = tokio::spawn(simulation::on(machine, task));
        lock(&self.tasks).push(task.abort_handle());
        task
    }

    /// Kills it within so many calls on the disk from now, if it makes as many.
    pub(crate) fn kill_after(&self, calls: u64) {
        self.process.kill_after(calls);
        if calls == 0 {
            self.death.died();
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    /// Waits until it has been killed within a call, or the power has failed.
    pub(crate) async fn died(&self) {
        self.death.0.notified().await;
    }

    /// Ends it: nothing that it still does has any effect. What it has open is closed before a millisecond has gone by.
    pub(crate) fn kill(&self) {
        self.process.kill_after(0);
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
    }
}

impl simulation::Machine for Machine {
    fn bind(&self, config: &SocketConfig) -> io::Result<Arc<dyn VirtualSocket>> {
        if config.bind.ip().is_multicast() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let address = SocketAddr::new(self.ip, config.bind.port());
        Ok(self.network.bind(address, &self.process)?)
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.process) as Arc<dyn Disk>
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let mut rng = lock(&self.rng);
        for chunk in bytes.chunks_mut(8) {
            let random = rng.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }

    fn started(&self, task: AbortHandle) {
        let mut tasks = lock(&self.tasks);
        if tasks.len() >= 64 {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(task);
    }

    fn work_time(&self) -> Duration {
        match self.work {
            0 => Duration::ZERO,
            work => Duration::from_millis(lock(&self.rng).below(work + 1)),
        }
    }
}
