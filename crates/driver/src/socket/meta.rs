//! Metadata of datagrams, and options of the sockets that carry them, on whatever system.

use std::net::{IpAddr, SocketAddr};

/// Messages sent by one call, at most.
pub(super) const SEND_BATCH: usize = 16;
/// Messages received by one call, at most.
pub(super) const RECEIVE_BATCH: usize = 16;

/// What goes with a datagram (or a GSO batch) on its way out.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "plain sockets use less of it"))]
pub(super) struct SendMeta {
    pub to: SocketAddr,
    /// Source address, if it is to be chosen.
    pub local: Option<IpAddr>,
    /// The IP traffic class byte: DSCP and ECN.
    pub traffic_class: u8,
    /// Bytes of each datagram when there are several in the buffer.
    pub segment: Option<u16>,
}

/// What came with a datagram (or a GRO batch).
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveMeta {
    pub from: SocketAddr,
    pub local: Option<IpAddr>,
    pub interface: u32,
    pub traffic_class: u8,
    pub len: usize,
    /// Bytes of each datagram; the last may be shorter.
    pub segment: usize,
    pub truncated: bool,
}

/// Options of a socket.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "plain sockets use less of it"))]
pub(super) struct Options {
    /// Whether it is of IPv6, and whether it takes IPv4.
    pub v6: bool,
    pub v4: bool,
    /// Of multicast \[hops\].
    pub multicast_ttl: u8,
    pub multicast_loopback: bool,
    /// Index of the interface that multicast goes out by.
    pub multicast_interface: Option<u32>,
    /// Buffers asked for \[bytes\].
    pub receive_buffer: usize,
    pub send_buffer: usize,
    /// Use GSO and GRO where they are.
    pub offload: bool,
    pub unfragmented: bool,
}
