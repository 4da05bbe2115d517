//! Counters of a port.

/// Counters of a port's frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortCounters {
    /// Frames that came in.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Lost on the way in: the program was too slow, or they were not as on the wire (offloads).
    pub unwanted: u64,
    /// Of these: not as on the wire.
    pub unlike: u64,
    /// Sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Refused by the interface: too long, or down.
    pub refused: u64,
    /// Trimmed to their headers on the way out.
    pub trimmed: u64,
    /// Marked on the way out.
    pub marked: u64,
    /// Data frames dropped on the way out: the queue was full.
    pub dropped: u64,
    /// Headers and control packets dropped on the way out.
    pub dropped_control: u64,
    /// Most data frames that waited.
    pub longest: u32,
}
