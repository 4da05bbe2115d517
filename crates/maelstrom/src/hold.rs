//! Hold queue of recovered packets.
//!
//! A recovered packet waits a little before it leaves: where its repair has only overtaken it, the packet
//! itself arrives meanwhile, and would otherwise arrive twice.
//!
//! On a link that loses, TCP's do not wait. TCP drops what comes twice, and learns from it that the path
//! reorders (DSACK, RFC 2883): without, it takes packets that a far layer brings back late for lost. On a
//! link that loses nothing there is nothing to learn, and they wait like others.
//!
//! Packets wait for as long as was configured, and longer where repairs have been seen to overtake by more.

use std::collections::VecDeque;

use wellspring_codec::interleave::PacketName;
use wellspring_core::{Duration, Time};

use crate::batch::Batch;
use crate::identity::is_tcp;

/// How long it is remembered, once to twice, by how much repairs overtook.
const LEARNT_FOR: Duration = Duration::from_secs(10);
/// What is learnt from at most.
const LONGEST: Duration = Duration::from_millis(10);

/// A packet that was brought back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The layer whose XOR did it.
    pub layer: u8,
    /// How long after it should have arrived, as its neighbours did; unknown if none of them did.
    pub late: Option<Duration>,
}

#[derive(Debug)]
struct Held {
    due: Time,
    name: PacketName,
    layer: u8,
    /// When it should have arrived.
    expected: Option<Time>,
    bytes: Vec<u8>,
}

/// Recovered packets in the order in which they leave.
#[derive(Debug)]
pub(crate) struct Hold {
    span: Duration,
    /// The longest that a repair was ahead of its packet, now and before, and when the former began.
    ahead: [Duration; 2],
    ahead_since: Time,
    /// Packets held at most.
    most: usize,
    held: VecDeque<Held>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
}

impl Hold {
    pub(crate) fn new(span: Duration, most: usize) -> Self {
        let (ahead, ahead_since) = ([Duration::ZERO; 2], Time::ZERO);
        Hold { span, ahead, ahead_since, most, held: VecDeque::new(), spare: Vec::new() }
    }

    /// A packet has come so long after the first repair that names it.
    pub(crate) fn learn(&mut self, now: Time, ahead: Duration) {
        if now.has_reached(self.ahead_since + LEARNT_FOR) {
            (self.ahead, self.ahead_since) = ([Duration::ZERO, self.ahead[0]], now);
        }
        // What comes later still was lost and sent again.
        if ahead <= LONGEST {
            self.ahead[0] = self.ahead[0].max(ahead);
        }
    }

    /// How long packets wait.
    fn wait(&self) -> Duration {
        if self.span == Duration::ZERO {
            return self.span;
        }
        let [now, before] = self.ahead;
        let ahead = now.max(before);
        // Half as long again: the next may be later.
        self.span.max(Duration::from_picos(ahead.as_picos() / 2 * 3))
    }

    /// Takes in a packet, whose bytes `write` appends.
    pub(crate) fn put(
        &mut self,
        now: Time,
        tcp_waits: bool,
        name: PacketName,
        layer: u8,
        expected: Option<Time>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        write(&mut bytes);
        let due = if is_tcp(&bytes) && !tcp_waits { now } else { now + self.wait() };
        let place = self.held.partition_point(|held| due.has_reached(held.due));
        self.held.insert(place, Held { due, name, layer, expected, bytes });
    }

    /// The packet itself has come: what was brought back goes nowhere. Returns whether it was here.
    pub(crate) fn withdraw(&mut self, name: PacketName) -> bool {
        // Few are held, and few come late.
        let Some(place) = self.held.iter().position(|held| held.name == name) else { return false };
        let held = self.held.remove(place).expect("it was found there");
        self.reuse(held.bytes);
        true
    }

    /// When the next one leaves.
    pub(crate) fn next(&self) -> Option<Time> {
        self.held.front().map(|held| held.due)
    }

    /// Lets go of what has waited long enough, and of the oldest beyond what may be held; `finish` changes what is to be
    /// changed in it.
    pub(crate) fn release(
        &mut self,
        now: Time,
        out: &mut Batch,
        latest: &mut Vec<Recovered>,
        mut finish: impl FnMut(&mut [u8]),
    ) {
        while let Some(first) = self.held.front()
            && (now.has_reached(first.due) || self.held.len() > self.most)
            && let Some(mut held) = self.held.pop_front()
        {
            finish(&mut held.bytes);
            out.push(&held.bytes);
            let late = held.expected.map(|expected| now.since(expected));
            latest.push(Recovered { layer: held.layer, late });
            self.reuse(held.bytes);
        }
    }

    fn reuse(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.spare.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn hold_of(names: impl Iterator<Item = u64>, most: usize) -> Hold {
        let mut hold = Hold::new(MS, most);
        for name in names {
            hold.put(Time::ZERO, false, PacketName(name), 0, None, |bytes| bytes.push(name as u8));
        }
        hold
    }

    fn released(hold: &mut Hold, now: Time) -> Vec<u8> {
        let (mut out, mut latest) = (Batch::new(), Vec::new());
        hold.release(now, &mut out, &mut latest, |_| {});
        assert_eq!(out.len(), latest.len());
        out.iter().flatten().copied().collect()
    }

    #[test]
    fn what_comes_meanwhile_is_not_sent() {
        let mut hold = hold_of(0..4, 10);
        assert!(hold.withdraw(PacketName(2)) && !hold.withdraw(PacketName(2)));
        assert_eq!(hold.next(), Some(Time::ZERO + MS));
        assert!(released(&mut hold, Time::ZERO).is_empty());
        assert_eq!(released(&mut hold, Time::ZERO + MS), [0, 1, 3]);
        assert!(hold.next().is_none() && !hold.withdraw(PacketName(0)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut hold = hold_of(0..20, 8);
        assert_eq!(released(&mut hold, Time::ZERO), (0..12).collect::<Vec<u8>>());
        assert_eq!(hold.held.len(), 8);
        assert_eq!(released(&mut hold, Time::ZERO + MS).len(), 8);
        assert_eq!(hold.spare.len(), 20);
    }

    #[test]
    fn tcp_does_not_wait_where_the_link_loses() {
        let mut hold = hold_of(0..2, 10);
        for (name, first, tcp) in [(10, 0x45, 9), (11, 0x60, 6)] {
            hold.put(Time::ZERO, false, PacketName(name), 0, None, |bytes| {
                bytes.extend([name as u8; 40]);
                bytes[0] = first;
                bytes[tcp] = 6;
            });
        }
        hold.put(Time::ZERO, false, PacketName(12), 0, None, |bytes| {
            bytes.extend([0x45, 0, 0, 0, 0, 0, 6, 0, 0, 17]);
        });
        assert_eq!(hold.next(), Some(Time::ZERO));
        let at_once = released(&mut hold, Time::ZERO);
        assert_eq!((at_once.len(), at_once[1], at_once[41]), (80, 10, 11));
        assert_eq!(hold.next(), Some(Time::ZERO + MS));
        assert_eq!(released(&mut hold, Time::ZERO + MS)[..2], [0, 1]);
    }
}
