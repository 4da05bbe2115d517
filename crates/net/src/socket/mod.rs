//! UDP sockets as bulk transport needs them: batches both ways, DSCP and ECN both ways, packet
//! info and multicast.
//!
//! A thin layer on `socket2` and control messages. It knows bytes and addresses; nothing of SCDP.
//! Linux only: segmentation offload, receive coalescing and per-datagram traffic classes are
//! Linux interfaces.

mod glue;
mod interface;
mod receive;
mod timer;
mod trims;
mod udp;

pub use interface::{Interface, source_towards};
pub use receive::{Datagrams, ReceiveBatch, Received};
pub use timer::Timer;
pub use trims::{TrimTap, Trimmed};
pub use udp::{Outgoing, SocketConfig, UdpSocket};

/// Datagrams in one GSO batch, at most (Linux `UDP_MAX_SEGMENTS` before 6.9).
pub const MAX_SEGMENTS: usize = 64;
/// Bytes of one GSO batch, at most: the largest UDP payload over IPv4.
pub const MAX_BATCH_LEN: usize = 65_507;
