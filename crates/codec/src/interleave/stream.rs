//! Common interface of codes over a stream of packets: layered interleaving is one, block codes
//! with interleave ([`BlockSender`](super::BlockSender)) are others. Whoever compares codes drives
//! them through these two traits.

use super::{InterleaveError, Interleaver, PacketName, Recoverer, Repair};

/// What a receiver asks about a packet that came back: its name, its bytes and the layer that did
/// it. The answer is whether the bytes deserve their name.
pub type Accept<'a> = &'a mut dyn FnMut(PacketName, &[u8], u8) -> bool;

/// The send side of a code over a stream of packets.
pub trait StreamSender {
    /// Takes the next packet; calls `send` with the repairs that are to follow it.
    ///
    /// # Errors
    /// The packet is longer than was agreed.
    fn take(
        &mut self,
        name: PacketName,
        packet: &[u8],
        send: &mut dyn FnMut(Repair<'_>),
    ) -> Result<(), InterleaveError>;
}

/// The receive side of a code over a stream of packets.
pub trait StreamReceiver {
    /// Takes in a packet that arrived.
    ///
    /// # Errors
    /// The packet is longer than was agreed.
    fn packet(
        &mut self,
        name: PacketName,
        packet: &[u8],
        accept: Accept<'_>,
    ) -> Result<(), InterleaveError>;

    /// Takes in a repair.
    ///
    /// # Errors
    /// It has a shape that no sender gives.
    fn repair(&mut self, repair: &Repair<'_>, accept: Accept<'_>) -> Result<(), InterleaveError>;
}

impl StreamSender for Interleaver {
    fn take(
        &mut self,
        name: PacketName,
        packet: &[u8],
        send: &mut dyn FnMut(Repair<'_>),
    ) -> Result<(), InterleaveError> {
        self.add(name, packet, send)
    }
}

impl StreamReceiver for Recoverer {
    fn packet(
        &mut self,
        name: PacketName,
        packet: &[u8],
        accept: Accept<'_>,
    ) -> Result<(), InterleaveError> {
        self.on_packet(name, packet, accept)
    }

    fn repair(&mut self, repair: &Repair<'_>, accept: Accept<'_>) -> Result<(), InterleaveError> {
        self.on_repair(repair, accept)
    }
}
