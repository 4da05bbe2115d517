//! Proportional rate reduction (RFC 6937): how much is sent while losses are recovered from.

/// Of one recovery (§3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduction {
    /// Packets in flight when it began.
    in_flight: u64,
    /// Packets delivered and sent since then.
    delivered: u64,
    sent: u64,
    /// Packets that may be sent now.
    credit: u64,
}

impl Reduction {
    pub fn new(in_flight: u64) -> Self {
        // The first packet is sent again at once.
        Reduction { in_flight, delivered: 0, sent: 0, credit: 1 }
    }

    /// Whether nothing may be sent now.
    pub fn is_full(&self) -> bool {
        self.credit == 0
    }

    pub fn on_sent(&mut self) {
        self.credit = self.credit.saturating_sub(1);
        self.sent += 1;
    }

    /// An acknowledgement says that so many more packets are there.
    pub fn on_delivered(&mut self, delivered: u64, in_flight: u64, threshold: u64) {
        self.delivered += delivered;
        self.credit = if in_flight > threshold {
            let share = (self.delivered * threshold).div_ceil(self.in_flight.max(1));
            share.saturating_sub(self.sent)
        } else {
            // The slow start reduction bound.
            let limit = self.delivered.saturating_sub(self.sent).max(delivered) + 1;
            (threshold - in_flight).min(limit)
        };
    }
}
