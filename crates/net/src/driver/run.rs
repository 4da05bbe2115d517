//! Starting and stopping a driver.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use wellspring_transport::scdp;

use super::clock::Clock;
use super::engine::{Engine, OWN};
use super::event::ControlSink;
use super::faults::Injector;
use super::groups::Groups;
use super::outbox::Outbox;
use super::peers::PeerTable;
use super::receive_store::ReceiveStore;
use super::send_store::SendStore;
use super::sessions::SessionTable;
use super::shared::Shared;
use super::statistics::Statistics;
use super::strangers::CloseBudget;
use super::taps::Taps;
use super::wait::Waiter;
use super::worker::Workers;
use super::{DriverConfig, DriverHandle, TrimTaps};
use crate::socket::UdpSocket;

/// A running driver. Dropping it closes its sessions and waits for its threads.
#[derive(Debug)]
pub struct Driver {
    handle: DriverHandle,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// Opens the socket and starts the threads. Control messages that arrive are given to
    /// `control`.
    ///
    /// # Errors
    /// What the system says: the address is in use, the interface does not exist, no threads.
    pub fn start(config: DriverConfig, control: ControlSink) -> io::Result<Driver> {
        let socket = UdpSocket::bind(&config.socket)?;
        let waiter = Waiter::new()?;
        let waker = waiter.waker();
        let (sender, requests) = mpsc::channel();
        let (done_sender, done) = mpsc::channel();
        let workers = Workers::start(config.workers, &done_sender, &waker)?;
        let local_addr = socket.local_addr();
        let shared = Arc::new(Shared::new(local_addr, sender, waker, config.socket.clone()));
        let mut protocol = config.scdp.clone();
        protocol.host = OWN;
        protocol.accept_unannounced = false;
        let taps = match config.trim_taps {
            TrimTaps::Off => Taps::default(),
            TrimTaps::IfAllowed => Taps::open(local_addr, &waiter).unwrap_or_else(|error| {
                tracing::warn!(
                    "trimmed datagrams will not be seen ({error}): losses are found by timeouts; \
                     run with CAP_NET_RAW to see them"
                );
                Taps::default()
            }),
            TrimTaps::Required => Taps::open(local_addr, &waiter)?,
        };
        let clock = Clock::starting_at(config.clock_start);
        let engine = Engine {
            clock,
            endpoint: scdp::Endpoint::new(protocol),
            chooses_source: local_addr.ip().is_unspecified(),
            socket,
            groups: Groups::new(),
            taps,
            waiter,
            shared: Arc::clone(&shared),
            requests,
            done,
            workers,
            control,
            peers: PeerTable::new(config.peers),
            sessions: SessionTable::default(),
            received: ReceiveStore::new(config.receive_memory),
            to_send: SendStore::new(config.send_memory),
            last_sent_block: None,
            outbox: Outbox::new(),
            targets: Vec::new(),
            held: 0,
            ready: VecDeque::new(),
            injector: Injector::new(config.faults),
            closes: CloseBudget::new(),
            statistics: Statistics::default(),
            blocked: false,
            send_free: None,
            peeked_request: None,
            peeked_done: None,
            last_timeout: clock.now(),
            stopping: false,
            config,
        };
        engine.watch()?;
        let thread = std::thread::Builder::new()
            .name("wellspring-driver".to_owned())
            .spawn(move || engine.run())?;
        Ok(Driver { handle: DriverHandle { shared }, thread: Some(thread) })
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
    pub fn shut_down(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.handle.shut_down();
        if let Some(thread) = self.thread.take() {
            // A panic in the loop has been printed by its thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop();
    }
}
