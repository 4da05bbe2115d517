//! The receive side's report of loss.

use wellspring_core::Duration;

/// The receive side's report to the send side about a span of packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LossReport {
    /// Packets that were sent, but for those of congested times.
    pub packets: u32,
    /// Those of them that did not arrive by themselves.
    pub lost: u32,
    /// Runs of lost packets.
    pub bursts: u32,
    /// Packets brought back in the same time.
    pub recovered: u32,
    /// Nineteen of twenty lost packets were in bursts no longer than this \[packets\].
    pub usual_burst: u16,
    /// The longest burst \[packets\].
    pub longest_burst: u16,
    /// Packets that were sent while the path's queue was long, and dropped packets.
    pub congested: u32,
    /// Those of them that did not arrive by themselves: congestion, and no fault of the link.
    pub congested_lost: u32,
    /// Whether hosts fill the path: it has a queue that lasts where nothing was lost, or one that drops beyond chance.
    pub full: bool,
    /// What the newest datagram waited in queues.
    pub queue_delay: Duration,
    /// Thousandths of the time since the last report in which datagrams waited in a queue.
    pub queued: u16,
    /// The least round trip between the appliances of late, as the end measures that hears the report; zero if it is
    /// not known.
    pub round_trip: Duration,
}

impl LossReport {
    /// Part of the packets lost, 0 to 1, but for drops of full queues.
    pub fn loss(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { f64::from(self.lost) / f64::from(self.packets) }
    }
}

impl LossReport {
    /// This and another part of the same link's packets together.
    #[must_use]
    pub fn and(&self, other: &LossReport) -> LossReport {
        LossReport {
            packets: self.packets.saturating_add(other.packets),
            lost: self.lost.saturating_add(other.lost),
            bursts: self.bursts.saturating_add(other.bursts),
            recovered: self.recovered.saturating_add(other.recovered),
            usual_burst: self.usual_burst.max(other.usual_burst),
            longest_burst: self.longest_burst.max(other.longest_burst),
            congested: self.congested.saturating_add(other.congested),
            congested_lost: self.congested_lost.saturating_add(other.congested_lost),
            full: self.full || other.full,
            queue_delay: self.queue_delay.max(other.queue_delay),
            queued: self.queued.max(other.queued),
            round_trip: self.round_trip.max(other.round_trip),
        }
    }
}
