//! Control messages: requests and replies beside SCDP's symbols.
//!
//! They share the UDP port with SCDP and are distinguished by the kind in the first byte (SCDP's own
//! kinds are below 8). Every request carries a nonce that its reply repeats; a client repeats a
//! request until it is answered, so servers treat a repeated request as the same request.
//!
//! ```text
//!  0       1       2       3       4       5       6       7
//! +-------+-------+-------+-------+-------+-------+-------+-------+
//! |ver|knd| oper. |    length     |        check (CRC-32)         |
//! +-------+-------+-------+-------+-------+-------+-------+-------+
//! |                             nonce                             |
//! +-------+-------+-------+-------+-------+-------+-------+-------+ 16
//! |  body (requests: cookie (16) first), then zeros as padding    |
//! ```
//!
//! `length` counts header and body; `check` covers them with its own field taken as zero. The header
//! and refusals are the same in all versions: a request of another version is refused in that version.
//!
//! # No amplification
//! A request is padded to at least [`REQUEST_MIN_LEN`] bytes and a reply never exceeds
//! [`REPLY_MAX_LEN`], which is not more: whoever forges a source address makes a server send less
//! than he sent; a request for a page of a manifest is padded to [`MANIFEST_LEN`] bytes, which is what
//! its answer may have, and a probe says how long its answer is to be, which is no longer than itself. What costs a server more than a short answer (sending an object, taking one,
//! computing a digest) needs a [`Cookie`] that was sent to that very address before.

mod layout;
mod probe;
mod text;

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use alloc::vec::Vec;
use wellspring_core::SessionId;

pub use layout::{
    Parsed, VERSION, emit_reply, emit_request, holds_secret, parse, request_of_other_version,
    set_version,
};
pub use probe::{Abilities, MAX_PROBE_LEN, Probe, ProbeReply};

use crate::scdp::Mode;

/// Longest control message but a probe \[bytes\]: fits every IPv6 path (RFC 8200 §5) with room for tunnels.
pub const MAX_LEN: usize = 1_200;
/// Shortest request, padding included \[bytes\].
pub const REQUEST_MIN_LEN: usize = 256;
/// Longest reply \[bytes\].
pub const REPLY_MAX_LEN: usize = 256;
/// Nodes of a manifest in one reply, at most.
pub const MAX_NODES: usize = 32;
/// Length of a reply with nodes of a manifest, at most, and of a request for them, at least \[bytes\].
pub const MANIFEST_LEN: usize = 16 + 32 * MAX_NODES;
/// Runs of blocks in one reply, at most: it is no longer than one with nodes of a manifest.
pub const MAX_RUNS: usize = 4 * MAX_NODES;
/// Addresses in one reply, at most.
pub const MAX_ADDRESSES: usize = 8;
const ADDRESS_LEN: usize = 18;
/// Longest object name \[bytes of UTF-8\].
pub const MAX_NAME_LEN: usize = 1_000;
/// Longest explanation in a refusal \[bytes of UTF-8\].
pub const MAX_TEXT_LEN: usize = 200;

const _: () = assert!(REPLY_MAX_LEN <= REQUEST_MIN_LEN && MANIFEST_LEN <= MAX_LEN);

/// The name of an object: UTF-8 without control characters, 1 to [`MAX_NAME_LEN`] bytes. Whether
/// it stays inside a directory is for whoever opens it to check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name<'a>(&'a str);

impl<'a> Name<'a> {
    /// The name, if it can be one.
    pub fn new(name: &'a str) -> Option<Self> {
        let fits = !name.is_empty() && name.len() <= MAX_NAME_LEN;
        (fits && !name.chars().any(char::is_control)).then_some(Name(name))
    }

    /// The name as text.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Proof that a client can be reached at its address; opaque to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cookie(pub [u8; 16]);

impl Cookie {
    /// No cookie yet: earns a [`Reply::Challenge`] where one is needed.
    pub const NONE: Cookie = Cookie([0; 16]);
}

/// Runs of blocks as they are written: eight bytes each, the first block and the one behind the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runs<'a>(&'a [u8]);

impl<'a> Runs<'a> {
    /// Runs that [`Runs::write`] has written, or that have come.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (runs, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || runs.len() > MAX_RUNS {
            return None;
        }
        let runs = Runs(bytes);
        let mut least = 0;
        for run in runs.iter() {
            if run.start < least || run.is_empty() {
                return None;
            }
            least = run.end;
        }
        Some(runs)
    }

    /// Writes runs, as many as fit one reply.
    pub fn write(runs: impl IntoIterator<Item = Range<u32>>) -> Vec<u8> {
        let written = |run: Range<u32>| [run.start.to_be_bytes(), run.end.to_be_bytes()];
        runs.into_iter().take(MAX_RUNS).flat_map(written).flatten().collect()
    }

    /// The runs, ascending.
    pub fn iter(self) -> impl Iterator<Item = Range<u32>> + 'a {
        let read = |[a, b, c, d, e, f, g, h]: &[u8; 8]| {
            u32::from_be_bytes([*a, *b, *c, *d])..u32::from_be_bytes([*e, *f, *g, *h])
        };
        self.0.as_chunks().0.iter().map(read)
    }
}

/// Addresses of a host as they are written: 18 bytes each, an IPv6 address (of IPv4 as RFC 4291 §2.5.5.2 maps it) and a
/// port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses<'a>(&'a [u8]);

impl<'a> Addresses<'a> {
    /// Addresses that [`Addresses::write`] has written, or that have come.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (addresses, rest) = bytes.as_chunks::<ADDRESS_LEN>();
        let fit = rest.is_empty() && addresses.len() <= MAX_ADDRESSES;
        let all_are = addresses.iter().map(address_of).all(is_of_a_host);
        (fit && all_are).then_some(Addresses(bytes))
    }

    /// Writes addresses of hosts, as many as fit one reply; others are left out.
    pub fn write(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<u8> {
        let mut out = Vec::new();
        let of_hosts = addresses.into_iter().filter(|address| is_of_a_host(*address));
        for address in of_hosts.take(MAX_ADDRESSES) {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            out.extend_from_slice(&ip.octets());
            out.extend_from_slice(&address.port().to_be_bytes());
        }
        out
    }

    /// The addresses.
    pub fn iter(self) -> impl Iterator<Item = SocketAddr> + 'a {
        self.0.as_chunks().0.iter().map(address_of)
    }
}

/// Whether something may be sent there that is for one host.
fn is_of_a_host(address: SocketAddr) -> bool {
    address.port() > 0 && !address.ip().is_unspecified() && !address.ip().is_multicast()
}

fn address_of(bytes: &[u8; ADDRESS_LEN]) -> SocketAddr {
    let (mut ip, mut port) = ([0; 16], [0; 2]);
    ip.copy_from_slice(&bytes[..16]);
    port.copy_from_slice(&bytes[16..]);
    SocketAddr::new(IpAddr::from(ip).to_canonical(), u16::from_be_bytes(port))
}

/// How an object is cut into symbols and blocks; both sizes are 1 or more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Symbol size T \[bytes\].
    pub symbol_size: u16,
    /// Source symbols in a block, at most.
    pub symbols_per_block: u32,
    /// Symbols the sender pushes unasked, w \[packets\].
    pub initial_window: u8,
}

/// Where a sender takes up a session (see the transport's `Resume`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResumeAt {
    /// Numbering epoch, above all used before.
    pub epoch: u8,
    /// The receiver has all blocks below.
    pub floor: u32,
    /// Blocks below may have been served in part.
    pub horizon: u32,
}

/// Asks a server to send an object in an SCDP session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start<'a> {
    /// The session; the client chose it.
    pub session: SessionId,
    /// The object.
    pub name: Name<'a>,
    /// Its digest as the client knows it: other bytes are refused.
    pub digest: [u8; 32],
    /// Index of this sender's share, below `share_count`.
    pub share_index: u8,
    /// Number of shares, 1 or more.
    pub share_count: u8,
    /// How the object is cut.
    pub geometry: Geometry,
    /// Takes up a session that an earlier life of the server had begun.
    pub resume: Option<ResumeAt>,
    /// To be sent behind all others, in the lowest class. A server that does not know this drops the request, as one
    /// that is malformed.
    pub background: bool,
    /// How long the client waits for a silent server, and asks the server to wait for it \[ms\];
    /// 0 leaves that to the server.
    pub timeout_ms: u32,
}

/// Asks a server to send a part of an object in an NDP transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartNdp<'a> {
    /// The transfer; the client chose it.
    pub session: SessionId,
    /// The object.
    pub name: Name<'a>,
    /// Its digest as the client knows it: other bytes are refused.
    pub digest: [u8; 32],
    /// Payload of a packet \[bytes\], 1 or more.
    pub payload: u16,
    /// Where the part begins \[bytes\].
    pub offset: u64,
    /// How long it is \[bytes\], 1 or more; it ends within 64 bits.
    pub len: u64,
    /// How long the client waits for a silent server, and asks the server to wait for it \[ms\];
    /// 0 leaves that to the server.
    pub timeout_ms: u32,
}

/// Offers an object to a server that takes objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer<'a> {
    /// The session; the client chose it.
    pub session: SessionId,
    /// Under what name.
    pub name: Name<'a>,
    /// Object length \[bytes\]; 0 makes an empty object without a session.
    pub size: u64,
    /// BLAKE3 digest of the whole object.
    pub digest: [u8; 32],
    /// Unicast, or one-to-many through `group`.
    pub mode: Mode,
    /// The multicast group and port to listen on; present exactly in one-to-many mode.
    pub group: Option<SocketAddr>,
    /// How the object is cut.
    pub geometry: Geometry,
    /// Replace an object of that name.
    pub overwrite: bool,
    /// Take up what an earlier offer of the same bytes has left, and leave what arrives for a later one.
    pub resume: bool,
    /// To be pulled behind all others; never through a group. A server that does not know this drops the offer, as one
    /// that is malformed.
    pub background: bool,
    /// How long the client waits for a silent server, and asks the server to wait for it \[ms\];
    /// 0 leaves that to the server.
    pub timeout_ms: u32,
}

/// What a client asks. A request that needs a [`Cookie`] carries the one it got for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// What is the object's size and digest?
    Info {
        /// The object.
        name: Name<'a>,
        /// How the client would have it cut: the cookie of the answer is good for a start that
        /// says the same.
        geometry: Geometry,
    },
    /// Send the object.
    Start(Start<'a>),
    /// Take an object.
    Offer(Offer<'a>),
    /// Send the object by NDP.
    StartNdp(StartNdp<'a>),
    /// Which are these nodes of the object's hash tree?
    Manifest {
        /// The object.
        name: Name<'a>,
        /// Its digest as the client knows it: the tree of other bytes is refused.
        digest: [u8; 32],
        /// Binary logarithm of the nodes' length \[bytes\].
        log: u8,
        /// Number of the page: of [`MAX_NODES`] nodes each.
        index: u64,
    },
    /// Which blocks of an object that was offered were there before?
    Held {
        /// The session of the offer.
        session: SessionId,
        /// Runs of blocks that end above this one.
        from: u32,
    },
    /// Use the address and port that this comes from as another path of a session.
    Path {
        /// The session, of which the client has another address or port.
        session: SessionId,
        /// The path, 1 or above: its label in the session's packets.
        path: u8,
        /// What the client was challenged with when it asked for this path from the session's own address: from
        /// another IP address it shows that the session is the client's. [`Cookie::NONE`] from the same one.
        token: Cookie,
    },
    /// How far is an object that was offered?
    Status {
        /// The session of the offer.
        session: SessionId,
    },
    /// Take this key for the symbols of an object that was offered through a group. To be sent sealed only.
    GroupKey(GroupKey<'a>),
    /// How does this datagram arrive?
    Probe(Probe),
    /// By which other addresses can this server be reached?
    Addresses,
}

/// A key that seals the symbols of a group's session. Its `Debug` leaves the secret out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GroupKey<'a> {
    /// The session of the offer.
    pub session: SessionId,
    /// 0 at first, one more with every change.
    pub generation: u8,
    /// Number of the cipher.
    pub suite: u8,
    /// The secret.
    pub secret: &'a [u8; 32],
}

impl fmt::Debug for GroupKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupKey { session, generation, suite, secret: _ } = self;
        write!(f, "GroupKey({session:?}, generation {generation}, suite {suite})")
    }
}

/// Why a server refuses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum RefusalCode {
    /// There is no such object, or it is no regular file.
    NotFound = 1,
    /// The object's bytes are not those the client asked for.
    Changed = 2,
    /// This server takes no objects.
    NotAllowed = 3,
    /// An object of that name exists.
    Exists = 4,
    /// The name cannot be that of an object here.
    BadName = 5,
    /// The object is larger than this server takes.
    TooLarge = 6,
    /// There is no room for the object.
    NoSpace = 7,
    /// Too much is going on at once; later may do.
    Busy = 8,
    /// The session number is in use: choose another.
    SessionInUse = 9,
    /// What was asked for cannot be done here (a symbol size, a group).
    Unsupported = 10,
    /// The server's own trouble: its disk, its network.
    Failed = 11,
    /// The bytes that arrived do not have the digest announced.
    BadDigest = 12,
    /// The object arrived too slowly to keep the space that was held for it.
    TooSlow = 13,
    /// The client's key, or its address, has as much as it may have.
    OverQuota = 14,
}

impl RefusalCode {
    /// The code of that number.
    pub fn from_number(number: u8) -> Option<Self> {
        use RefusalCode::*;
        [
            NotFound,
            Changed,
            NotAllowed,
            Exists,
            BadName,
            TooLarge,
            NoSpace,
            Busy,
            SessionInUse,
            Unsupported,
            Failed,
            BadDigest,
            TooSlow,
            OverQuota,
        ]
        .into_iter()
        .find(|code| *code as u8 == number)
    }
}

/// Any code.
#[cfg(test)]
pub(crate) fn refusal_codes() -> impl proptest::strategy::Strategy<Value = RefusalCode> {
    let all: std::vec::Vec<_> = (1..).map_while(RefusalCode::from_number).collect();
    proptest::sample::select(all)
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RefusalCode::NotFound => "no such object",
            RefusalCode::Changed => "the object has changed",
            RefusalCode::NotAllowed => "this server takes no objects",
            RefusalCode::Exists => "an object of that name exists",
            RefusalCode::BadName => "the name is not allowed",
            RefusalCode::TooLarge => "the object is too large",
            RefusalCode::NoSpace => "no room for the object",
            RefusalCode::Busy => "busy",
            RefusalCode::SessionInUse => "session number in use",
            RefusalCode::Unsupported => "not possible here",
            RefusalCode::Failed => "the server failed",
            RefusalCode::BadDigest => "the bytes do not have the digest announced",
            RefusalCode::TooSlow => "the object arrived too slowly to keep its space",
            RefusalCode::OverQuota => "a quota is used up",
        })
    }
}

/// How far an offered object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutState {
    /// The server knows no such offer (it may have restarted).
    Unknown,
    /// Symbols are arriving, or all have and the digest is being verified.
    Receiving,
    /// Symbols are to arrive by unicast from now on: what was wrong may have come from a member of the group.
    LeftGroup,
    /// Verified, synced and in place under its name.
    Complete,
    /// Given up.
    Failed(RefusalCode),
}

/// What a server answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// To [`Request::Info`].
    Info {
        /// For a start of this object, cut as the request said.
        cookie: Cookie,
        /// Object length \[bytes\].
        size: u64,
        /// BLAKE3 digest of the whole object.
        digest: [u8; 32],
        /// Drawn by the server when it started: another number means that it has started again.
        instance: u32,
    },
    /// Ask again with this cookie.
    Challenge {
        /// The cookie.
        cookie: Cookie,
    },
    /// The answer takes time (a digest is being computed): ask again in a moment.
    Pending {
        /// Done so far \[bytes\].
        done: u64,
        /// Of how much \[bytes\].
        total: u64,
    },
    /// To [`Request::Start`] and [`Request::Offer`]: yes.
    Accepted,
    /// No, and why.
    Refused {
        /// Why, for programs.
        code: RefusalCode,
        /// Why, for people: at most [`MAX_TEXT_LEN`] bytes, no control characters.
        text: &'a str,
    },
    /// To [`Request::Manifest`].
    Manifest {
        /// Chaining values of BLAKE3, one behind the other: 1 to [`MAX_NODES`].
        nodes: &'a [u8],
    },
    /// To [`Request::Held`].
    Held {
        /// Runs of blocks in ascending order, at most [`MAX_RUNS`]; empty when there are none from there on.
        runs: Runs<'a>,
    },
    /// To [`Request::Status`].
    Status {
        /// How far.
        state: PutState,
        /// Blocks complete.
        blocks_done: u32,
        /// Blocks of the object.
        blocks_total: u32,
    },
    /// To [`Request::Probe`].
    Probe(ProbeReply<'a>),
    /// To [`Request::Addresses`].
    Addresses {
        /// Beside the one that was asked, at most [`MAX_ADDRESSES`].
        addresses: Addresses<'a>,
    },
}
