//! UDP sockets as bulk transport needs them: batches both ways, DSCP and ECN both ways, packet
//! info and multicast.
//!
//! A thin layer on `socket2` and control messages. It knows bytes and addresses; nothing of SCDP.
//! Segmentation offload, receive coalescing, batches and per-datagram traffic classes are interfaces of Linux, in `sys`.
//! Other systems have `plain`, which stands beside it on Linux, too, and is tested there.

#[cfg(feature = "simulation")]
mod host_socket;
mod interface;
mod means;
mod meta;
mod plain;
mod receive;
mod segmentation;
mod sys;
mod timer;
#[cfg(target_os = "linux")]
mod trims;
#[cfg(not(target_os = "linux"))]
#[path = "no_trims.rs"]
mod trims;
mod udp;
mod unreached;

#[cfg(feature = "simulation")]
pub(crate) use host_socket::HostSocket;
pub use interface::{Interface, largest_payload_towards, source_towards};
pub use receive::{Datagrams, ReceiveBatch, Received};
pub use timer::Timer;
pub use trims::{TrimTap, Trimmed};
#[cfg(not(feature = "simulation"))]
pub(crate) use udp::UdpSocket as HostSocket;
pub use udp::{Outgoing, SocketConfig, UdpSocket};
pub use unreached::Unreached;

/// Has the C library give each block of objects a mapping of its own (1 MiB and more). glibc's own way is to
/// keep ever larger ones in its heaps, where blocks and encoders of unlike length leave gaps: a server takes
/// half as much again as its stores hold, and more time. For a program to call as it starts, since it is one
/// setting for all of the process; elsewhere than with glibc it does nothing.
pub fn map_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    sys::map_large_blocks();
}

/// Datagrams in one GSO batch, at most (Linux `UDP_MAX_SEGMENTS` before 6.9).
pub const MAX_SEGMENTS: usize = 64;
/// Bytes of one datagram, at most: the largest UDP payload over IPv4.
pub const MAX_DATAGRAM_LEN: usize = 65_507;
/// Bytes of one GSO batch of several datagrams, at most. With its UDP, IPv6 and Ethernet headers
/// it must stay below a device's largest offload (64 KiB), or the kernel cuts it up itself before
/// the device, at ten times the cost; some bytes are left for tunnels.
pub const MAX_BATCH_LEN: usize = 65_000;
