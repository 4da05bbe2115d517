//! Events of a simulated long link, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wellspring_core::Time;

/// What a flow has set a timer for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    Sender,
    Acknowledgement,
    Write,
    Request(u64),
}

/// What happens at a time.
#[derive(Debug)]
pub(super) enum Event {
    /// A packet comes out of the link at that site.
    Packet(usize, Vec<u8>),
    /// A datagram between the appliances does.
    Datagram(usize, Vec<u8>),
    /// An appliance's timer.
    Appliance(usize),
    /// An appliance reports.
    Report(usize),
    /// Something of a flow.
    Flow(usize, Timer),
}

#[derive(Debug)]
pub(super) struct Entry(pub Time, pub u64, pub Event);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.as_picos(), self.1).cmp(&(other.0.as_picos(), other.1))
    }
}

/// Events in the order of time, and of their making.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    pub heap: BinaryHeap<Reverse<Entry>>,
    made: u64,
}

impl Agenda {
    pub fn add(&mut self, at: Time, event: Event) {
        self.made += 1;
        self.heap.push(Reverse(Entry(at, self.made, event)));
    }
}
