//! Calls to a running driver of all protocols, and to which of its loops they go.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use wellspring_core::{Duration, Rate, SessionId};
use wellspring_transport::scdp::ReceiveStats;
use wellspring_trust::Keyring;

use super::lttp::LttpHandle;
use super::ndp::NdpHandle;
use super::scdp::{Account, At, Call, ReceiveObject, Scdp, SendObject};
use crate::protocol::Opening;
use crate::socket::Interface;
use crate::{
    Call as ToLoop, EachLoop, EventSink, GroupKeyCall, GroupKeyChange, HandleError,
    OutgoingControl, ProtocolHandle, SessionProgress, Shared, Statistics, Steering,
};

/// A handle of a running driver. Clones speak to the same driver, from any thread; no method
/// waits for the network. Where the driver has several loops, a call that names a host is one to the host's loop, and one
/// that names a session alone is one to all of them: the session's number must be none of another host's either. [`statistics`](DriverHandle::statistics) and
/// [`resume_point`](DriverHandle::resume_point) wait for the loop: never call them from an event
/// sink, which runs on it.
#[derive(Clone)]
pub struct DriverHandle {
    pub(super) shared: EachLoop<Arc<Shared>>,
    pub(super) scdp: EachLoop<ProtocolHandle<Scdp>>,
    pub(super) lttp: LttpHandle,
    pub(super) ndp: NdpHandle,
    pub(super) sealing_overhead: u16,
    pub(super) ports: u8,
}

impl fmt::Debug for DriverHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverHandle").field("local_addr", &self.local_addr()).finish()
    }
}

impl DriverHandle {
    /// A way to NDP's endpoint.
    pub fn ndp(&self) -> NdpHandle {
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
    pub fn lttp(&self) -> LttpHandle {
        self.lttp.clone()
    }

    /// The address the driver's socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.first().local_addr
    }

    /// How hosts are dealt to the driver's loops.
    pub fn steering(&self) -> Steering {
        self.shared.steering()
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
        self.open(request.opening(events))
    }

    fn open(&self, opening: Opening<Scdp>) -> Result<SessionProgress, HandleError> {
        // That loop refuses a session that names hosts of others, too.
        let first = opening.peers.first();
        first.map_or(self.scdp.first(), |host| self.scdp.of(*host)).open(opening)
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
        self.open(request.opening(events))
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
        self.scdp.of(sender).call(Call::SenderBack { session, sender, epoch })
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
        self.wait(session, peer_timeout, false)
    }

    fn wait(
        &self,
        session: SessionId,
        peer_timeout: Duration,
        win_back: bool,
    ) -> Result<(), HandleError> {
        self.scdp.ask_all(|scdp| scdp.call(Call::Wait { session, peer_timeout, win_back }))
    }

    /// Has a send session serve a member of its group by unicast.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn detach(&self, session: SessionId, receiver: SocketAddr) -> Result<(), HandleError> {
        self.scdp.of(receiver).call(Call::Detach { session, receiver })
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
        self.wait(session, peer_timeout, true)
    }

    /// Has a session use another path to a peer, which it knows by `peer`. Not done where the peer has shown an address that
    /// is another loop's.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn add_path(
        &self,
        session: SessionId,
        (peer, at): (SocketAddr, At),
        path: u16,
    ) -> Result<(), HandleError> {
        if let At::Shown(address) = at
            && !self.is_in_same_loop(peer, address)
        {
            return Ok(());
        }
        self.scdp.of(peer).call(Call::AddPath { session, peer, path, at })
    }

    /// A peer, which sessions know by one address, has shown that it is at another now, as behind a NAT that has
    /// forgotten it. Not done where that address is another peer's, or another loop's.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn move_peer(&self, from: SocketAddr, to: SocketAddr) -> Result<(), HandleError> {
        if !self.is_in_same_loop(from, to) {
            return Ok(());
        }
        self.scdp.of(from).call(Call::MovePeer { from, to })
    }

    /// Whether a host that speaks from another address, too, is in the same loop by both.
    fn is_in_same_loop(&self, one: SocketAddr, other: SocketAddr) -> bool {
        let steering = self.steering();
        let is_same = steering.of(one.ip()) == steering.of(other.ip());
        if !is_same {
            tracing::debug!(%one, %other, "two addresses of a peer are of two loops");
        }
        is_same
    }

    /// Opens ports until there are so many, at most [`MAX_PORTS`](crate::MAX_PORTS): beside those that lead to every
    /// host, ports for [further addresses](At::Other) of hosts. One that cannot be opened is missing, and nothing
    /// is sent by it.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn open_ports(&self, count: u8) -> Result<(), HandleError> {
        self.shared.ask_all(|shared| shared.ask(ToLoop::OpenPorts(count)))
    }

    /// A host has answered by that port of the driver's, which is its path 0 from now on.
    pub fn set_first_port(&self, host: SocketAddr, port: u8) {
        self.shared.of(host).firsts.set(host, port);
    }

    /// Has a receive session check its blocks again whose sink could not tell whether they are
    /// right ([`Check::Unknown`](crate::store::Check::Unknown)).
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn check_again(&self, session: SessionId) -> Result<(), HandleError> {
        self.scdp.ask_all(|scdp| scdp.check_again(session))
    }

    /// Has a receive session go on without one of its senders, if it can; what is left of that
    /// sender's symbols is used only where it proves right.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn exclude(&self, session: SessionId, sender: SocketAddr) -> Result<(), HandleError> {
        self.scdp.of(sender).exclude(session, sender)
    }

    /// Ends a session and tells its peers. Its last event is `Failed` with
    /// [`Cancelled`](crate::Failure::Cancelled), once no worker touches its sink any more; a
    /// session not open here is passed over.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn cancel(&self, session: SessionId) -> Result<(), HandleError> {
        self.scdp.ask_all(|scdp| scdp.cancel(session))
    }

    /// Of a receive session: the lowest block not complete and the lowest block nobody was asked
    /// for yet. What a sender that takes over is told in its [`Resume`](wellspring_transport::scdp::Resume) (as `floor` and
    /// `horizon`). `None` if no such session is open. Waits for one turn of the loop.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn resume_point(&self, session: SessionId) -> Result<Option<(u32, u32)>, HandleError> {
        for scdp in self.scdp.iter() {
            let (reply, answer) = mpsc::sync_channel(1);
            scdp.call(Call::ResumePoint { session, reply })?;
            if let Some(point) = answer.recv().map_err(|_| HandleError::Stopped)? {
                return Ok(Some(point));
            }
        }
        Ok(None)
    }

    /// Asks for the account of a receive session so far. Does not wait: the answer comes with a turn of the loop, and the
    /// channel's end instead of it if no such session is open.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn receive_stats(
        &self,
        session: SessionId,
    ) -> Result<mpsc::Receiver<ReceiveStats>, HandleError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.scdp.ask_all(|scdp| scdp.call(Call::Account { session, reply: reply.clone() }))?;
        Ok(answer)
    }

    /// What each of these sessions has sent or received so far; `None` for one that is not open. Waits for one turn of
    /// the loop.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn accounts(&self, sessions: Vec<SessionId>) -> Result<Vec<Option<Account>>, HandleError> {
        let ask = |scdp: &ProtocolHandle<Scdp>| {
            let ((reply, answer), sessions) = (mpsc::sync_channel(1), sessions.clone());
            scdp.call(Call::Accounts { sessions, reply }).map(|()| answer)
        };
        let mut merged = vec![None; sessions.len()];
        // All work on their answers at one time.
        for answer in self.scdp.iter().map(ask).collect::<Result<Vec<_>, _>>()? {
            let accounts = answer.recv().map_err(|_| HandleError::Stopped)?;
            for (known, account) in merged.iter_mut().zip(accounts) {
                *known = known.take().or(account);
            }
        }
        Ok(merged)
    }

    /// Sends a control message. Like any datagram it may be lost.
    ///
    /// # Errors
    /// [`HandleError::NotControl`], [`HandleError::Busy`] or [`HandleError::Stopped`].
    pub fn send_control(&self, message: OutgoingControl) -> Result<(), HandleError> {
        self.shared.of(message.to).send_control(message)
    }

    /// Receives what a host sends to a multicast group and port from now on; other hosts of its loop are heard there, too.
    /// Joins are counted: the group is left when [`leave_group`](DriverHandle::leave_group) has been called as often.
    /// `interface` defaults to the driver's own multicast interface.
    ///
    /// # Errors
    /// [`HandleError::Group`] if the system refuses or too many groups are joined;
    /// [`HandleError::Stopped`].
    pub fn join_group(
        &self,
        (group, sender): (SocketAddr, SocketAddr),
        interface: Option<&Interface>,
    ) -> Result<(), HandleError> {
        self.shared.of(sender).join_group(group, interface)
    }

    /// Undoes one [`join_group`](DriverHandle::join_group) for that sender.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn leave_group(&self, group: SocketAddr, sender: SocketAddr) -> Result<(), HandleError> {
        self.shared.of(sender).leave_group(group)
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
        if !address.ip().is_multicast() {
            return self.shared.of(address).group_key(GroupKeyCall { address, session, what });
        }
        // Which hosts it is sent to by way of the group, its session says.
        self.shared.ask_all(|shared| {
            shared.group_key(GroupKeyCall { address, session, what: what.clone() })
        })
    }

    /// Uses other keys from now on, without an end of any transfer; the owner of a key that is not trusted any more
    /// begins none. Of no effect in a driver without keys.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn set_keyring(&self, keyring: Arc<Keyring>) -> Result<(), HandleError> {
        let call = || ToLoop::SetKeyring(Arc::clone(&keyring));
        self.shared.ask_all(|shared| shared.ask(call()))
    }

    /// Sends no faster than this from now on, over all sessions.
    ///
    /// # Errors
    /// [`HandleError::RateOfLoops`] if there are several loops, none of which could keep a rate for all;
    /// [`HandleError::Stopped`].
    pub fn set_send_rate(&self, rate: Option<Rate>) -> Result<(), HandleError> {
        if rate.is_some() && self.steering() != Steering::ONE {
            return Err(HandleError::RateOfLoops);
        }
        self.shared.ask_all(|shared| shared.ask(ToLoop::SetSendRate(rate)))
    }

    /// Paces the pulls of all SCDP sessions, or of all those in one loop, for a link of that rate from now on, as
    /// [`link_rate`](wellspring_transport::scdp::Config::link_rate) does from the start.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn set_link_rate(&self, rate: Rate) -> Result<(), HandleError> {
        self.scdp.ask_all(|scdp| scdp.call(Call::LinkRate(rate)))
    }

    /// A snapshot of the driver's counters, of all loops together. Waits for one turn of the loop (commonly well under
    /// a millisecond).
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn statistics(&self) -> Result<Statistics, HandleError> {
        let mut loops = self.statistics_by_loop()?.into_iter();
        let first = loops.next().unwrap_or_default();
        Ok(loops.fold(first, |mut all, one| {
            all.add(one);
            all
        }))
    }

    /// As [`statistics`](DriverHandle::statistics), of each loop.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn statistics_by_loop(&self) -> Result<Vec<Statistics>, HandleError> {
        let asked = self.shared.iter().map(|shared| shared.statistics());
        // All work on their answers at one time.
        let answers = asked.collect::<Result<Vec<_>, _>>()?;
        answers.into_iter().map(|answer| answer.recv().map_err(|_| HandleError::Stopped)).collect()
    }
}
