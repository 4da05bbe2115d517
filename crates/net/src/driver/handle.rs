//! The side of a driver that the rest of the program holds.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc;

use wellspring_core::SessionId;
use wellspring_transport::scdp::{ObjectInfo, Resume, Share};
use wellspring_wire::scdp::Mode;

use super::progress::SessionProgress;
use super::statistics::Statistics;
use super::{EventSink, Shared};
use crate::payload::{ObjectSink, ObjectSource};
use crate::socket::Interface;

/// To whom an object is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recipients {
    /// One host; one of several senders if the share says so.
    One {
        /// The receiver's address.
        receiver: SocketAddr,
        /// This sender's share: [`Share::WHOLE`] in a one-to-one session.
        share: Share,
    },
    /// Several hosts that receive the same symbols.
    Many {
        /// The multicast group and port the symbols go to; without one, every symbol is sent to
        /// each member by unicast.
        group: Option<SocketAddr>,
        /// The members' own addresses, from which their pulls come.
        members: Vec<SocketAddr>,
    },
}

/// Asks a driver to send an object.
pub struct SendObject {
    /// The session, not in use at this host.
    pub session: SessionId,
    /// What is sent.
    pub object: ObjectInfo,
    /// The object's digest (BLAKE3), announced with the first symbols.
    pub digest: [u8; 32],
    /// Where its bytes come from.
    pub source: Arc<dyn ObjectSource>,
    /// To whom.
    pub to: Recipients,
    /// Symbols pushed unasked \[packets\].
    pub initial_window: u8,
    /// Takes up an earlier sender's work; `None` for a new session.
    pub resume: Option<Resume>,
}

/// Asks a driver to expect an object.
pub struct ReceiveObject {
    /// The session, not in use at this host.
    pub session: SessionId,
    /// What is received.
    pub object: ObjectInfo,
    /// The object's digest (BLAKE3). A sender that announces another one is refused before any
    /// symbol of it is used. The bytes themselves are checked by whoever owns the sink.
    pub digest: [u8; 32],
    /// How it is sent.
    pub mode: Mode,
    /// The senders' addresses, in the order of their shares.
    pub senders: Vec<SocketAddr>,
    /// Initial window of each sender \[packets\].
    pub initial_window: u8,
    /// Where the bytes go.
    pub sink: Arc<dyn ObjectSink>,
}

/// A control message that goes out by the driver's socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingControl {
    /// Where to.
    pub to: SocketAddr,
    /// The local address to send from (an answer comes from where the question went), if it
    /// matters.
    pub local: Option<IpAddr>,
    /// The datagram. The low nibble of its first byte is its kind, 8 or above; at most
    /// [`MAX_CONTROL_LEN`] bytes.
    pub bytes: Vec<u8>,
}

/// Bytes of a control message, at most: fits any path without fragments.
pub const MAX_CONTROL_LEN: usize = 1_200;

/// Why a driver did not take a request. Refusals by the protocol come as the session's
/// [`Failed`](super::SessionEvent::Failed) event instead.
#[derive(Debug)]
#[non_exhaustive]
pub enum HandleError {
    /// The driver has stopped.
    Stopped,
    /// Too many control messages wait to be sent.
    Busy,
    /// Not a control message: see [`OutgoingControl::bytes`].
    NotControl {
        /// Its length \[bytes\].
        len: usize,
    },
    /// The group cannot be joined.
    Group(io::Error),
}

impl fmt::Display for HandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandleError::Stopped => f.write_str("the driver has stopped"),
            HandleError::Busy => f.write_str("too many control messages wait to be sent"),
            HandleError::NotControl { len } => write!(
                f,
                "not a control message: {len} bytes (limit {MAX_CONTROL_LEN}), or a kind below 8"
            ),
            HandleError::Group(error) => write!(f, "cannot join the multicast group: {error}"),
        }
    }
}

impl std::error::Error for HandleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HandleError::Group(error) => Some(error),
            _ => None,
        }
    }
}

/// What crosses from the handles to the loop.
pub(crate) enum Request {
    Send(Box<SendObject>, EventSink, SessionProgress),
    Receive(Box<ReceiveObject>, EventSink, SessionProgress),
    SenderBack { session: SessionId, sender: SocketAddr, epoch: u8 },
    Cancel { session: SessionId },
    Control(OutgoingControl),
    GroupJoined { group: SocketAddr, socket: crate::socket::UdpSocket },
    GroupLeft { group: SocketAddr },
    ResumePoint { session: SessionId, reply: mpsc::SyncSender<Option<(u32, u32)>> },
    Statistics(mpsc::SyncSender<Statistics>),
    Shutdown,
}

/// A handle of a running driver. Clones speak to the same driver, from any thread; no method
/// waits for the network. [`statistics`](DriverHandle::statistics) and
/// [`resume_point`](DriverHandle::resume_point) wait for the loop: never call them from an event
/// sink, which runs on it.
#[derive(Clone)]
pub struct DriverHandle {
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for DriverHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverHandle").field("local_addr", &self.local_addr()).finish()
    }
}

impl DriverHandle {
    /// The address the driver's socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.local_addr
    }

    /// Sends an object. What becomes of it comes as events, ending with exactly one of
    /// [`Sent`](super::SessionEvent::Sent) and [`Failed`](super::SessionEvent::Failed), after
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
        let progress = SessionProgress::new(request.object.transfer_len);
        self.shared.ask(Request::Send(Box::new(request), events, progress.clone()))?;
        Ok(progress)
    }

    /// Expects an object. What becomes of it comes as events, ending with exactly one of
    /// [`Received`](super::SessionEvent::Received) (all its bytes are with the sink) and
    /// [`Failed`](super::SessionEvent::Failed) (the sink is called no more), after which both
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
        let progress = SessionProgress::new(request.object.transfer_len);
        self.shared.ask(Request::Receive(Box::new(request), events, progress.clone()))?;
        Ok(progress)
    }

    /// Tells a receive session that a sender given up for lost is back and numbers its packets
    /// in a new epoch (that of its [`Resume`]). The sender must be one of the session's own.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn sender_back(
        &self,
        session: SessionId,
        sender: SocketAddr,
        epoch: u8,
    ) -> Result<(), HandleError> {
        self.shared.ask(Request::SenderBack { session, sender, epoch })
    }

    /// Ends a session and tells its peers. Its last event is `Failed` with
    /// [`Cancelled`](super::Failure::Cancelled), once no worker touches its sink any more; a
    /// session not open here is passed over.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn cancel(&self, session: SessionId) -> Result<(), HandleError> {
        self.shared.ask(Request::Cancel { session })
    }

    /// Of a receive session: the lowest block not complete and the lowest block nobody was asked
    /// for yet. What a sender that takes over is told in its [`Resume`] (as `floor` and
    /// `horizon`). `None` if no such session is open. Waits for one turn of the loop.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn resume_point(&self, session: SessionId) -> Result<Option<(u32, u32)>, HandleError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.shared.ask(Request::ResumePoint { session, reply })?;
        answer.recv().map_err(|_| HandleError::Stopped)
    }

    /// Sends a control message. Like any datagram it may be lost.
    ///
    /// # Errors
    /// [`HandleError::NotControl`], [`HandleError::Busy`] or [`HandleError::Stopped`].
    pub fn send_control(&self, message: OutgoingControl) -> Result<(), HandleError> {
        let kind = message.bytes.first().map_or(0, |first| first & 0x0f);
        let len = message.bytes.len();
        if kind < FIRST_CONTROL_KIND || len > MAX_CONTROL_LEN {
            return Err(HandleError::NotControl { len });
        }
        if !self.shared.reserve_control() {
            return Err(HandleError::Busy);
        }
        self.shared.ask(Request::Control(message))
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

    /// A snapshot of the driver's counters. Waits for one turn of the loop (commonly well under
    /// a millisecond).
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub fn statistics(&self) -> Result<Statistics, HandleError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.shared.ask(Request::Statistics(reply))?;
        answer.recv().map_err(|_| HandleError::Stopped)
    }

    /// Asks the driver to close its sessions and stop; does not wait for it. Sessions still open
    /// fail with [`Stopped`](super::Failure::Stopped).
    pub fn shut_down(&self) {
        // A driver that has stopped already is what was asked for.
        let _ = self.shared.ask(Request::Shutdown);
    }
}

/// Kinds of packets from this one on are control messages.
pub(crate) const FIRST_CONTROL_KIND: u8 = 8;
