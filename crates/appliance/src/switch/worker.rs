//! Loop of one thread of a switch: what came in at its ports, forwarded in the order of arrival.
//!
//! Each port belongs to one thread, which alone takes its frames in and sends by it. A frame for a port of another
//! thread is handed over in order, so that frames which came by one port and leave by another are never reordered.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::buffers::{Buffers, TAG_AT};
use super::egress::{Leaving, Waiting};
use super::frame::{self, Treatment};
use super::handover::{Frame, Inbox, Outbox};
use super::port::SwitchPort;
use super::recorder::{Direction, Recorder};
use super::shared::Shared;
use super::vlan::{C_TAG, Tag};
use crate::capture::Seen;
use crate::sys;

/// Frames taken in from each port before they are put in order.
const ROUND: usize = 64;
/// Frames may leave so much early: to wake up for each would take a core.
const GRAIN: Duration = Duration::from_micros(20);
/// The longest wait for frames, after which `stop` is looked at.
const WAIT: Duration = Duration::from_millis(20);
/// A frame that waited longer in a ring counts as having arrived so long ago.
const OLDEST: Duration = Duration::from_millis(100);
/// How old published counters are, at most.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);

/// A frame that has come in.
struct Arrival {
    at: Instant,
    origin: Origin,
}

enum Origin {
    /// From the network, by a port of this thread.
    Network { port: usize, slot: u32, tag: Option<Tag> },
    /// From another thread, for a port of this one.
    Thread { port: usize, waiting: Waiting },
}

/// A thread of a switch.
pub(super) struct Worker {
    shared: Arc<Shared>,
    /// Every so many ports one is this thread's.
    threads: usize,
    ports: Vec<SwitchPort>,
    inbox: Inbox,
    /// Towards each thread; this one's is not used.
    outboxes: Vec<Outbox>,
    recorder: Option<Recorder>,
    buffers: Buffers,
    arrivals: Vec<Arrival>,
    leaving: Vec<Leaving>,
    /// The latest arrival that was forwarded.
    last: Instant,
    published: Instant,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        ports: Vec<SwitchPort>,
        inbox: Inbox,
        outboxes: Vec<Outbox>,
        recorder: Option<Recorder>,
    ) -> Self {
        let now = Instant::now();
        Worker {
            threads: outboxes.len(),
            shared,
            ports,
            inbox,
            outboxes,
            recorder,
            buffers: Buffers::default(),
            arrivals: Vec::new(),
            leaving: Vec::new(),
            last: now,
            published: now,
        }
    }

    /// Forwards frames until `stop`. Blocks the thread.
    ///
    /// # Errors
    /// An interface is gone.
    pub(super) fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        sys::wake_exactly();
        if self.shared.config.first {
            // Not allowed everywhere; then frames are as late as they are.
            let _ = sys::run_first();
        }
        let mut ended = Ok(());
        while ended.is_ok() && !self.shared.ends(stop) {
            if !self.turn() {
                ended = self.ports.iter().try_for_each(SwitchPort::look);
            }
        }
        // The others end, too.
        self.shared.end();
        self.publish();
        ended
    }

    /// Takes in what has come, forwards it in the order of its arrival, and sends what is due; returns whether anything
    /// had come, and waits a little if not.
    fn turn(&mut self) -> bool {
        self.take_in();
        let mut arrivals = core::mem::take(&mut self.arrivals);
        for arrival in &arrivals {
            // The clocks of two turns may differ: what is handed over must not be put in another order for it.
            self.last = self.last.max(arrival.at);
            match arrival.origin {
                Origin::Network { port, slot, tag } => self.forward(port, slot, tag),
                Origin::Thread { port, waiting } => self.offer(port, waiting),
            }
        }
        let idle = arrivals.is_empty();
        arrivals.clear();
        self.arrivals = arrivals;
        self.outboxes.iter_mut().for_each(Outbox::wake);
        self.send_due();
        if self.published.elapsed() >= PUBLISH_EVERY {
            self.publish();
        }
        if idle {
            self.rest();
        }
        !idle
    }

    /// Waits for frames, or until one is due.
    fn rest(&mut self) {
        let next = self.ports.iter().filter_map(|port| port.egress.next()).min();
        let wait = next.map_or(WAIT, |next| next.saturating_duration_since(Instant::now()));
        if wait < 2 * GRAIN {
            // What arrives meanwhile waits in the rings.
            if !wait.is_zero() {
                thread::sleep(wait);
            }
            return;
        }
        if self.inbox.falls_asleep() {
            let rings = self.ports.iter().map(|port| port.capture.as_fd());
            let sockets: Vec<BorrowedFd<'_>> = rings.chain(self.inbox.as_fd()).collect();
            sys::wait_any(&sockets, wait.min(WAIT) - GRAIN);
        }
        self.inbox.wakes_up();
    }

    fn take_in(&mut self) {
        let Self { ports, buffers, arrivals, inbox, recorder, .. } = self;
        // Rings have the time of day, queues a clock that nobody sets.
        let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Instant::now();
        for port in &mut *ports {
            for _ in 0..ROUND {
                let Some(seen) = port.capture.next() else { break };
                port.counters.received += 1;
                port.counters.received_bytes += seen.bytes.len() as u64;
                if let Some(recorder) = recorder {
                    record_arrival(recorder, port.number, &seen);
                }
                if seen.unlike {
                    port.counters.unlike += 1;
                    continue;
                }
                let age = day.saturating_sub(seen.stamp).min(OLDEST);
                let at = now.checked_sub(age).unwrap_or(now);
                let (slot, tag) = match seen.vlan {
                    Some((C_TAG, tag)) => (buffers.keep(seen.bytes), Some(tag)),
                    // A tag of a provider's network is bytes like others.
                    Some((protocol, tag)) => (buffers.keep_tagged(seen.bytes, protocol, tag), None),
                    None => (buffers.keep(seen.bytes), None),
                };
                let origin = Origin::Network { port: port.number, slot, tag };
                arrivals.push(Arrival { at, origin });
            }
        }
        for _ in 0..ROUND * ports.len() {
            let Some(Frame { at, port, bytes, mut waiting }) = inbox.take() else { break };
            waiting.slot = buffers.adopt(bytes);
            arrivals.push(Arrival { at, origin: Origin::Thread { port, waiting } });
        }
        arrivals.sort_by_key(|arrival| arrival.at);
    }

    fn forward(&mut self, from: usize, slot: u32, tag: Option<Tag>) {
        let own = from / self.threads;
        let Some(vlan) = self.shared.vlans.admit(from, tag) else {
            self.ports[own].counters.wrong_vlan += 1;
            return self.buffers.release(slot);
        };
        let (frame, config) = (self.buffers.get(slot), &self.shared.config);
        let len = frame.len();
        let treatment = frame::read(frame, &config.marking, config.keep);
        match self.shared.addresses.pass(vlan, frame, from, self.last) {
            Some(port) if port == from => self.ports[own].counters.filtered += 1,
            Some(port) => {
                if let Some(tag) = self.shared.vlans.leave(port, vlan, tag) {
                    return self.pass(port, Waiting::new(slot, len, treatment, tag), own);
                }
            }
            None => {
                let treatment = Treatment { cut: None, ..treatment };
                let to = self.shared.spread(vlan, from, frame, self.last);
                for port in to.without(from).iter() {
                    let Some(tag) = self.shared.vlans.leave(port, vlan, tag) else { continue };
                    let copy = self.buffers.copy(slot);
                    self.pass(port, Waiting::new(copy, len, treatment, tag), own);
                }
            }
        }
        self.buffers.release(slot);
    }

    /// Queues a frame at its port, here or by another thread. `own` is the port here that it came by.
    fn pass(&mut self, port: usize, waiting: Waiting, own: usize) {
        let thread = port % self.threads;
        if thread == self.inbox.thread() {
            return self.offer(port, waiting);
        }
        let bytes = self.buffers.give(waiting.slot);
        let frame = Frame { at: self.last, port, bytes, waiting };
        if !self.outboxes[thread].put(frame) {
            self.ports[own].counters.not_handed_over += 1;
        }
    }

    fn offer(&mut self, port: usize, waiting: Waiting) {
        let SwitchPort { egress, counters, .. } = &mut self.ports[port / self.threads];
        egress.offer(self.last, waiting, &mut self.buffers, counters);
    }

    fn send_due(&mut self) {
        let Self { shared, ports, buffers, leaving, recorder, .. } = self;
        let until = Instant::now() + GRAIN;
        for port in ports {
            port.egress.advance(until);
            port.egress.take_leaving(buffers, &shared.config.marking, &mut port.counters, leaving);
            if let Some(recorder) = recorder.as_ref().filter(|_| !leaving.is_empty()) {
                let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                for frame in &*leaving {
                    let bytes = buffers.on_wire(frame.slot, frame.tagged);
                    recorder.record(port.number, day, Direction::Out, &[bytes]);
                }
            }
            port.send(leaving, buffers);
            for frame in leaving.drain(..) {
                buffers.release(frame.slot);
            }
        }
    }

    fn publish(&mut self) {
        self.published = Instant::now();
        for port in &mut self.ports {
            self.shared.publish(port.number, port.counters());
        }
    }
}

/// Records a frame with the tag that the kernel took out of it.
fn record_arrival(recorder: &Recorder, port: usize, seen: &Seen<'_>) {
    let bytes = &*seen.bytes;
    match (seen.vlan, bytes.split_at_checked(TAG_AT)) {
        (Some((protocol, tag)), Some((addresses, rest))) => {
            let (protocol, tag) = (protocol.to_be_bytes(), tag.to_be_bytes());
            let parts = [addresses, &protocol, &tag, rest];
            recorder.record(port, seen.stamp, Direction::In, &parts);
        }
        _ => recorder.record(port, seen.stamp, Direction::In, &[bytes]),
    }
}
