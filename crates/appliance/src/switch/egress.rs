//! Egress of a port: the queues of `wellspring-fabric`, drained at the link's rate.
//!
//! Queues live in the time of the frames' arrival. When the program runs late, what arrived meanwhile finds them
//! as long as they would have been: frames are late then, and not trimmed for it.

use std::time::{Duration, Instant};

use wellspring_core::Class;
use wellspring_fabric::{Packet, Pool, Port, PortConfig};

use super::buffers::Buffers;
use super::counters::PortCounters;
use super::frame::{self, Marking, Treatment};
use super::vlan::Tag;

/// What a frame has on the wire besides itself: preamble, checksum, gap \[bytes\].
pub(super) const WIRE_OVERHEAD: u32 = 24;
/// The least that a frame is \[bytes\].
pub(super) const LEAST: u32 = 60;
/// Length of a VLAN tag \[bytes\].
const TAG: u32 = 4;

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
    /// The tag with which it leaves.
    tag: Option<Tag>,
}

impl Waiting {
    pub(super) fn new(slot: u32, len: usize, treatment: Treatment, tag: Option<Tag>) -> Self {
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
            tag,
        }
    }
}

impl Packet for Waiting {
    fn wire_len(&self) -> u32 {
        let tag = if self.tag.is_some() { TAG } else { 0 };
        (self.len + tag).max(LEAST) + WIRE_OVERHEAD
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

/// A frame that leaves, made what the queues have made of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub slot: u32,
    pub tagged: bool,
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
        let queue = self.config.queue(frame.class);
        let admission = self.queues.enqueue(&self.config, &mut self.pool, handle);
        counters.queues[queue].trimmed += u64::from(admission.trimmed);
        counters.queues[queue].marked += u64::from(admission.marked);
        if let Some(dropped) = admission.dropped {
            let frame = self.pool.remove(dropped);
            // A header that was cut from a packet is dropped by the queue of headers.
            counters.queues[self.config.queue(frame.class)].dropped += 1;
            buffers.release(frame.slot);
        }
        let queue = if admission.trimmed { self.config.queue(0) } else { queue };
        let most = &mut counters.queues[queue].most_bytes;
        *most = (*most).max(self.queues.queue_bytes(queue));
        counters.longest = counters.longest.max(self.queues.data_packets());
        self.advance(at);
    }

    /// What waits in a queue \[bytes on the wire\].
    pub(super) fn queue_bytes(&self, queue: usize) -> u64 {
        self.queues.queue_bytes(queue)
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

    /// The frames that leave; the list is empty then.
    pub(super) fn take_leaving(
        &mut self,
        buffers: &mut Buffers,
        marking: &Marking,
        counters: &mut PortCounters,
        into: &mut Vec<Leaving>,
    ) {
        for frame in self.leaving.drain(..) {
            let Waiting { slot, len, .. } = frame;
            if frame.trimmed {
                frame::trim(buffers.get_mut(slot), len as usize, marking);
                buffers.truncate(slot, len as usize);
            }
            if frame.marked {
                frame::mark(buffers.get_mut(slot));
            }
            if let Some(tag) = frame.tag {
                buffers.tag(slot, tag);
            }
            let tagged = frame.tag.is_some();
            let of = &mut counters.queues[self.config.queue(frame.class)];
            of.sent += 1;
            of.sent_bytes += buffers.on_wire(slot, tagged).len() as u64;
            into.push(Leaving { slot, tagged });
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
            let frame = Waiting::new(slot, 976, treatment, None);
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
        assert_eq!(bench.counters.trimmed(), 0);
        assert_eq!(bench.left(8_000 * US).len(), 1_000);
    }

    #[test]
    fn what_does_not_fit_is_trimmed_and_overtakes() {
        let mut bench = Bench::new(PortConfig::trimming_classes(Limit::Packets(2), 3));
        for class in [1, 2, 2, 1, 0] {
            bench.offer(US, class);
        }
        assert_eq!(bench.counters.queues[1].trimmed, 1, "the second of the highest class");
        assert_eq!(bench.counters.trimmed(), 1);
        assert_eq!(bench.counters.longest, 2);
        // The first frame left at once. Of those that wait: two of class 2, and a header besides a control packet.
        assert_eq!(bench.counters.queues[2].most_bytes, 2_000);
        assert_eq!(bench.counters.queues[0].most_bytes, 1_000 + 102);
        assert_eq!(bench.egress.queue_bytes(2), 2_000);
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
        assert_eq!((bench.counters.trimmed(), bench.counters.dropped_control()), (8, 7));
        assert_eq!(bench.buffers.capacity(), 4);
        let mut tail = Bench::new(PortConfig::drop_tail(Limit::Packets(1)));
        for _ in 0..10 {
            tail.offer(US, 0);
        }
        assert_eq!((tail.counters.dropped(), tail.counters.dropped_control()), (8, 0));
    }
    #[test]
    fn a_trimmed_frame_keeps_its_tag() {
        let mut bench = Bench::new(PortConfig::trimming(Limit::Packets(1)));
        let tag = Some(3 << 13 | 20);
        for _ in 0..3 {
            let slot = bench.buffers.keep(&[0; 976]);
            let treatment = Treatment { class: 1, cut: Some(78), reads_marks: false };
            let frame = Waiting::new(slot, 976, treatment, tag);
            bench.egress.offer(bench.start, frame, &mut bench.buffers, &mut bench.counters);
        }
        bench.egress.advance(bench.start + 100 * US);
        let mut leaving = Vec::new();
        let Bench { egress, buffers, counters, .. } = &mut bench;
        egress.take_leaving(buffers, &Marking::default(), counters, &mut leaving);
        let lens: Vec<usize> = leaving
            .iter()
            .map(|frame| {
                let bytes = buffers.on_wire(frame.slot, frame.tagged);
                assert_eq!(bytes[12..16], [0x81, 0, 0x60, 20]);
                bytes.len()
            })
            .collect();
        assert_eq!(lens, [980, 82, 980]);
        assert_eq!((counters.queues[0].sent_bytes, counters.queues[1].sent), (82, 2));
    }
}
