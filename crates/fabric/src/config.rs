//! Configuration of a port.

use wellspring_core::Class;

/// The length of a queue at which it is full (or, for ECN, long).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// So many packets.
    Packets(u32),
    /// So many bytes on the wire.
    Bytes(u64),
    /// Never.
    Unlimited,
}

impl Limit {
    /// Whether one more packet of `len` bytes fits behind `packets` packets of `bytes` bytes.
    pub fn admits(self, packets: u32, bytes: u64, len: u32) -> bool {
        match self {
            Limit::Packets(limit) => packets < limit,
            Limit::Bytes(limit) => bytes + u64::from(len) <= limit,
            Limit::Unlimited => true,
        }
    }

    /// Whether a queue of that length has come up to the limit.
    pub fn reached(self, packets: u32, bytes: u64) -> bool {
        match self {
            Limit::Packets(limit) => packets >= limit,
            Limit::Bytes(limit) => bytes >= limit,
            Limit::Unlimited => false,
        }
    }
}

/// Whose the data buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// All data classes share one limit, as in the SCDP authors' published models ("allocated to
    /// 5 packet queues", SCDP §V, leaves it open).
    Shared,
    /// Each data class has the limit for itself.
    Split,
}

/// Which packet loses its payload when a trimming port is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// The one that arrives, even if of a higher class (the SCDP authors' models).
    Arriving,
    /// By a fair coin the one that arrives or the last of its class (NDP §3.1: breaks phase
    /// effects between synchronised senders).
    ArrivingOrLast,
    /// The last packet of the lowest class below the arriving one; the arriving one if there is
    /// none (push-out).
    LowestClass,
}

/// What happens to a data packet that finds the buffer full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// It is dropped.
    Drop,
    /// A payload is cut away, and the header goes to the control queue.
    Trim(Victim),
}

/// The queue for headers, pulls and other control packets (class 0).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlQueue {
    /// When it is full; what arrives then is dropped.
    pub limit: Limit,
    /// While both kinds wait, one data packet goes after every so many control packets; this
    /// guards against a link that carries nothing but headers (SCDP §IV-B). `u32::MAX` is strict
    /// priority.
    pub weight: u32,
}

impl ControlQueue {
    /// Unbounded, one data packet after nine headers: the SCDP authors' NDP model (`counter mod
    /// 10`).
    pub const PAPER: ControlQueue = ControlQueue { limit: Limit::Unlimited, weight: 9 };
}

/// Configuration of a [`Port`](crate::Port). Data classes are served in strict order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// The header/pull queue; without one, class 0 is data like the others.
    pub control: Option<ControlQueue>,
    /// Number of data queues, 1 to [`PortConfig::MAX_CLASSES`]; packets of lower classes go to
    /// the last.
    pub data_classes: u8,
    /// When the data queues are full.
    pub data_limit: Limit,
    /// Whose that limit is.
    pub sharing: Sharing,
    /// What happens then.
    pub overflow: Overflow,
    /// Data packets are marked on arrival when the port's data queues hold that much (RFC 8257
    /// §3.1, per port); [`Limit::Unlimited`] marks nothing.
    pub ecn_threshold: Limit,
}

impl PortConfig {
    /// The most data classes a port has.
    pub const MAX_CLASSES: u8 = 8;
    /// Queues of a port: that of control packets, and one for each data class.
    pub const QUEUES: usize = 1 + Self::MAX_CLASSES as usize;

    /// The number of the queue of a class, below [`PortConfig::QUEUES`]: 0 is the control queue, data queues follow in
    /// the order in which they are served.
    #[inline]
    pub fn queue(&self, class: Class) -> usize {
        if self.control.is_some() && class == 0 {
            return 0;
        }
        // Data classes count from 1 where there is a control queue, else from 0.
        let first = u8::from(self.control.is_some());
        let last = self.data_classes.clamp(1, Self::MAX_CLASSES) - 1;
        1 + usize::from(class.saturating_sub(first).min(last))
    }

    /// One FIFO that drops what does not fit.
    pub const fn drop_tail(limit: Limit) -> Self {
        PortConfig {
            control: None,
            data_classes: 1,
            data_limit: limit,
            sharing: Sharing::Shared,
            overflow: Overflow::Drop,
            ecn_threshold: Limit::Unlimited,
        }
    }

    /// NDP's port: a header/pull queue and one data queue that trims (NDP §3.1).
    pub const fn trimming(limit: Limit) -> Self {
        PortConfig::trimming_classes(limit, 1)
    }

    /// SCDP's port: a header/pull queue and MLFQ data queues that share a limit (SCDP §IV-B).
    pub const fn trimming_classes(limit: Limit, data_classes: u8) -> Self {
        PortConfig {
            control: Some(ControlQueue::PAPER),
            data_classes,
            data_limit: limit,
            sharing: Sharing::Shared,
            overflow: Overflow::Trim(Victim::Arriving),
            ecn_threshold: Limit::Unlimited,
        }
    }

    /// Strict-priority classes that share a limit, drop and mark (PIAS).
    pub const fn priorities(limit: Limit, data_classes: u8, ecn_threshold: Limit) -> Self {
        PortConfig {
            control: None,
            data_classes,
            data_limit: limit,
            sharing: Sharing::Shared,
            overflow: Overflow::Drop,
            ecn_threshold,
        }
    }
}
