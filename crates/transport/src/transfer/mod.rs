//! Transfers from one sender to one receiver: the parts that protocols share.

mod table;

pub(crate) use table::{Due, Key, Table};

use core::fmt;
use wellspring_core::{Class, HostId, SessionId};

/// Control messages that wait for the interface at most: more than any window has packets, and then
/// new ones are lost, as on a real host's full interface.
pub(crate) const MOST_WAITING: usize = 1 << 16;

/// Opens a transfer at its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendTransfer {
    /// The transfer, not in use between these two hosts.
    pub session: SessionId,
    /// The receiver.
    pub receiver: HostId,
    /// Length \[bytes\], at least 1.
    pub transfer_len: u64,
    /// A fixed class for its data packets instead of the configuration's rule.
    pub class: Option<Class>,
}

/// What the application asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send a transfer.
    Send(SendTransfer),
    /// End a transfer early and notify the receiver.
    Cancel {
        /// The transfer.
        session: SessionId,
    },
}

/// Events for the application: the accounts of receivers and of senders are the protocol's own,
/// and what it says of a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<Received, Sent, Timeout> {
    /// The first packet of a transfer came.
    Accepted {
        /// The transfer.
        session: SessionId,
        /// Who sends.
        sender: HostId,
    },
    /// As much came as the configuration's `progress_every` says.
    Progress {
        /// The transfer.
        session: SessionId,
        /// Payload since the last such event \[bytes\].
        bytes: u64,
    },
    /// A transfer is complete at its receiver.
    Received {
        /// The transfer.
        session: SessionId,
        /// Who sent.
        sender: HostId,
        /// Its account.
        stats: Received,
    },
    /// A transfer is complete, and known to be, at its sender.
    Sent {
        /// The transfer.
        session: SessionId,
        /// Its account.
        stats: Sent,
    },
    /// A sender's retransmission timer went off; never of a protocol that has none.
    TimedOut {
        /// The transfer.
        session: SessionId,
        /// What it was at.
        state: Timeout,
    },
    /// A transfer ended without success.
    Failed {
        /// The transfer.
        session: SessionId,
        /// Why.
        reason: FailReason,
    },
}

/// Why a command was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CommandError {
    /// A transfer of that number is being sent.
    SessionInUse(SessionId),
    /// No transfer of that number is being sent.
    NoSuchSession(SessionId),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::SessionInUse(session) => write!(f, "{session:?} is in use"),
            CommandError::NoSuchSession(session) => write!(f, "{session:?} is not open"),
        }
    }
}

impl core::error::Error for CommandError {}

/// Why a transfer failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailReason {
    /// The peer was silent for the configuration's `peer_timeout`.
    PeerLost,
    /// The other side ended it early.
    Closed,
}
