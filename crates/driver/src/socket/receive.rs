//! Buffers for received batches, allocated once.

use std::net::{IpAddr, SocketAddr};

use super::meta::{RECEIVE_BATCH, ReceiveMeta};

/// Bytes of one receive buffer: the largest batch that receive coalescing hands over.
const BUFFER_LEN: usize = 65_536;

/// Bytes of the same for a virtual socket, which hands over one datagram at a time: one of the longest frame of Ethernet.
#[cfg(feature = "simulation")]
const VIRTUAL_BUFFER_LEN: usize = 9_216;

/// Receive buffers, filled again and again by [`UdpSocket::receive`](super::UdpSocket::receive):
/// 1 MiB in all.
pub struct ReceiveBatch {
    pub(super) buffers: Vec<Box<[u8]>>,
    pub(super) found: Vec<ReceiveMeta>,
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        ReceiveBatch::with_buffers_of(BUFFER_LEN)
    }
}

impl ReceiveBatch {
    /// Buffers for a virtual socket.
    #[cfg(feature = "simulation")]
    pub(crate) fn of_virtual_socket() -> Self {
        ReceiveBatch::with_buffers_of(VIRTUAL_BUFFER_LEN)
    }

    fn with_buffers_of(len: usize) -> Self {
        ReceiveBatch {
            buffers: (0..RECEIVE_BATCH).map(|_| vec![0; len].into_boxed_slice()).collect(),
            found: Vec::with_capacity(RECEIVE_BATCH),
        }
    }

    /// Whether the last receive filled every buffer: there may be more.
    pub fn is_full(&self) -> bool {
        self.found.len() == self.buffers.len()
    }

    /// The batches of the last receive, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = Received<'_>> {
        self.found.iter().zip(&self.buffers).map(|(meta, buffer)| Received {
            from: meta.from,
            local: meta.local,
            interface: meta.interface,
            dscp: meta.traffic_class >> 2,
            ecn: meta.traffic_class & 3,
            truncated: meta.truncated,
            segment: meta.segment,
            bytes: &buffer[..meta.len.min(buffer.len())],
        })
    }
}

/// Datagrams that came together from one address: one, or several that the kernel coalesced.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Who sent them, by their own account; IPv4 addresses are always given as such.
    pub from: SocketAddr,
    /// The address they were sent to (ours or a group's), where the system tells.
    pub local: Option<IpAddr>,
    /// Index of the interface they came by; 0 where the system does not tell.
    pub interface: u32,
    /// DSCP of all of them, below 64.
    pub dscp: u8,
    /// The two ECN bits of all of them (RFC 3168 §5): 0 not capable, 1 and 2 capable, 3 marked.
    pub ecn: u8,
    /// The buffer was too small: the end is lost.
    pub truncated: bool,
    /// Bytes of each datagram; the last may be shorter.
    pub segment: usize,
    /// The datagrams, one behind the other.
    pub bytes: &'a [u8],
}

impl<'a> Received<'a> {
    /// The datagrams one by one; an empty datagram is none.
    pub fn datagrams(&self) -> Datagrams<'a> {
        self.bytes.chunks(self.segment.max(1))
    }
}

/// Datagrams of a batch.
pub type Datagrams<'a> = std::slice::Chunks<'a, u8>;
