//! Long link of a simulation: rate, tail-drop queue, delay, and losses of its own.

use wellspring_core::{Duration, RandomStream, Seed, Time};

/// Bytes of the layer below IP that a packet takes on the link.
const FRAME: u64 = 14;

/// A burst ends then, whatever it has taken: counted in packets alone, it would keep a connection of which all is
/// sent again after ever longer waits silent for minutes.
const LONGEST_BURST: Duration = Duration::from_millis(100);

/// What a link loses by itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Loss {
    /// Each packet by itself, with this probability.
    Random(f64),
    /// This part of the packets, in runs of so many.
    Bursts(f64, u32),
}

impl Loss {
    /// No loss.
    pub const NONE: Loss = Loss::Random(0.0);
}

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    bits_per_second: u64,
    delay: Duration,
    /// The longest wait in the queue; what would wait longer is dropped.
    queue: Duration,
    free_at: Time,
    /// What is lost from each time on.
    losses: Vec<(Duration, Loss)>,
    left_of_burst: u32,
    burst_ends: Time,
    random: RandomStream,
    /// Packets that the queue dropped.
    pub drops: u64,
    /// Packets given to the link, and their bytes.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Link {
    /// A link that loses from each time on what stands beside it.
    pub fn new(
        bits_per_second: u64,
        delay: Duration,
        queue: Duration,
        losses: &[(Duration, Loss)],
        (seed, name): (Seed, &str),
    ) -> Self {
        Link {
            bits_per_second,
            delay,
            queue,
            free_at: Time::ZERO,
            losses: losses.to_vec(),
            left_of_burst: 0,
            burst_ends: Time::ZERO,
            random: seed.stream(name),
            drops: 0,
            packets: 0,
            bytes: 0,
        }
    }

    /// When an IP packet of that length arrives that is sent now, if it does.
    pub fn send(&mut self, now: Time, len: usize) -> Option<Time> {
        let free = self.free_at.later_of(now);
        if free.since(now) > self.queue {
            self.drops += 1;
            return None;
        }
        self.packets += 1;
        self.bytes += len as u64;
        let bits = (len as u64 + FRAME) * 8;
        self.free_at = free + Duration::from_nanos(bits * 1_000_000_000 / self.bits_per_second);
        if self.loses(now) {
            return None;
        }
        Some(self.free_at + self.delay)
    }

    fn loses(&mut self, now: Time) -> bool {
        if self.left_of_burst > 0 && now.is_before(self.burst_ends) {
            self.left_of_burst -= 1;
            return true;
        }
        let begun = |&&(from, _): &&(Duration, Loss)| now.has_reached(Time::ZERO + from);
        match self.losses.iter().rev().find(begun).map_or(Loss::NONE, |&(_, loss)| loss) {
            Loss::Random(part) => part > 0.0 && self.random.unit() < part,
            Loss::Bursts(part, packets) => {
                let begins = self.random.unit() < part / (f64::from(packets) * (1.0 - part));
                if begins {
                    self.left_of_burst = packets - 1;
                    self.burst_ends = now + LONGEST_BURST;
                }
                begins
            }
        }
    }
}
