//! The packet as a switch sees it.

use wellspring_core::Class;

/// A packet as a switch sees it.
pub trait Packet {
    /// Length on the wire, all headers and framing included \[bytes\].
    fn wire_len(&self) -> u32;
    /// Priority class, 0 served first. On a port with a control queue, class 0 is that queue.
    fn class(&self) -> Class;
    /// Whether there is a payload to cut away. Control packets and headers are never cut.
    fn trimmable(&self) -> bool;
    /// Cuts the payload away; from then on the packet is of class 0 and not trimmable.
    fn trim(&mut self);
    /// Marks "congestion experienced" if the packet's transport reads marks; returns whether it did.
    fn mark(&mut self) -> bool;
}
