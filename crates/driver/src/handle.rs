//! Calls to a running driver.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, mpsc};

use wellspring_core::{Rate, SessionId};
use wellspring_trust::{ChannelId, GroupKey, Keyring};
use wellspring_wire::control::MAX_PROBE_LEN;

use crate::event::ControlMessage;
use crate::statistics::Statistics;

/// A control message that goes out by the driver's socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingControl {
    /// Where to.
    pub to: SocketAddr,
    /// By which path: of as many as the driver has ports that lead to every host, 0 the one that is known to lead
    /// there; or by the port of that number that was [opened](crate::protocols::DriverHandle::open_ports) for a
    /// further address.
    pub path: u8,
    /// The port of this host to leave by, whatever the path: of an answer, which comes from where the question went.
    pub port: Option<u8>,
    /// The local address to send from (an answer comes from where the question went), if it
    /// matters.
    pub local: Option<IpAddr>,
    /// The traffic class to send it with, DSCP and ECN; `None`: that of all control messages.
    pub class: Option<u8>,
    /// The datagram. The low nibble of its first byte is its kind, 8 or above; at most
    /// [`MAX_CONTROL_LEN`] bytes.
    pub bytes: Vec<u8>,
    /// The channel to send it by, in answer to what came by it. Without one it is a request, for which a channel is
    /// made if need be. Of no effect in a driver without keys.
    pub via: Option<ChannelId>,
}

impl OutgoingControl {
    /// An answer to what came: from where it went, by the channel by which it came.
    pub fn answer(to: &ControlMessage, bytes: Vec<u8>) -> Self {
        OutgoingControl {
            to: to.from,
            path: 0,
            port: Some(to.port),
            local: to.local.filter(|ip| !ip.is_multicast()),
            class: None,
            bytes,
            via: to.peer.as_ref().map(|peer| peer.channel),
        }
    }
}

/// Bytes of a control message, at most. All but probes fit any path without fragments.
pub const MAX_CONTROL_LEN: usize = MAX_PROBE_LEN;

/// Why a driver did not take a call. Refusals by the protocol come as the session's
/// [`Failed`](crate::SessionEvent::Failed) event instead.
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
    /// A driver of several loops was given a send rate, which none of them could keep for all.
    RateOfLoops,
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
            HandleError::RateOfLoops => f.write_str(
                "several event loops have no send rate: run one, or do without the rate",
            ),
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

/// A key of a session's group, come or gone.
pub(crate) struct GroupKeyCall {
    /// The group where this host sends; the sender where it receives.
    pub address: SocketAddr,
    pub session: SessionId,
    pub what: GroupKeyChange,
}

/// What becomes of the keys of a session's group at this host.
#[derive(Clone)]
pub enum GroupKeyChange {
    /// What is sent to the group is sealed by this key from now on.
    Send(GroupKey),
    /// What comes from the group opens by this key, too.
    Receive(GroupKey),
    /// The session needs no key of its group any more.
    Forget,
}

/// What crosses from the handles to the loop, whatever the protocol.
pub(crate) enum Call {
    Control(OutgoingControl),
    GroupJoined { group: SocketAddr, socket: crate::socket::HostSocket },
    GroupLeft { group: SocketAddr },
    GroupKey(GroupKeyCall),
    OpenPorts(u8),
    Statistics(mpsc::SyncSender<Statistics>),
    SetKeyring(Arc<Keyring>),
    SetSendRate(Option<Rate>),
    Shutdown,
}

/// Kinds of packets from this one on are control messages.
pub(crate) const FIRST_CONTROL_KIND: u8 = 8;
