//! LTTP between hosts: a contiguous share from each server, and a TCP connection a session for its
//! control channel.
//!
//! - A [`Server`](crate::Server) takes connections on the port of its datagrams; a
//!   [`Client`](crate::Client) fetches a file from several servers, a share from each.
//! - A session is named by a cookie that its server sends by TCP. Symbols go to the address from
//!   which the cookie comes by UDP, if that is the host at the other end of the TCP connection: so
//!   nobody has a server flood a third party.
//! - The end of the TCP connection is the end of the session. What a server that is lost had not
//!   sent is fetched from those that live, by further sessions.

mod client;
pub(crate) mod connection;
pub(crate) mod control;
mod part;
mod report;
mod spans;
mod transfer;

use wellspring_codec::lt::MAX_SOURCE_SYMBOLS;
use wellspring_wire::lttp::Geometry;

pub use client::LttpOptions;
pub use report::{LostServer, LttpReport, PartReport};
pub use wellspring_codec::lt::Method;

/// Symbol size unless told otherwise \[bytes\]: with all headers it fits an Ethernet frame by IPv6 as
/// well as by IPv4, and is a multiple of a cache line.
pub const DEFAULT_LTTP_SYMBOL_SIZE: u16 = 1_408;
/// Source symbols of a block unless told otherwise.
pub const DEFAULT_LTTP_BLOCK_SYMBOLS: u32 = 1_024;
/// Longest block \[bytes\].
const MAX_BLOCK_LEN: u64 = 8 << 20;

/// Whether both ends can work with blocks of that geometry: bounded memory, a code that exists.
pub(crate) fn is_possible(geometry: &Geometry) -> bool {
    let Geometry { symbol_size, block_symbols } = *geometry;
    let block = u64::from(symbol_size) * u64::from(block_symbols);
    block_symbols <= MAX_SOURCE_SYMBOLS && block <= MAX_BLOCK_LEN
}
