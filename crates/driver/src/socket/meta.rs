//! What goes and comes with datagrams, on whatever system.

use std::net::{IpAddr, SocketAddr};

/// Messages sent by one call, at most.
pub(super) const SEND_BATCH: usize = 16;
/// Messages received by one call, at most.
pub(super) const RECEIVE_BATCH: usize = 16;

/// What goes with a datagram (or a GSO batch) on its way out.
#[derive(Clone, Copy, Debug)]
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
