//! Events of LTTP for the application.

use super::client::ReceiveStats;
use super::header::Parameters;
use super::server::SendStats;
use crate::transfer::FailReason;
use wellspring_core::{HostId, SessionId};

/// Events for the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A client's request is answered.
    Accepted {
        /// The session.
        session: SessionId,
        /// What comes.
        parameters: Parameters,
    },
    /// Another [`Config::progress_every`](super::Config::progress_every) symbols came to a client, redundant ones too.
    Progress {
        /// The session.
        session: SessionId,
        /// Their payload \[bytes\].
        bytes: u64,
    },
    /// A block is complete at its client.
    BlockComplete {
        /// The session.
        session: SessionId,
        /// The block.
        sbn: u32,
    },
    /// Everything is there.
    Received {
        /// The session.
        session: SessionId,
        /// From where.
        server: HostId,
        /// Its account.
        stats: ReceiveStats,
    },
    /// A server knows that everything is there.
    Sent {
        /// The session.
        session: SessionId,
        /// Its account.
        stats: SendStats,
    },
    /// A server's rate has changed, by a report or for want of one; only of sessions whose
    /// endpoint was asked to report ([`Endpoint::report_rates`](super::Endpoint::report_rates)).
    Rate {
        /// The session.
        session: SessionId,
        /// X \[bytes/s\].
        rate: u64,
    },
    /// A session ended without success.
    Failed {
        /// The session.
        session: SessionId,
        /// Why.
        reason: FailReason,
    },
}
