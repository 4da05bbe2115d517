//! LTTP over real sockets: the state machines of `wellspring_transport::lttp` with bytes, a clock, a
//! UDP socket for symbols and reports, and a TCP connection a session for its control channel.
//!
//! ```text
//!   application            the loop, one thread              threads that may wait
//!  (async tasks)      +---------------------------+
//!  TCP connections    |  an endpoint a session    |   blocks   read (server),
//!  of the control --> |  encoder or decoder       | ---------> sum up and write (client)
//!  channel        <-- |  timers, pacing           | <---------
//!                     +---------------------------+
//!                          datagrams | ^
//! ```
//!
//! - [`LttpServer`] serves the files of a directory, [`LttpClient`] fetches one file from several
//!   servers, a contiguous share from each.
//! - A session is named by a cookie that its server sends by TCP. Symbols go to the address from
//!   which the cookie comes by UDP, if that is the host at the other end of the TCP connection: so
//!   nobody has a server flood a third party.
//! - The end of the TCP connection is the end of the session. What a server that is lost had not
//!   sent is fetched from those that live, by further sessions.
//! - Which symbols a block needs is followed on the loop, for that takes indices alone; its bytes
//!   are added up and written on a thread that may wait.

mod asking;
mod client;
mod config;
mod connection;
mod control;
mod counters;
mod engine;
mod frames;
mod handle;
mod outbox;
mod part;
mod receiving;
mod report;
mod sending;
mod server;
mod session;
mod shares;
mod table;
mod transfer;

pub use client::{LttpClient, LttpOptions};
pub use config::{LttpClientConfig, LttpServerConfig, LttpSettings};
pub use counters::LttpStatistics;
pub use report::{LostServer, LttpReport, ShareReport};
pub use server::{LttpServer, LttpServerEvent};
pub use wellspring_codec::lt::Method;

/// Symbol size unless told otherwise \[bytes\]: with all headers it fits an Ethernet frame by IPv6 as
/// well as by IPv4, and is a multiple of a cache line.
pub const DEFAULT_LTTP_SYMBOL_SIZE: u16 = 1_408;
/// Source symbols of a block unless told otherwise.
pub const DEFAULT_LTTP_BLOCK_SYMBOLS: u32 = 1_024;
/// The robust soliton's constants (LTTP §V-A); both ends must have the same.
const SOLITON: (f64, f64) = (0.2, 0.7);
