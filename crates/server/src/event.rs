//! Events of a server.

use std::net::SocketAddr;

use wellspring_transport::scdp::{ReceiveStats, SendStats};
use wellspring_transport::{lttp, ndp};

/// What happens at a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A digest is computed: it is the first request for the object in this state.
    Hashing {
        /// The object.
        name: String,
        /// Its length \[bytes\].
        size: u64,
    },
    /// The server begins to send an object.
    Sending {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// This server's share of it: index and count.
        share: (u8, u8),
        /// Whether an earlier instance of this server, or of this session, had begun it.
        resumed: bool,
    },
    /// An object is sent.
    Sent {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// The protocol's counters.
        stats: SendStats,
    },
    /// An object is sent, by NDP.
    SentNdp {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// The protocol's counters.
        stats: ndp::SendStats,
    },
    /// The server begins to send a part of an object, by LTTP.
    SendingPart {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// Where the part begins \[bytes\].
        offset: u64,
        /// How long it is \[bytes\].
        len: u64,
    },
    /// A part is sent.
    SentPart {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// The protocol's counters.
        stats: lttp::SendStats,
    },
    /// An object, or a part of it, was not sent completely.
    SendFailed {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The server begins to receive an object.
    Receiving {
        /// Under this name.
        name: String,
        /// From whom.
        client: SocketAddr,
        /// Its length \[bytes\].
        size: u64,
        /// Whether it comes by multicast.
        multicast: bool,
        /// Bytes of it that an earlier offer had left, and that are verified \[bytes\].
        resumed: u64,
    },
    /// An object is verified, synced and in place.
    Received {
        /// Under this name.
        name: String,
        /// From whom.
        client: SocketAddr,
        /// Its length \[bytes\].
        size: u64,
        /// The protocol's counters; absent for an object of no bytes, or one that was there already.
        stats: Option<ReceiveStats>,
        /// Datagrams that the system dropped since the server started, because its sockets' buffers
        /// were full.
        socket_dropped: u64,
    },
    /// An object was not received completely.
    ReceiveFailed {
        /// Under this name.
        name: String,
        /// From whom.
        client: SocketAddr,
        /// Why.
        reason: String,
    },
    /// A request was refused, or made no sense.
    Refused {
        /// The object that was requested; empty if the request named none.
        name: String,
        /// By whom.
        client: SocketAddr,
        /// Why.
        reason: String,
    },
    /// Events like the next one were left out, since there were too many.
    Suppressed {
        /// Which.
        what: String,
        /// How many.
        count: u64,
    },
}

impl ServerEvent {
    /// Whose transfer it is of, if it is of one.
    pub(super) fn client(&self) -> Option<SocketAddr> {
        match self {
            ServerEvent::Sending { client, .. }
            | ServerEvent::Sent { client, .. }
            | ServerEvent::SentNdp { client, .. }
            | ServerEvent::SendingPart { client, .. }
            | ServerEvent::SentPart { client, .. }
            | ServerEvent::SendFailed { client, .. }
            | ServerEvent::Receiving { client, .. }
            | ServerEvent::Received { client, .. }
            | ServerEvent::ReceiveFailed { client, .. }
            | ServerEvent::Refused { client, .. } => Some(*client),
            ServerEvent::Hashing { .. } | ServerEvent::Suppressed { .. } => None,
        }
    }
}
