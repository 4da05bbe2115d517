//! What a transfer from one sender to one receiver has in common, whatever the protocol.

use core::fmt;
use wellspring_core::SessionId;

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
