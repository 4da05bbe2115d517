//! Protocols on the driver, and the driver that runs them all on one socket.

mod complete;
pub mod lttp;
pub mod ndp;
mod scdp;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use wellspring_core::{Duration, Rate, SessionId};
use wellspring_transport::scdp::ReceiveStats;
use wellspring_trust::Keyring;

use crate::socket::Interface;
use crate::{
    Builder, Call, ControlSink, DriverConfig, EventSink, GroupKeyCall, GroupKeyChange, HandleError,
    OutgoingControl, ProtocolHandle, RunningDriver, SessionProgress, Shared, StartError,
    Statistics,
};

/// Largest symbol that a datagram holds, headers included \[bytes\].
pub const MAX_SYMBOL_SIZE: u16 = 65_507 - 72;

pub use scdp::{Account, At, ReceiveObject, Recipients, SendObject};

/// A running driver: a UDP socket, the thread that runs its protocols, and workers. Dropping it
/// closes its sessions and waits for its threads.
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
        let (builder, handle) = Self::open(config, control)?;
        Ok(Driver { handle, _running: builder.start()? })
    }

    /// Opens the socket, and starts nothing but the workers.
    fn open(
        mut config: DriverConfig,
        control: ControlSink,
    ) -> Result<(Builder, DriverHandle), StartError> {
        config.check()?;
        config.scdp.paths = config.scdp.paths.max(config.ports.into());
        let sealing_overhead = config.sealing_overhead();
        config.ndp.payload = config.ndp.payload.saturating_sub(sealing_overhead).max(1);
        // Pulls are paced by what a symbol takes of the link.
        config.scdp.overhead_per_symbol += u32::from(sealing_overhead);
        config.ndp.overhead_per_packet += u32::from(sealing_overhead);
        let mut builder = Builder::open(config.clone(), control)?;
        let scdp = scdp::add(&mut builder, &config);
        let lttp = lttp::add(&mut builder, &config);
        let ndp = ndp::add(&mut builder, &config);
        let shared = Arc::clone(builder.shared());
        let ports = config.ports;
        Ok((builder, DriverHandle { shared, scdp, lttp, ndp, sealing_overhead, ports }))
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
        let (builder, handle) = Driver::open(config, Box::new(|_| true))?;
        Ok(Unattended { builder, handle })
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

/// A handle of a running driver. Clones speak to the same driver, from any thread; no method
/// waits for the network. [`statistics`](DriverHandle::statistics) and
/// [`resume_point`](DriverHandle::resume_point) wait for the loop: never call them from an event
/// sink, which runs on it.
#[derive(Clone)]
pub struct DriverHandle {
    shared: Arc<Shared>,
    scdp: ProtocolHandle<scdp::Scdp>,
    lttp: lttp::LttpHandle,
    ndp: ndp::NdpHandle,
    sealing_overhead: u16,
    ports: u8,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("local_addr", &self.local_addr()).finish()
    }
}

impl fmt::Debug for DriverHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverHandle").field("local_addr", &self.local_addr()).finish()
    }
}

impl DriverHandle {
    /// A way to NDP's endpoint.
    pub fn ndp(&self) -> ndp::NdpHandle {
        self.ndp.clone()
    }

    /// What sealing adds to each datagram \[bytes\]: 0 without keys.
    pub fn sealing_overhead(&self) -> u16 {
        self.sealing_overhead
    }

    /// Ports that lead to every host.
    pub fn ports(&self) -> u8 {
        self.ports
    }

    /// A way to LTTP's endpoint.
    pub fn lttp(&self) -> lttp::LttpHandle {
        self.lttp.clone()
    }

    /// The address the driver's socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.local_addr
    }

    /// Sends an object. What becomes of it comes as events, ending with exactly one of
    /// [`Sent`](crate::SessionEvent::Sent) and [`Failed`](crate::SessionEvent::Failed), after
    /// which the sink is dropped; a refused command fails at once.
    ///
    /// `events` is called on the driver's thread and must not wait: hand the event to a channel.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn send_object(
        &self,
        request: SendObject,
        events: EventSink,
    ) -> Result<SessionProgress, HandleError> {
        self.scdp.open(request.opening(events))
    }

    /// Expects an object. What becomes of it comes as events, ending with exactly one of
    /// [`Received`](crate::SessionEvent::Received) (all its bytes are with the sink) and
    /// [`Failed`](crate::SessionEvent::Failed) (the sink is called no more), after which both
    /// sinks are dropped; a refused command fails at once.
    ///
    /// `events` is called on the driver's thread and must not wait: hand the event to a channel.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn receive_object(
        &self,
        request: ReceiveObject,
        events: EventSink,
    ) -> Result<SessionProgress, HandleError> {
        self.scdp.open(request.opening(events))
    }

    /// Tells a receive session that a sender given up for lost is back and numbers its packets
    /// in a new epoch (that of its [`Resume`](wellspring_transport::scdp::Resume)). The sender must be one of the session's own.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn sender_back(
        &self,
        session: SessionId,
        sender: SocketAddr,
        epoch: u8,
    ) -> Result<(), HandleError> {
        self.scdp.call(scdp::Call::SenderBack { session, sender, epoch })
    }

    /// Has a session wait for silent peers for so long instead of the protocol's own
    /// `peer_timeout`: for as long as its peer waits. A session not open here is passed over.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn wait_for_peers(
        &self,
        session: SessionId,
        peer_timeout: Duration,
    ) -> Result<(), HandleError> {
        self.scdp.call(scdp::Call::Wait { session, peer_timeout, win_back: false })
    }

    /// Has a send session serve a member of its group by unicast.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn detach(&self, session: SessionId, receiver: SocketAddr) -> Result<(), HandleError> {
        self.scdp.call(scdp::Call::Detach { session, receiver })
    }

    /// As [`wait_for_peers`](DriverHandle::wait_for_peers), for a receive session whose senders are
    /// won back when they are lost: it outlives for so long, too, that all have closed it.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn wait_for_return(
        &self,
        session: SessionId,
        peer_timeout: Duration,
    ) -> Result<(), HandleError> {
        self.scdp.call(scdp::Call::Wait { session, peer_timeout, win_back: true })
    }

    /// Has a session use another path to a peer, which it knows by `peer`.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn add_path(
        &self,
        session: SessionId,
        (peer, at): (SocketAddr, At),
        path: u16,
    ) -> Result<(), HandleError> {
        self.scdp.call(scdp::Call::AddPath { session, peer, path, at })
    }

    /// A peer, which sessions know by one address, has shown that it is at another now, as behind a NAT that has
    /// forgotten it. Not done where that address is another peer's.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn move_peer(&self, from: SocketAddr, to: SocketAddr) -> Result<(), HandleError> {
        self.scdp.call(scdp::Call::MovePeer { from, to })
    }

    /// Opens ports until there are so many, at most [`MAX_PORTS`](crate::MAX_PORTS): beside those that lead to every
    /// host, ports for [further addresses](At::Other) of hosts. One that cannot be opened is missing, and nothing
    /// is sent by it.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn open_ports(&self, count: u8) -> Result<(), HandleError> {
        self.shared.ask(Call::OpenPorts(count))
    }

    /// A host has answered by that port of the driver's, which is its path 0 from now on.
    pub fn set_first_port(&self, host: SocketAddr, port: u8) {
        self.shared.firsts.set(host, port);
    }

    /// Has a receive session check its blocks again whose sink could not tell whether they are
    /// right ([`Check::Unknown`](crate::store::Check::Unknown)).
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn check_again(&self, session: SessionId) -> Result<(), HandleError> {
        self.scdp.check_again(session)
    }

    /// Has a receive session go on without one of its senders, if it can; what is left of that
    /// sender's symbols is used only where it proves right.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn exclude(&self, session: SessionId, sender: SocketAddr) -> Result<(), HandleError> {
        self.scdp.exclude(session, sender)
    }

    /// Ends a session and tells its peers. Its last event is `Failed` with
    /// [`Cancelled`](crate::Failure::Cancelled), once no worker touches its sink any more; a
    /// session not open here is passed over.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn cancel(&self, session: SessionId) -> Result<(), HandleError> {
        self.scdp.cancel(session)
    }

    /// Of a receive session: the lowest block not complete and the lowest block nobody was asked
    /// for yet. What a sender that takes over is told in its [`Resume`](wellspring_transport::scdp::Resume) (as `floor` and
    /// `horizon`). `None` if no such session is open. Waits for one turn of the loop.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn resume_point(&self, session: SessionId) -> Result<Option<(u32, u32)>, HandleError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.scdp.call(scdp::Call::ResumePoint { session, reply })?;
        answer.recv().map_err(|_| HandleError::Stopped)
    }

    /// Asks for the account of a receive session so far, which is `None` if no such session is open. Does not wait:
    /// the answer comes with a turn of the loop.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn receive_stats(
        &self,
        session: SessionId,
    ) -> Result<mpsc::Receiver<Option<ReceiveStats>>, HandleError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.scdp.call(scdp::Call::Account { session, reply })?;
        Ok(answer)
    }

    /// What each of these sessions has sent or received so far; `None` for one that is not open. Waits for one turn of
    /// the loop.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn accounts(&self, sessions: Vec<SessionId>) -> Result<Vec<Option<Account>>, HandleError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.scdp.call(scdp::Call::Accounts { sessions, reply })?;
        answer.recv().map_err(|_| HandleError::Stopped)
    }

    /// Sends a control message. Like any datagram it may be lost.
    ///
    /// # Errors
    /// [`HandleError::NotControl`], [`HandleError::Busy`] or [`HandleError::Stopped`].
    pub fn send_control(&self, message: OutgoingControl) -> Result<(), HandleError> {
        self.shared.send_control(message)
    }

    /// Receives what is sent to a multicast group and port from now on. Joins are counted: the
    /// group is left when [`leave_group`](DriverHandle::leave_group) has been called as often.
    /// `interface` defaults to the driver's own multicast interface.
    ///
    /// # Errors
    /// [`HandleError::Group`] if the system refuses or too many groups are joined;
    /// [`HandleError::Stopped`].
    pub fn join_group(
        &self,
        group: SocketAddr,
        interface: Option<&Interface>,
    ) -> Result<(), HandleError> {
        self.shared.join_group(group, interface)
    }

    /// Undoes one [`join_group`](DriverHandle::join_group).
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn leave_group(&self, group: SocketAddr) -> Result<(), HandleError> {
        self.shared.leave_group(group)
    }

    /// From now on, or after this one: a key of a session's group.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn group_key(
        &self,
        address: SocketAddr,
        session: SessionId,
        what: GroupKeyChange,
    ) -> Result<(), HandleError> {
        self.shared.group_key(GroupKeyCall { address, session, what })
    }

    /// Uses other keys from now on, without an end of any transfer; the owner of a key that is not trusted any more
    /// begins none. Of no effect in a driver without keys.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn set_keyring(&self, keyring: Arc<Keyring>) -> Result<(), HandleError> {
        self.shared.ask(Call::SetKeyring(keyring))
    }

    /// Sends no faster than this from now on, over all sessions.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn set_send_rate(&self, rate: Option<Rate>) -> Result<(), HandleError> {
        self.shared.ask(Call::SetSendRate(rate))
    }

    /// Paces the pulls of all SCDP sessions for a link of that rate from now on, as
    /// [`link_rate`](wellspring_transport::scdp::Config::link_rate) does from the start.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn set_link_rate(&self, rate: Rate) -> Result<(), HandleError> {
        self.scdp.call(scdp::Call::LinkRate(rate))
    }

    /// A snapshot of the driver's counters. Waits for one turn of the loop (commonly well under
    /// a millisecond).
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn statistics(&self) -> Result<Statistics, HandleError> {
        self.shared.statistics()
    }
}
