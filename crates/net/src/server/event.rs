//! Events of a server.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wellspring_transport::scdp::{ReceiveStats, SendStats};
use wellspring_transport::{lttp, ndp};
use wellspring_wire::control::RefusalCode;

/// What happens at a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A digest is computed, because nobody asked for the object in this state before.
    Hashing {
        /// The object.
        name: String,
        /// Its length \[bytes\].
        size: u64,
    },
    /// An object goes out.
    Sending {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// This server's share of it: index and count.
        share: (u8, u8),
        /// Whether an earlier life of this server, or of this session, had begun it.
        resumed: bool,
    },
    /// An object is out.
    Sent {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// The account.
        stats: SendStats,
    },
    /// An object is out by NDP.
    SentNdp {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// The account.
        stats: ndp::SendStats,
    },
    /// A part of an object goes out by LTTP.
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
    /// A part is out.
    SentPart {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// The account.
        stats: lttp::SendStats,
    },
    /// An object, or a part of it, did not go out to its end.
    SendFailed {
        /// The object.
        name: String,
        /// To whom.
        client: SocketAddr,
        /// Why.
        reason: String,
    },
    /// An object comes in.
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
        /// The account; absent for an object of no bytes, or one that was there already.
        stats: Option<ReceiveStats>,
        /// Datagrams that the system dropped since the server started, because its sockets' buffers
        /// were full.
        socket_dropped: u64,
    },
    /// An object was not taken to its end; nothing of it is left.
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
        /// What was asked for; empty if that was not told.
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

/// What a server counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ServerCounters {
    /// Refused requests by what the client was told.
    pub refused: BTreeMap<RefusalCode, u64>,
}
