//! Frequency of losses of late, and its comparison to another.

/// Runs of lost packets from which on their number and length say something.
pub(crate) const CERTAIN: f64 = 3.0;

/// How often packets were lost of late.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Frequency {
    pub(crate) packets: f64,
    pub(crate) lost: f64,
    /// Runs of lost packets.
    pub(crate) events: f64,
}

impl Frequency {
    pub(crate) fn add_packet(&mut self, span: f64) {
        self.packets += 1.0;
        if self.packets >= span {
            for count in [&mut self.packets, &mut self.lost, &mut self.events] {
                *count /= 2.0;
            }
        }
    }

    pub(crate) fn add_burst(&mut self, run: u32) {
        self.lost += f64::from(run);
        self.events += 1.0;
    }

    /// Whether losses are twice as frequent as in another, and so much more frequent as chance makes of one frequency
    /// once in two hundred times: packets lost, or runs of them. How many packets a run of the link has is known once
    /// there were some: until then runs count alone.
    pub(crate) fn exceeds(&self, other: &Frequency) -> bool {
        let exceeds = |count: f64, of_other: f64| {
            count * other.packets > 2.0 * of_other * self.packets
                && is_rare(count, of_other, self.packets / (self.packets + other.packets))
        };
        if exceeds(self.events, other.events) {
            return true;
        }
        let run = other.lost / other.events.max(1.0);
        other.events >= CERTAIN && exceeds(self.lost / run, other.lost / run)
    }
}

/// Whether chance gives so many losses of all to a class with that share of the packets once in two hundred times at most
/// (Chernoff's bound of the binomial distribution).
fn is_rare(count: f64, of_other: f64, share: f64) -> bool {
    const RARE: f64 = 5e-3;
    let all = count + of_other;
    let term = |count: f64, share: f64| {
        if count > 0.0 { count * (count / all / share).ln() } else { 0.0 }
    };
    count > all * share && term(count, share) + term(of_other, 1.0 - share) >= -RARE.ln()
}
