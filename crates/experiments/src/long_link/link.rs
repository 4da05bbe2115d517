//! Long link of a simulation: rate, tail-drop queue, delay, and losses of its own.

use std::collections::VecDeque;

use wellspring_core::{Duration, RandomStream, Seed, Time};

use crate::look::PacketKind;

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

/// A packet that waits for a link or is on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    /// When it begins to leave the queue, and when it is whole at the other end.
    pub starts: Time,
    pub arrives: Time,
    pub kind: PacketKind,
    pub lost: bool,
}

impl Carried {
    /// When it is at the relay in the middle, where it is lost if it is.
    pub fn at_relay(&self) -> Time {
        self.starts + self.arrives.since(self.starts) / 2
    }
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
    /// When the relay in the middle is down, in the order of time.
    outages: Vec<(Time, Time)>,
    /// What waits or is on its way, in the order in which it was sent.
    carried: VecDeque<Carried>,
    /// Packets that the relay has lost and that are forgotten.
    lost: u64,
    /// Packets lost in outages of the relay.
    pub lost_down: u64,
    /// Packets lost at random.
    pub lost_at_random: u64,
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
            outages: Vec::new(),
            carried: VecDeque::new(),
            lost: 0,
            lost_down: 0,
            lost_at_random: 0,
            drops: 0,
            packets: 0,
            bytes: 0,
        }
    }

    /// Its rate.
    pub(super) fn bits_per_second(&self) -> u64 {
        self.bits_per_second
    }

    /// The same, whose relay is down in these spans.
    pub(super) fn with_outages(self, outages: Vec<(Time, Time)>) -> Self {
        Link { outages, ..self }
    }

    /// When an IP packet of that length arrives that is sent now, if it does.
    pub(super) fn send(&mut self, now: Time, len: usize, kind: PacketKind) -> Option<Time> {
        let free = self.free_at.later_of(now);
        if free.since(now) > self.queue {
            self.drops += 1;
            return None;
        }
        self.packets += 1;
        self.bytes += len as u64;
        let bits = (len as u64 + FRAME) * 8;
        self.free_at = free + Duration::from_nanos(bits * 1_000_000_000 / self.bits_per_second);
        let arrives = self.free_at + self.delay;
        let mut carried = Carried { starts: free, arrives, kind, lost: self.loses(now) };
        self.lost_at_random += u64::from(carried.lost);
        let at = carried.at_relay();
        if !carried.lost && self.is_down(at) {
            carried.lost = true;
            self.lost_down += 1;
        }
        self.forget(now);
        self.carried.push_back(carried);
        (!carried.lost).then_some(arrives)
    }

    /// Forgets what has arrived.
    fn forget(&mut self, now: Time) {
        while let Some(first) = self.carried.front()
            && now.has_reached(first.arrives)
        {
            self.lost += u64::from(first.lost);
            self.carried.pop_front();
        }
    }

    /// What waits or is on its way, but for what the relay has lost.
    pub(super) fn carried(&self, now: Time) -> impl Iterator<Item = &Carried> {
        let there = move |one: &&Carried| {
            let end = if one.lost { one.at_relay() } else { one.arrives };
            now.is_before(end)
        };
        self.carried.iter().filter(there)
    }

    /// Packets that the relay has lost.
    pub(super) fn lost(&self, now: Time) -> u64 {
        let behind = |one: &&Carried| one.lost && now.has_reached(one.at_relay());
        self.lost + self.carried.iter().filter(behind).count() as u64
    }

    fn is_down(&self, at: Time) -> bool {
        self.outages.iter().any(|&(from, to)| at.has_reached(from) && at.is_before(to))
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
