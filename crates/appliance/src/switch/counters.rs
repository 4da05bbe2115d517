//! Counters of ports and of their queues.

use wellspring_fabric::PortConfig;

/// Counters of a queue of a port.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueueCounters {
    /// Frames that left it.
    pub sent: u64,
    /// Their bytes, without preamble, checksum and gap.
    pub sent_bytes: u64,
    /// Frames that were to wait here and were trimmed to their headers.
    pub trimmed: u64,
    /// Frames marked "congestion experienced".
    pub marked: u64,
    /// Frames dropped because it was full.
    pub dropped: u64,
    /// What waits \[bytes on the wire\].
    pub bytes: u64,
    /// The most that ever waited \[bytes on the wire\].
    pub most_bytes: u64,
}

/// Counters of a port.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortCounters {
    /// Frames that came in.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Lost on the way in because the program was too slow: the ring had no room.
    pub overrun: u64,
    /// Dropped on the way in: not as on the wire (offloads).
    pub unlike: u64,
    /// Dropped on the way in: the port is not in their VLAN.
    pub wrong_vlan: u64,
    /// Not sent because their destination is behind the port that they came by.
    pub filtered: u64,
    /// Dropped between the threads of two ports: the sending port's thread was too slow.
    pub not_handed_over: u64,
    /// Sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Refused by the interface: too long, or down.
    pub refused: u64,
    /// Most data frames that waited.
    pub longest: u32,
    /// The queues by which frames leave: that of headers and control packets, then those of data, highest priority
    /// first.
    pub queues: [QueueCounters; PortConfig::QUEUES],
}

impl PortCounters {
    /// Frames trimmed to their headers on the way out.
    pub fn trimmed(&self) -> u64 {
        self.queues.iter().map(|queue| queue.trimmed).sum()
    }

    /// Frames marked on the way out.
    pub fn marked(&self) -> u64 {
        self.queues.iter().map(|queue| queue.marked).sum()
    }

    /// Data frames dropped on the way out: the queue was full.
    pub fn dropped(&self) -> u64 {
        self.queues[1..].iter().map(|queue| queue.dropped).sum()
    }

    /// Headers and control packets dropped on the way out.
    pub fn dropped_control(&self) -> u64 {
        self.queues[0].dropped
    }

    /// Frames lost on the way in.
    pub fn unwanted(&self) -> u64 {
        self.overrun + self.unlike + self.wrong_vlan + self.not_handed_over
    }
}
