//! Mark in a simulated packet that says whether the appliances look at it.

/// Where a packet says whether it is protected.
pub(super) const PROTECTED_AT: usize = 28;

/// Whether the appliances look at a packet.
pub(super) fn is_protected(packet: &[u8]) -> bool {
    packet[PROTECTED_AT] == 1
}
