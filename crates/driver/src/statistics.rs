//! Counters of a driver.

use std::collections::BTreeMap;

use wellspring_core::DropReason;
use wellspring_trust::TrustCounters;

use crate::Faults;

/// By which way datagrams come in: it decides whether trimmed ones are seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ReceivePath {
    /// An ordinary UDP socket. Linux discards datagrams that a switch has trimmed (their UDP
    /// length is no longer true): losses are inferred instead.
    #[default]
    Socket,
    /// An ordinary UDP socket for whole datagrams, a filtered raw socket for trimmed ones.
    SocketAndTap,
}

/// A snapshot of a driver's counters, all since it started.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Statistics {
    /// By which way datagrams come in.
    pub receive_path: ReceivePath,
    /// Whether batches go out by segmentation offload (GSO).
    pub segmentation: bool,
    /// Whether datagrams may come in coalesced (GRO).
    pub coalescing: bool,
    /// The receive buffer the system granted \[bytes\].
    pub receive_buffer: usize,
    /// The send buffer the system granted \[bytes\].
    pub send_buffer: usize,
    /// Faults in force, if any: no figure of this driver is to be reported without them.
    pub faults: Option<Faults>,
    /// Sessions open.
    pub sessions: usize,
    /// Hosts that sessions name.
    pub peers: usize,
    /// Multicast groups listened to.
    pub groups: usize,
    /// Bytes of received blocks held now \[bytes\].
    pub receive_memory: usize,
    /// Bytes of blocks to send held now \[bytes\].
    pub send_memory: usize,
    /// What came in.
    pub received: Received,
    /// What went out.
    pub sent: Sent,
    /// What was done to arriving datagrams on purpose.
    pub injected: Injected,
    /// What the keys have met, of drivers that have any.
    pub trust: Option<TrustCounters>,
}

/// What came in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Datagrams.
    pub datagrams: u64,
    /// Their UDP payload \[bytes\].
    pub bytes: u64,
    /// System calls that brought any.
    pub calls: u64,
    /// Batches (one or more coalesced datagrams).
    pub batches: u64,
    /// Datagrams that the system dropped because a socket's buffer was full.
    pub socket_dropped: u64,
    /// Symbols kept.
    pub symbols_kept: u64,
    /// Symbols that came trimmed.
    pub trimmed: u64,
    /// Datagrams marked by the network (ECN congestion experienced).
    pub marked: u64,
    /// Control messages handed over.
    pub control: u64,
    /// Control messages for which the queue had no room.
    pub control_dropped: u64,
    /// Datagrams to a multicast group that were no symbols: nothing else goes to one.
    pub not_for_groups: u64,
    /// Datagrams that were no packets of ours (see [`wellspring_wire::ParseError`]).
    pub malformed: u64,
    /// Symbols of another length than their session's.
    pub wrong_length: u64,
    /// Packets from addresses that no session names.
    pub strangers: u64,
    /// Symbols for whose block there was no memory; they count as lost on the way.
    pub out_of_memory: u64,
    /// Packets of senders refused for announcing other bytes.
    pub refused_senders: u64,
    /// Groups left because of a wrong symbol that any member could have forged.
    pub groups_left: u64,
    /// Packets the protocol did not use, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Errors of earlier datagrams that the network reported (ICMP).
    pub icmp_errors: u64,
    /// Other errors of the receive call.
    pub errors: u64,
}

/// What went out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Datagrams.
    pub datagrams: u64,
    /// Their UDP payload \[bytes\].
    pub bytes: u64,
    /// System calls that took any.
    pub calls: u64,
    /// Batches (one or more datagrams for segmentation).
    pub batches: u64,
    /// Source symbols.
    pub source_symbols: u64,
    /// Repair symbols.
    pub repair_symbols: u64,
    /// Symbols of LT codes, of which none is a source or a repair symbol.
    pub lt_symbols: u64,
    /// Pulls.
    pub pulls: u64,
    /// Control messages.
    pub control: u64,
    /// Packets for unknown sessions answered with a close.
    pub closes_to_strangers: u64,
    /// Such answers withheld to stay within their rate.
    pub closes_withheld: u64,
    /// Times the socket had no room.
    pub blocked: u64,
    /// Batches the system refused and that were lost.
    pub errors: u64,
    /// Batches that could not be segmented and went out one by one.
    pub segmentation_failures: u64,
    /// Symbols that had to wait until their block was read.
    pub waited_for_block: u64,
}

/// What was done to arriving datagrams on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Injected {
    /// Datagrams lost.
    pub lost: u64,
    /// Datagrams doubled.
    pub duplicated: u64,
    /// Symbols trimmed.
    pub trimmed: u64,
    /// Datagrams delayed out of order.
    pub reordered: u64,
    /// Datagrams dropped at the bottleneck's queue.
    pub overflowed: u64,
}
