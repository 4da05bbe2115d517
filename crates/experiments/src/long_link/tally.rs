//! Counts of what hosts at a long link send and receive, and the digest of all deliveries.

use wellspring_core::Time;
use wellspring_sim::Counters;

use crate::look::{PacketKind, Traffic};
use crate::record::Timeout;

/// Of all flows.
#[derive(Debug)]
pub(super) struct Tally {
    pub counters: Counters,
    pub traffic: Traffic,
    pub timeouts: Vec<Timeout>,
    /// When something came last.
    pub heard_at: Time,
}

impl Default for Tally {
    fn default() -> Self {
        let none = vec![0; 2];
        Tally {
            counters: Counters::default(),
            traffic: Traffic { sent: none.clone(), received: none, ..Traffic::default() },
            timeouts: Vec::new(),
            heard_at: Time::ZERO,
        }
    }
}

impl Tally {
    pub fn on_sent(&mut self, kind: PacketKind) {
        self.counters.sent += 1;
        match kind {
            PacketKind::Data => self.traffic.first += 1,
            PacketKind::Again => self.traffic.again += 1,
            _ => {}
        }
    }

    /// A packet of that flow with so much payload is there, over the link or brought back.
    pub fn on_received(&mut self, now: Time, host: usize, flow: usize, payload: usize) {
        self.traffic.received[host] += payload as u64;
        self.traffic.sent[1 - host] += payload as u64;
        self.counters.on_delivered(now, host as u32, flow as u32, (payload as u32, false));
        self.heard_at = now;
    }
}
