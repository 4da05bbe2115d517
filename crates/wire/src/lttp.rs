//! LTTP on the wire: datagrams of symbols and reports, and the messages of its control channel.
//!
//! Both share one port number, datagrams by UDP and messages by TCP; datagrams share it with those of the
//! other protocols, from which their kinds distinguish them. A session is named by its
//! [`Cookie`], which the server draws and sends by TCP alone: who has it has the connection. It
//! stands in every datagram, both ways, and so does for a session's number and its proof.
//!
//! ```text
//!  0       1       2       3       4       5       6       7
//! +-------+-------+-------+-------+-------+-------+-------+-------+
//! |ver|knd|   0   | check (CRC-16)|            cookie ...
//! +-------+-------+-------+-------+-------+-------+-------+-------+
//!             ... cookie          |  fields of the kind             |
//! ```
//!
//! | kind | who | fields behind the cookie, bytes in brackets |
//! |---|---|---|
//! | 3 symbol | server | block (4), ID (4), packet number (4), time sent (8), round trip (4), the symbol |
//! | 4 report | client | time echoed (8), delay (4), receive rate (8), loss event rate (4) |
//! | 5 hello | client | none: symbols may go where this came from |
//!
//! `check` covers all of the header but itself. Times sent are the server's own business, and only
//! repeated; spans count 100 ns.
//!
//! A message on the TCP connection has a header of four bytes, version and kind, zero, and the
//! length of what follows, at most [`MAX_BODY_LEN`].
//!
//! | kind | who | body, bytes in brackets |
//! |---|---|---|
//! | 0 request | client | BLAKE3 digest (32), offset (8), length (8), symbol size (2), symbols of a block (4), milliseconds that it waits for a silent server (4), the object's name |
//! | 1 pending | server | done (8), total (8): the digest is being computed; repeated |
//! | 2 granted | server | cookie (8), seed of the code (8) |
//! | 3 parameters | server | length (8), symbol size (2), symbols of a block (4): the hello has arrived |
//! | 4 stop | client | the first block still wanted (4) |
//! | 5 stopped | server | the same (4) |
//! | 6 close | both | none |
//! | 7 refused | server | why: a code (1), a text |
//! | 8 handshake | both | where hosts have keys: a part of the handshake, at most [`MAX_ENVELOPE_LEN`] bytes |
//! | 9 sealed | both | where hosts have keys: a message with its header, sealed, at most [`MAX_ENVELOPE_LEN`] bytes |

mod datagram;
mod message;

use wellspring_core::Duration;

pub use datagram::{Datagram, emit, emit_header, parse};
pub use message::{
    Envelope, HEADER_LEN as MESSAGE_HEADER_LEN, MAX_BODY_LEN, MAX_ENVELOPE_LEN, Message,
    emit_envelope, emit_message, envelope, message_kind, parse_message, parse_whole,
};

/// The kinds of LTTP's datagrams, which no other protocol on the port has.
pub const KINDS: core::ops::RangeInclusive<u8> = 3..=5;
/// Bytes of a symbol's header.
pub const SYMBOL_HEADER_LEN: usize = 36;
/// Longest symbol \[bytes\]: the largest UDP payload over IPv4 without the header.
pub const MAX_SYMBOL_SIZE: u16 = 65_507 - SYMBOL_HEADER_LEN as u16;
/// The unit of spans on the wire.
pub const SPAN_UNIT: Duration = Duration::from_nanos(100);

/// What names a session, and proves that its sender is at the other end of the session's TCP
/// connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cookie(pub u64);

/// How bytes are cut into symbols and blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Length of a symbol \[bytes\], 1 to [`MAX_SYMBOL_SIZE`].
    pub symbol_size: u16,
    /// Source symbols of a full block, 1 or more.
    pub block_symbols: u32,
}

impl Geometry {
    /// The geometry, if it can be one.
    pub fn new(symbol_size: u16, block_symbols: u32) -> Option<Self> {
        let fits = (1..=MAX_SYMBOL_SIZE).contains(&symbol_size) && block_symbols > 0;
        fits.then_some(Geometry { symbol_size, block_symbols })
    }
}
