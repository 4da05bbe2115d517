//! Link and faults of a host of the virtual network.

use wellspring_core::{Duration, Rate};

/// What goes wrong on the way to a host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Probability that a frame is lost, pulls and headers too.
    pub loss: f64,
    /// Probability that a frame with payload is trimmed.
    pub trim: f64,
    /// Probability that a frame comes twice.
    pub duplicate: f64,
    /// Probability that a frame is delayed by up to `reorder_by`.
    pub reorder: f64,
    /// Greatest such delay.
    pub reorder_by: Duration,
    /// Probability that a frame arrives marked (ECN), if capable.
    pub mark: f64,
}

/// A host's link and manners.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig {
    /// Link rate, both ways.
    pub rate: Rate,
    /// One-way delay to the switch.
    pub delay: Duration,
    /// Frames with payload the switch port to this host holds.
    pub queue: usize,
    /// Whether that port trims what does not fit (or drops it).
    pub trims: bool,
    /// Whether that port marks (ECN) what waits behind half a queue.
    pub marks: bool,
    /// Faults on the way to this host.
    pub faults: Faults,
    /// How long finishing a block takes.
    pub work: Duration,
    /// The host is late by up to so much, mostly by far less: then it takes all that has arrived at once.
    pub late: Duration,
}

impl HostConfig {
    /// 1 Gbit/s, 10 us a link, 20 packets, trimming, no faults, instant work.
    pub fn new() -> Self {
        HostConfig {
            rate: Rate::from_mbps(1_000),
            delay: Duration::from_micros(10),
            queue: 20,
            trims: true,
            marks: true,
            faults: Faults::default(),
            work: Duration::ZERO,
            late: Duration::ZERO,
        }
    }
}

impl Default for HostConfig {
    fn default() -> Self {
        Self::new()
    }
}
