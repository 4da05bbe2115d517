//! Commands of an application to LTTP.

use super::header::Parameters;
use core::fmt;
use wellspring_core::{Duration, HostId, SessionId};

/// What the application asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// At a server: hold this ready for a client, who asks for it by the session's number.
    Offer {
        /// The session, not in use between these two hosts.
        session: SessionId,
        /// Who may ask.
        client: HostId,
        /// Length \[bytes\], at least 1.
        transfer_len: u64,
    },
    /// At a client: ask a server for what it holds ready.
    Request {
        /// The session, not in use between these two hosts.
        session: SessionId,
        /// Whom to ask.
        server: HostId,
    },
    /// As [`Offer`](Self::Offer), cut otherwise than the configuration says.
    OfferCut {
        /// The session, not in use between these two hosts.
        session: SessionId,
        /// Who may ask.
        client: HostId,
        /// What is sent, and how it is cut.
        parameters: Parameters,
        /// How long a silent client is waited for, because it waits as long.
        peer_timeout: Duration,
    },
    /// As [`Request`](Self::Request), of symbols that are not of the configured size.
    RequestCut {
        /// The session, not in use between these two hosts.
        session: SessionId,
        /// Whom to ask.
        server: HostId,
        /// Length of a symbol \[bytes\].
        symbol_size: u16,
    },
    /// At either: end a session early and notify the other side. Of several that a server has under one
    /// number, with the client of the lowest number.
    Cancel {
        /// The session.
        session: SessionId,
    },
}

/// Why a command was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CommandError {
    /// There is a session of that number with that peer.
    SessionInUse(SessionId),
    /// There is none.
    NoSuchSession(SessionId),
    /// So many bytes cannot be sent in blocks of the configured size.
    TransferLength {
        /// What was asked for \[bytes\].
        got: u64,
        /// The most \[bytes\].
        limit: u64,
    },
    /// The host takes part in [`Config::max_sessions`](super::Config::max_sessions) sessions.
    TooManySessions(usize),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::SessionInUse(session) => write!(f, "{session:?} is in use"),
            CommandError::NoSuchSession(session) => write!(f, "{session:?} is not open"),
            CommandError::TransferLength { got, limit } => {
                write!(f, "a transfer of {got} bytes, but 1 to {limit} can be sent")
            }
            CommandError::TooManySessions(limit) => write!(f, "{limit} sessions are open"),
        }
    }
}

impl core::error::Error for CommandError {}
