//! Events of a driver's sessions.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::socket::Unreached;
use wellspring_transport::FailReason;
use wellspring_transport::scdp::{self, ReceiveStats, SendStats, StragglerAction, StragglerCause};
use wellspring_trust::{ChannelId, Identity, PublicKey};
use wellspring_wire::scdp::CloseReason;

/// Where a session's events go: called on the driver's thread, must not wait, dropped after the
/// last event.
pub type EventSink<R = ReceiveStats, S = SendStats> = Box<dyn FnMut(SessionEvent<R, S>) + Send>;

/// Where control messages go: called on the driver's thread, must not wait. Returns false if the
/// message could not be taken (its queue is full), which is counted.
pub type ControlSink = Box<dyn FnMut(ControlMessage) -> bool + Send>;

/// A datagram of no protocol's sessions: its kind (low nibble of the first byte) is 8 or above.
/// Nothing about it has been checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlMessage {
    /// The address that it claims to come from.
    pub from: SocketAddr,
    /// The local address it was sent to, where the system tells.
    pub local: Option<IpAddr>,
    /// Which of the driver's ports it was sent to.
    pub port: u8,
    /// The traffic class that it came with: DSCP and ECN.
    pub class: u8,
    /// The datagram; empty if there was none, but `from` is not reached, or keys are in the way.
    pub bytes: Vec<u8>,
    /// Who has sent it, of drivers that have keys.
    pub peer: Option<PeerChannel>,
    /// Why keys are in the way of what was to be sent to `from`.
    pub trouble: Option<KeyTrouble>,
    /// Why what was sent to `from` does not get there, as the network or this host says.
    pub unreached: Option<Unreached>,
}

/// Who a channel leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerChannel {
    /// The owner of the key at its other end.
    pub identity: Arc<Identity>,
    /// The channel, by which an answer is to leave.
    pub channel: ChannelId,
}

/// Why a request does not reach a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeyTrouble {
    /// The server refuses our handshake.
    Refused {
        /// Why.
        reason: wellspring_trust::Refusal,
        /// Our own key, which it was shown, if we have one.
        own: Option<PublicKey>,
    },
    /// The server has a key that is not trusted here.
    UnknownServer(PublicKey),
    /// No key that is trusted here can be the server's.
    NoServerKey,
    /// The request is too long to be sealed.
    TooLong,
}

impl fmt::Display for KeyTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use wellspring_trust::Refusal;
        match self {
            KeyTrouble::Refused { reason: Refusal::NotTrusted, own: Some(own) } => write!(
                f,
                "it does not trust this host's key; there: wellspring key trust NAME {own} --read"
            ),
            KeyTrouble::Refused { reason: Refusal::NotTrusted, .. } => {
                f.write_str("it does not trust this host's key")
            }
            KeyTrouble::Refused { reason: Refusal::WrongKey, .. } => {
                f.write_str("it has another key than the one trusted here for it")
            }
            KeyTrouble::Refused { reason: Refusal::NoKeys, .. } => {
                f.write_str("it runs without keys (--insecure), and this host has keys")
            }
            KeyTrouble::Refused { reason: Refusal::AddressInUse, .. } => f.write_str(
                "it speaks with another key at this host's address; try again in a minute",
            ),
            KeyTrouble::Refused { .. } => f.write_str("it refuses the handshake"),
            KeyTrouble::UnknownServer(key) => write!(
                f,
                "its key is not trusted here; if it should be: wellspring key trust NAME {key} --serve"
            ),
            KeyTrouble::NoServerKey => f.write_str(
                "no key is trusted here to serve there (wellspring key trust NAME KEY --serve)",
            ),
            KeyTrouble::TooLong => f.write_str("the object's name is too long to be sent sealed"),
        }
    }
}

/// What happens in a session. Progress by blocks is not an event: see
/// [`SessionProgress`](crate::SessionProgress). The accounts are the protocol's: SCDP's unless
/// another is named.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionEvent<R = ReceiveStats, S = SendStats> {
    /// The last event of a receive session: all bytes are with the sink, every write returned.
    Received {
        /// The protocol's counters.
        stats: R,
        /// The addresses of the senders, in the order of the counters if they are listed there.
        senders: Vec<SocketAddr>,
    },
    /// The last event of a send session: every receiver finished or was lost (told before).
    Sent {
        /// The protocol's counters.
        stats: S,
    },
    /// The last event of a session that did not succeed. No worker touches its source or sink
    /// any more.
    Failed(Failure),
    /// A receive session goes on without this sender.
    SenderLost {
        /// The sender.
        sender: SocketAddr,
        /// Closed by the sender, or silent (`None`).
        reason: Option<CloseReason>,
    },
    /// A sender announced other bytes than agreed. It was refused before its symbols mixed with
    /// others'; the session goes on without it, if it can.
    SenderRefused {
        /// The sender.
        sender: SocketAddr,
        /// The digest it announced.
        announced: [u8; 32],
    },
    /// A sender's symbols were altered, by it or on their way; the block was put right by others.
    SymbolsAltered {
        /// The sender.
        sender: SocketAddr,
        /// How many symbols.
        symbols: u32,
        /// It altered more than can come of damage on the way: the session goes on without it, if
        /// it can.
        excluded: bool,
    },
    /// This receiver was taken out of its group and is served by unicast: leave the group.
    MovedToUnicast,
    /// A block was wrong, or a symbol announced other bytes, and any member of the group could have forged it: no more are
    /// taken from the group. The sender is to go on by unicast.
    LeftGroup,
    /// A receiver has all it wanted.
    ReceiverFinished {
        /// The receiver.
        receiver: SocketAddr,
    },
    /// A receiver of a send session is gone.
    ReceiverLost {
        /// The receiver.
        receiver: SocketAddr,
        /// Closed by the receiver, or silent (`None`).
        reason: Option<CloseReason>,
    },
    /// A receiver holds up its group.
    Straggler {
        /// The receiver.
        receiver: SocketAddr,
        /// How far its lowest incomplete block lies behind the fastest receiver's \[symbols\].
        symbols_behind: u64,
        /// Why it counts as one.
        cause: StragglerCause,
        /// What was done.
        action: StragglerAction,
    },
}

impl<R, S> SessionEvent<R, S> {
    /// Whether it is the session's last.
    pub fn is_last(&self) -> bool {
        matches!(
            self,
            SessionEvent::Received { .. } | SessionEvent::Sent { .. } | SessionEvent::Failed(_)
        )
    }
}

/// Why a session did not succeed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The session was refused, by the driver ([`Refusal`]) or by the protocol; nothing was sent.
    Refused(Box<dyn Error + Send + Sync>),
    /// More peers than the driver's table holds: the limit \[peers\].
    TooManyPeers(usize),
    /// Every sender is gone (or, at a sender, every receiver).
    PeersLost,
    /// The peer closed it, and said why if the protocol lets it.
    Closed(Option<CloseReason>),
    /// Credits or symbols of a block are used up: the object does not arrive.
    Exhausted,
    /// Bytes of a block are not the object's, whichever senders' symbols it is made of.
    Altered,
    /// Cancelled here.
    Cancelled,
    /// The bytes to send could not be read.
    Read(io::Error),
    /// The bytes received could not be written.
    Write(io::Error),
    /// The driver stopped.
    Stopped,
}

impl From<scdp::FailReason> for Failure {
    fn from(reason: scdp::FailReason) -> Self {
        match reason {
            scdp::FailReason::Closed(reason) => Failure::Closed(Some(reason)),
            scdp::FailReason::Exhausted => Failure::Exhausted,
            _ => Failure::PeersLost,
        }
    }
}

impl From<FailReason> for Failure {
    fn from(reason: FailReason) -> Self {
        match reason {
            FailReason::PeerLost => Failure::PeersLost,
            FailReason::Closed => Failure::Closed(None),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(error) => write!(f, "refused: {error}"),
            Failure::TooManyPeers(limit) => write!(f, "more than {limit} peers"),
            Failure::PeersLost => f.write_str("every peer is gone"),
            Failure::Closed(Some(reason)) => write!(f, "closed by the peer: {reason:?}"),
            Failure::Closed(None) => f.write_str("closed by the peer"),
            Failure::Exhausted => f.write_str("symbols used up before the object was complete"),
            Failure::Altered => f.write_str("no sender's symbols make the object's bytes"),
            Failure::Cancelled => f.write_str("cancelled"),
            Failure::Read(error) => write!(f, "cannot read the object: {error}"),
            Failure::Write(error) => write!(f, "cannot write the object: {error}"),
            Failure::Stopped => f.write_str("the driver stopped"),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failure::Refused(error) => Some(&**error),
            Failure::Read(error) | Failure::Write(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a driver does not open a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// A limit of the driver would be passed.
    OverLimit {
        /// Which.
        what: &'static str,
        /// What was asked for.
        got: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The request contradicts itself, or the driver's socket.
    Invalid(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::OverLimit { what, got, limit } => {
                write!(f, "{what} is {got}, the limit {limit}")
            }
            Refusal::Invalid(why) => f.write_str(why),
        }
    }
}

impl Error for Refusal {}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Refused(Box::new(refusal))
    }
}
