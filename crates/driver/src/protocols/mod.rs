//! Protocols on the driver, and the driver that runs them all on one socket, or on one for each of its loops.

mod complete;
mod handle;
pub mod lttp;
pub mod ndp;
mod scdp;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

#[cfg(any(test, feature = "fuzzing"))]
use crate::OutgoingControl;
use crate::{Builder, ControlSink, DriverConfig, EachLoop, RunningDriver, StartError};

/// Largest symbol that a datagram holds, headers included \[bytes\].
pub const MAX_SYMBOL_SIZE: u16 = 65_507 - 72;

pub use handle::DriverHandle;
pub use scdp::{Account, At, ReceiveObject, Recipients, SendObject};

/// A running driver: a UDP socket, the thread that runs its protocols, and workers; or several of each, one for each
/// [loop](DriverConfig::loops). Dropping it closes its sessions and waits for its threads.
pub struct Driver {
    handle: DriverHandle,
    _running: RunningDriver,
}

impl Driver {
    /// Opens the socket and starts the threads. Control messages that arrive are given to
    /// `control`.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: DriverConfig, control: ControlSink) -> Result<Driver, StartError> {
        let (loops, handle) = Self::open(config, control)?;
        Ok(Driver { handle, _running: RunningDriver::start(loops)? })
    }

    /// Opens the socket, and starts nothing but the workers.
    fn open(
        mut config: DriverConfig,
        control: ControlSink,
    ) -> Result<(Vec<Builder>, DriverHandle), StartError> {
        config.check()?;
        config.scdp.paths = config.scdp.paths.max(config.ports.into());
        let sealing_overhead = config.sealing_overhead();
        config.ndp.payload = config.ndp.payload.saturating_sub(sealing_overhead).max(1);
        // Pulls are paced by what a symbol takes of the link.
        config.scdp.overhead_per_symbol += u32::from(sealing_overhead);
        config.ndp.overhead_per_packet += u32::from(sealing_overhead);
        let mut loops = Builder::open_all(&config, control)?;
        let scdp = loops.iter_mut().map(|one| scdp::add(one, &config)).collect();
        let lttp = loops.iter_mut().map(|one| lttp::add(one, &config)).collect();
        let ndp = loops.iter_mut().map(|one| ndp::add(one, &config)).collect();
        let shared = loops.iter().map(|one| Arc::clone(one.shared())).collect();
        let handle = DriverHandle {
            shared: EachLoop::new(shared),
            scdp: EachLoop::new(scdp),
            lttp: lttp::LttpHandle::new(EachLoop::new(lttp)),
            ndp: ndp::NdpHandle::new(EachLoop::new(ndp), config.ndp.payload),
            sealing_overhead,
            ports: config.ports,
        };
        Ok((loops, handle))
    }

    /// A handle of it.
    pub fn handle(&self) -> DriverHandle {
        self.handle.clone()
    }

    /// The address the driver's socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.handle.local_addr()
    }

    /// Closes the sessions, waits for their writes and for the threads.
    pub fn shut_down(self) {}
}

/// A driver whose thread is not started: what its handles ask for is looked at instead.
#[cfg(any(test, feature = "fuzzing"))]
pub struct Unattended {
    builder: Builder,
    handle: DriverHandle,
}

#[cfg(any(test, feature = "fuzzing"))]
impl Unattended {
    /// One at loopback.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn new() -> Result<Self, StartError> {
        let mut config = DriverConfig::new(([127, 0, 0, 1], 0).into());
        (config.workers, config.trim_taps) = (1, crate::TrimTaps::Off);
        let (mut loops, handle) = Driver::open(config, Box::new(|_| true))?;
        Ok(Unattended { builder: loops.remove(0), handle })
    }

    /// A handle of it.
    pub fn handle(&self) -> DriverHandle {
        self.handle.clone()
    }

    /// Control messages that were to be sent.
    pub fn replies(&mut self) -> Vec<OutgoingControl> {
        self.builder.take_control()
    }

    /// All sessions fail that were asked for.
    pub fn fail_sessions(&mut self) {
        self.builder.fail_sessions();
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("local_addr", &self.local_addr()).finish()
    }
}
