//! Egress of a port: the queues of `wellspring-fabric`, drained at the link's rate.
//!
//! Queues live in the time of the frames' arrival. When the program runs late, what arrived meanwhile finds them
//! as long as they would have been: frames are late then, and not trimmed for it.

use std::time::{Duration, Instant};

use wellspring_core::Class;
use wellspring_fabric::{Packet, Pool, Port, PortConfig};

use super::counters::PortCounters;
use super::frame::{self, Marking, Treatment};

/// What a frame has on the wire besides itself: preamble, checksum, gap \[bytes\].
const WIRE_OVERHEAD: u32 = 24;
/// The least that a frame is \[bytes\].
const LEAST: u32 = 60;

/// Frames' bytes, by number; memory is used again.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    slots: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Buffers {
    /// Keeps a copy of a frame.
    pub(super) fn keep(&mut self, frame: &[u8]) -> u32 {
        let slot = self.empty();
        self.slots[slot as usize].extend_from_slice(frame);
        slot
    }

    /// Keeps another copy of a frame.
    pub(super) fn copy(&mut self, of: u32) -> u32 {
        let slot = self.empty();
        let mut copy = core::mem::take(&mut self.slots[slot as usize]);
        copy.extend_from_slice(self.get(of));
        self.slots[slot as usize] = copy;
        slot
    }

    fn empty(&mut self) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Vec::new());
            u32::try_from(self.slots.len() - 1).expect("frames in memory fit 32 bits")
        });
        self.slots[slot as usize].clear();
        slot
    }

    pub(super) fn get(&self, slot: u32) -> &[u8] {
        &self.slots[slot as usize]
    }

    pub(super) fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }
}

/// A frame in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub slot: u32,
    len: u32,
    /// Its length when trimmed; 0 if it is not to be.
    cut: u32,
    class: Class,
    reads_marks: bool,
    trimmed: bool,
    marked: bool,
}

impl Waiting {
    pub(super) fn new(slot: u32, len: usize, treatment: Treatment) -> Self {
        // No interface's MTU comes near the bound.
        let bytes = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        Waiting {
            slot,
            len: bytes(len),
            cut: treatment.cut.map_or(0, bytes),
            class: treatment.class,
            reads_marks: treatment.reads_marks,
            trimmed: false,
            marked: false,
        }
    }
}

impl Packet for Waiting {
    fn wire_len(&self) -> u32 {
        self.len.max(LEAST) + WIRE_OVERHEAD
    }

    fn class(&self) -> Class {
        self.class
    }

    fn trimmable(&self) -> bool {
        self.cut > 0
    }

    fn trim(&mut self) {
        self.len = self.cut;
        self.cut = 0;
        self.class = 0;
        self.trimmed = true;
    }

    fn mark(&mut self) -> bool {
        self.marked |= self.reads_marks;
        self.reads_marks
    }
}

/// The queues of a port, and what leaves.
#[derive(Debug)]
pub(super) struct Egress {
    config: PortConfig,
    /// \[bit/s\]; as fast as the machine if none.
    rate: Option<u64>,
    queues: Port,
    pool: Pool<Waiting>,
    /// When the link can take the next frame.
    free: Instant,
    leaving: Vec<Waiting>,
}

impl Egress {
    pub(super) fn new(config: PortConfig, rate: Option<u64>, now: Instant) -> Self {
        Egress {
            config,
            rate,
            queues: Port::new(1),
            pool: Pool::new(),
            free: now,
            leaving: Vec::new(),
        }
    }

    /// Offers a frame that arrived then; no earlier than the one before.
    pub(super) fn offer(
        &mut self,
        at: Instant,
        frame: Waiting,
        buffers: &mut Buffers,
        counters: &mut PortCounters,
    ) {
        self.advance(at);
        if self.queues.is_empty() {
            self.free = self.free.max(at);
        }
        let handle = self.pool.insert(frame);
        let admission = self.queues.enqueue(&self.config, &mut self.pool, handle);
        counters.trimmed += u64::from(admission.trimmed);
        counters.marked += u64::from(admission.marked);
        if let Some(dropped) = admission.dropped {
            let frame = self.pool.remove(dropped);
            match frame.class {
                0 if self.config.control.is_some() => counters.dropped_control += 1,
                _ => counters.dropped += 1,
            }
            buffers.release(frame.slot);
        }
        counters.longest = counters.longest.max(self.queues.data_packets());
        self.advance(at);
    }

    /// Lets leave what the link can take up to that time.
    pub(super) fn advance(&mut self, until: Instant) {
        while self.free <= until {
            let Some(handle) = self.queues.dequeue(&self.config, &self.pool) else { break };
            let frame = self.pool.remove(handle);
            self.free += self.time(frame.wire_len());
            self.leaving.push(frame);
        }
    }

    /// When the next frame leaves, if one waits.
    pub(super) fn next(&self) -> Option<Instant> {
        (!self.queues.is_empty()).then_some(self.free)
    }

    /// The frames that leave, made what the queues have made of them; the list is empty then.
    pub(super) fn take_leaving(
        &mut self,
        buffers: &mut Buffers,
        marking: &Marking,
        into: &mut Vec<u32>,
    ) {
        for frame in self.leaving.drain(..) {
            let bytes = &mut buffers.slots[frame.slot as usize];
            if frame.trimmed {
                frame::trim(bytes, frame.len as usize, marking);
            }
            if frame.marked {
                frame::mark(bytes);
            }
            into.push(frame.slot);
        }
    }

    fn time(&self, bytes: u32) -> Duration {
        let nanos = |rate: u64| u64::from(bytes) * 8_000_000_000 / rate.max(1);
        Duration::from_nanos(self.rate.map_or(0, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_fabric::{ControlQueue, Limit};

    const US: Duration = Duration::from_micros(1);

    /// Frames of 976 bytes, 1,000 on the wire: 8 us at 1 Gbit/s.
    struct Bench {
        egress: Egress,
        buffers: Buffers,
        counters: PortCounters,
        start: Instant,
    }

    impl Bench {
        fn new(config: PortConfig) -> Self {
            let start = Instant::now();
            let egress = Egress::new(config, Some(1_000_000_000), start);
            Bench { egress, buffers: Buffers::default(), counters: PortCounters::default(), start }
        }

        fn offer(&mut self, at: Duration, class: Class) {
            let slot = self.buffers.keep(&[0; 976]);
            let treatment = Treatment { class, cut: (class > 0).then_some(78), reads_marks: true };
            let frame = Waiting::new(slot, 976, treatment);
            self.egress.offer(self.start + at, frame, &mut self.buffers, &mut self.counters);
        }

        fn left(&mut self, until: Duration) -> Vec<(Class, bool)> {
            self.egress.advance(self.start + until);
            self.egress.leaving.drain(..).map(|frame| (frame.class, frame.trimmed)).collect()
        }
    }

    #[test]
    fn frames_leave_at_the_links_rate() {
        let mut bench = Bench::new(PortConfig::drop_tail(Limit::Packets(100)));
        for _ in 0..10 {
            bench.offer(US, 1);
        }
        assert_eq!(bench.left(US).len(), 1);
        assert_eq!(bench.left(8 * US).len(), 0);
        assert_eq!(bench.left(33 * US).len(), 4, "at 9, 17, 25 and 33 us");
        assert_eq!(bench.left(1_000 * US).len(), 5);
        bench.offer(1_000 * US, 1);
        assert_eq!(bench.left(1_000 * US).len(), 1, "idle links do not save time up");
    }

    #[test]
    fn late_work_finds_queues_as_they_were() {
        let mut bench = Bench::new(PortConfig::trimming(Limit::Packets(2)));
        // One frame each 8 us, looked at all at once: never more than one waits.
        for i in 0..1_000 {
            bench.offer(8 * i * US, 1);
        }
        assert_eq!(bench.counters.trimmed, 0);
        assert_eq!(bench.left(8_000 * US).len(), 1_000);
    }

    #[test]
    fn what_does_not_fit_is_trimmed_and_overtakes() {
        let mut bench = Bench::new(PortConfig::trimming_classes(Limit::Packets(2), 3));
        for class in [1, 2, 2, 1, 0] {
            bench.offer(US, class);
        }
        assert_eq!(bench.counters.trimmed, 1);
        assert_eq!(bench.counters.longest, 2);
        let left = bench.left(100 * US);
        assert_eq!(left, [(1, false), (0, true), (0, false), (2, false), (2, false)]);
    }

    #[test]
    fn drops_are_counted_by_what_they_were_and_their_memory_is_used_again() {
        let control = ControlQueue { limit: Limit::Packets(1), weight: 9 };
        let config =
            PortConfig { control: Some(control), ..PortConfig::trimming(Limit::Packets(1)) };
        let mut bench = Bench::new(config);
        for _ in 0..10 {
            bench.offer(US, 1);
        }
        // One leaves, one waits whole, one as a header.
        assert_eq!((bench.counters.trimmed, bench.counters.dropped_control), (8, 7));
        assert_eq!(bench.buffers.slots.len(), 4);
        let mut tail = Bench::new(PortConfig::drop_tail(Limit::Packets(1)));
        for _ in 0..10 {
            tail.offer(US, 0);
        }
        assert_eq!((tail.counters.dropped, tail.counters.dropped_control), (8, 0));
    }
}
