//! Software switch with the queues of the simulator, which trims packets instead of dropping them.
//!
//! It learns which station is behind which port, floods what is for many stations or for an unknown one,
//! and queues each frame at its port by `wellspring-fabric`: SCDP's trimming switch, or one that drops at the
//! tail, with marks or without. As in production switches only what goes to one known station is trimmed.
//! Ports may be in VLANs, and packets of multicast groups may go to those ports only that asked for them.
//!
//! Rates of up to about a gigabit a second are what it is for: it is a switch to try things on.

mod addresses;
mod buffers;
mod config;
mod counters;
mod egress;
mod frame;
mod handover;
mod metrics;
mod port;
mod ports;
mod recorder;
mod refusal;
mod shared;
pub mod snooping;
mod vlan;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

pub use config::{QueueLimit, SwitchConfig};
pub use counters::{PortCounters, QueueCounters};
pub use frame::Marking;
pub use metrics::{priority, to_prometheus};
use port::SwitchPort;
pub use ports::PortSet;
use recorder::Recording;
pub use recorder::{CaptureConfig, CaptureStatus};
pub use refusal::{LEAST_KEPT, OpenError, Refusal};
use shared::Shared;
pub use shared::{Monitor, SwitchStatus};
pub use vlan::{DEFAULT_VLAN, PortVlans, VLAN_RANGE};
use worker::Worker;

/// A switch between interfaces.
pub struct Switch {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    recording: Option<Recording>,
}

impl Switch {
    /// Opens the interfaces: from then on frames wait for [`run`](Self::run).
    ///
    /// # Errors
    /// Settings or interfaces that make no switch, or packet sockets are not allowed.
    pub fn open(names: &[String], config: SwitchConfig) -> Result<Self, OpenError> {
        let interfaces = refusal::interfaces(names)?;
        let mtus: Vec<usize> = interfaces.iter().map(|interface| interface.mtu).collect();
        refusal::settings(&config, names, &mtus)?;
        let threads = config.threads;
        let mut ports: Vec<Vec<SwitchPort>> = (0..threads).map(|_| Vec::new()).collect();
        for (number, interface) in interfaces.iter().enumerate() {
            ports[number % threads].push(SwitchPort::open(number, interface, &config)?);
        }
        // Last of all: a switch that does not start leaves no file.
        let (mut recorder, mut recording, mut view) = (None, None, None);
        if let Some(capture) = &config.capture {
            let started = recorder::start(capture, names);
            let started =
                started.map_err(|error| OpenError::Capture(capture.file.clone(), error))?;
            (recorder, recording, view) = (Some(started.0), Some(started.1), Some(started.2));
        }
        let shared = Arc::new(Shared::new(config, names.to_vec(), view));
        let ways = handover::between(threads)?;
        let workers = ports.into_iter().zip(ways).map(|(ports, (inbox, outboxes))| {
            Worker::new(Arc::clone(&shared), ports, inbox, outboxes, recorder.clone())
        });
        let workers = workers.collect();
        Ok(Switch { workers, shared, recording })
    }

    /// A view of the switch while it runs, and afterwards.
    pub fn monitor(&self) -> Monitor {
        Monitor(Arc::clone(&self.shared))
    }

    /// Forwards frames until `stop`. Blocks the thread.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let Some((first, others)) = self.workers.split_first_mut() else { return Ok(()) };
        let ended = thread::scope(|scope| {
            let others: Vec<_> =
                others.iter_mut().map(|worker| scope.spawn(|| worker.run(stop))).collect();
            let ended = first.run(stop);
            others.into_iter().fold(ended, |ended, other| {
                ended.and(other.join().unwrap_or_else(|_| Err(io::Error::other("a thread failed"))))
            })
        });
        // With the workers go the ways to the recording, which then ends.
        self.workers.clear();
        if let Some(recording) = &mut self.recording {
            recording.finish();
        }
        ended
    }
}
