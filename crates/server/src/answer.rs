//! Requests of clients and answers to them, before they are messages.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use wellspring_core::SessionId;
use wellspring_transport::ndp;
use wellspring_trust::Fingerprint;
use wellspring_wire::control::{Cookie, RefusalCode};

use super::address_limit::{Full, source_of};
use super::quotas::{Account, Exceeded};
use crate::driver::SessionEvent;
use crate::store::tree::ScanError;
use crate::store::{Digest, Node, StoreError};
use crate::store_messages;

/// A refusal on its way to a client.
pub(super) struct Refusal {
    pub code: RefusalCode,
    pub text: String,
}

impl Refusal {
    pub(super) fn new(code: RefusalCode, text: impl Into<String>) -> Self {
        Refusal { code, text: text.into() }
    }

    /// Something went wrong here.
    pub(super) fn failed(error: impl Display) -> Self {
        Refusal::new(RefusalCode::Failed, error.to_string())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Refusal::new(store_messages::refusal_code(&error), error.to_string())
    }
}

impl From<ScanError> for Refusal {
    fn from(error: ScanError) -> Self {
        Refusal::failed(error)
    }
}

impl From<Full> for Refusal {
    fn from(full: Full) -> Self {
        Refusal::new(RefusalCode::Busy, full.to_string())
    }
}

impl From<Exceeded> for Refusal {
    fn from(exceeded: Exceeded) -> Self {
        let code = match exceeded {
            Exceeded::Unread { .. } => RefusalCode::Failed,
            _ => RefusalCode::OverQuota,
        };
        Refusal::new(code, exceeded.to_string())
    }
}

/// Whose a session is: the address that it was asked for from, and the key, where hosts have keys. Others may have the
/// address, too, or see the session's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owner {
    pub client: SocketAddr,
    pub key: Option<Fingerprint>,
}

/// What a client shows: its address, its key, the cookie it has for its request, and what its quota is counted by.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub client: SocketAddr,
    pub key: Option<Fingerprint>,
    pub cookie: Cookie,
    pub account: Option<&'a Account>,
}

impl Shown<'_> {
    /// Who shows it.
    pub(super) fn owner(&self) -> Owner {
        Owner { client: self.client, key: self.key }
    }

    /// Whose share counts what is done for it: that of its address, since hosts of a cluster have one key.
    pub(super) fn source(&self) -> IpAddr {
        source_of(self.client)
    }
}

/// What a request comes to, besides being refused.
pub(super) enum Outcome {
    Info {
        cookie: Cookie,
        size: u64,
        digest: Digest,
    },
    Pending {
        done: u64,
        total: u64,
    },
    Challenge(Cookie),
    /// A page of a manifest.
    Manifest(Vec<Node>),
    Accepted,
    /// The same request is being worked on: its first copy gets the answer.
    Nothing,
}

/// An event of one of the server's sessions.
pub(super) enum SessionReport {
    /// Of one that sends by SCDP.
    Send {
        session: SessionId,
        /// Its number among all that send, by which it is told from others of the same session number.
        number: u64,
        event: SessionEvent,
    },
    /// Of one that receives.
    Put { session: SessionId, event: SessionEvent },
    /// Of one that sends by NDP.
    Ndp {
        session: SessionId,
        /// As of those that send by SCDP.
        number: u64,
        event: SessionEvent<ndp::ReceiveStats, ndp::SendStats>,
    },
}
