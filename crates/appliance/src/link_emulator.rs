//! Link emulator between two interfaces, for experiments: delay, rate, a queue, and loss at
//! random, in bursts of one length, or in bursts of random lengths.
//!
//! Frames that come in by one interface leave by the other, later or never; one thread a direction.
//! Losses come from named streams of one seed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wellspring_core::{RandomStream, Seed};

use crate::capture::Capture;
use crate::inject::{InjectCounters, send};
use crate::interface::Interface;
use crate::offload;
use crate::sys::{self, SEND_BATCH};

/// What a frame has on the wire besides itself: preamble, checksum, gap \[bytes\].
const WIRE_OVERHEAD: u64 = 24;
/// The link's header and a VLAN tag \[bytes\].
const LINK_HEADER: usize = 18;
/// Both addresses of a frame, behind which its tag stands \[bytes\].
const ADDRESSES: usize = 12;
/// Memory of each direction's ring \[bytes\].
const RING: usize = 16 << 20;
/// Frames on their way in one direction, at most.
const IN_FLIGHT: usize = 1 << 17;
/// Frames taken in before due ones are sent.
const ROUND: usize = 128;
/// Frames that follow each other closer than that leave together: a fast link would take a core of its
/// own to wake up for each.
const GRAIN: Duration = Duration::from_micros(50);
/// A burst of losses ends then, whatever it has taken. Where little is sent, all of it again and again
/// after ever longer waits, a burst counted in frames alone would keep a connection silent for minutes.
const LONGEST_BURST: Duration = Duration::from_millis(100);

/// Which frames are lost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Loss {
    /// Each with this probability, on its own.
    Random(f64),
    /// In runs of this length, so often that this part of all is lost. A run ends after 100 ms at the
    /// latest.
    Bursts {
        /// Part of all frames.
        part: f64,
        /// Frames in a run.
        length: u32,
    },
    /// In runs of random length (Gilbert and Elliott's two states), of this mean, of 100 ms at most.
    RandomBursts {
        /// Part of all frames.
        part: f64,
        /// Mean number of frames in a run.
        mean: f64,
    },
}

/// What the link is like in both directions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkConfig {
    /// One-way delay.
    pub delay: Duration,
    /// Rate \[bit/s\]; as fast as the machine if none.
    pub rate: Option<u64>,
    /// What waits for the rate at most \[bytes\].
    pub queue: u64,
    /// What is lost from the first interface to the second.
    pub loss: Loss,
    /// What is lost on the way back.
    pub loss_back: Loss,
    /// Seed of the losses.
    pub seed: u64,
    /// Run before all other programs: without it delays are late on a busy machine.
    pub first: bool,
}

/// What a direction has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkCounters {
    /// Frames that came in.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Lost on purpose.
    pub lost: u64,
    /// Lost because the queue was full.
    pub queue_drops: u64,
    /// Lost because the program was too slow, or refused by the interface.
    pub unwanted: u64,
    /// Sent.
    pub sent: u64,
    /// Sum of how late frames left.
    pub late_total: Duration,
    /// The latest.
    pub late_most: Duration,
}

/// Runs a link until `stop`; gives back what each direction did.
///
/// # Errors
/// No such interface, or packet sockets are not allowed.
pub fn run(
    first: &str,
    second: &str,
    config: &LinkConfig,
    stop: &AtomicBool,
) -> io::Result<[LinkCounters; 2]> {
    let find = |name: &str| {
        Interface::find(name)?.ok_or_else(|| io::Error::other(format!("no interface `{name}`")))
    };
    let (a, b) = (find(first)?, find(second)?);
    let seed = Seed(config.seed);
    let mut there = Direction::new(&a, &b, config.loss, seed.stream("there"))?;
    let mut back = Direction::new(&b, &a, config.loss_back, seed.stream("back"))?;
    thread::scope(|scope| {
        let there = scope.spawn(|| there.run(config, stop));
        let back = back.run(config, stop);
        let there = there.join().map_err(|_| io::Error::other("a direction failed"))?;
        Ok([there, back])
    })
}

/// Switches off offloads of an interface, so that packets that leave by it are what is on the wire.
///
/// # Errors
/// The system refuses.
pub fn make_plain(interface: &str) -> io::Result<()> {
    offload::switch_all_off(interface)
}

/// Decides over each frame in turn.
#[derive(Debug)]
struct Loser {
    loss: Loss,
    random: RandomStream,
    /// Frames that the burst still takes, if one lasts.
    left: u32,
    /// When the burst ends at the latest.
    ends: Instant,
}

impl Loser {
    fn new(loss: Loss, random: RandomStream) -> Self {
        Loser { loss, random, left: 0, ends: Instant::now() }
    }

    fn loses(&mut self, now: Instant) -> bool {
        let (part, mean) = match self.loss {
            Loss::Random(part) => return self.random.unit() < part,
            Loss::Bursts { part, length } => (part, f64::from(length)),
            Loss::RandomBursts { part, mean } => (part, mean),
        };
        if now > self.ends {
            self.left = 0;
        }
        if self.left == 0 && self.random.unit() < start(part, mean) {
            self.left = self.length();
            self.ends = now + LONGEST_BURST;
        }
        let lost = self.left > 0;
        self.left = self.left.saturating_sub(1);
        lost
    }

    /// Frames that a burst takes which begins now.
    fn length(&mut self) -> u32 {
        match self.loss {
            Loss::Random(_) => 1,
            Loss::Bursts { length, .. } => length,
            Loss::RandomBursts { mean, .. } if mean > 1.0 => {
                // Each frame is the last with probability 1/mean.
                let more = (1.0 - self.random.unit()).ln() / (1.0 - 1.0 / mean).ln();
                1_u32.saturating_add(more as u32)
            }
            Loss::RandomBursts { .. } => 1,
        }
    }
}

/// How likely a run begins at a frame that no run takes, so that this part of all is lost.
fn start(part: f64, length: f64) -> f64 {
    if part >= 1.0 { 1.0 } else { part / (length * (1.0 - part)) }
}

/// One direction.
struct Direction {
    capture: Capture,
    out: std::os::fd::OwnedFd,
    loser: Loser,
    /// Frames on their way, in the order in which they leave.
    flight: VecDeque<(Instant, Vec<u8>)>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    /// When the rate allows the next frame.
    free: Instant,
    counters: LinkCounters,
    injected: InjectCounters,
}

impl Direction {
    fn new(from: &Interface, to: &Interface, loss: Loss, random: RandomStream) -> io::Result<Self> {
        let capture = Capture::frames(from.index, from.mtu + LINK_HEADER, RING)?;
        let out = sys::packet_socket(sys::See::Frames)?;
        sys::set_option(out.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
        sys::set_option(out.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &(64 << 20))?;
        sys::bind_packet(out.as_fd(), to.index, false)?;
        Ok(Direction {
            capture,
            out,
            loser: Loser::new(loss, random),
            flight: VecDeque::new(),
            spare: Vec::new(),
            free: Instant::now(),
            counters: LinkCounters::default(),
            injected: InjectCounters::default(),
        })
    }

    fn run(&mut self, config: &LinkConfig, stop: &AtomicBool) -> LinkCounters {
        const WAIT: Duration = Duration::from_millis(20);
        sys::wake_exactly();
        if config.first {
            // Not allowed everywhere; then delays are as exact as they are.
            let _ = sys::run_first();
        }
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let mut taken = 0;
            while taken < ROUND && self.take(config, now) {
                taken += 1;
            }
            let sent = self.send_due();
            let now = Instant::now();
            let next = self.flight.front().map(|(due, _)| due.saturating_duration_since(now));
            match next {
                // What arrives meanwhile waits in the ring.
                Some(wait) if wait > Duration::ZERO && wait < GRAIN => thread::sleep(GRAIN),
                _ if taken > 0 || sent > 0 => {}
                _ => self.capture.wait(next.unwrap_or(WAIT).min(WAIT)),
            }
        }
        self.capture.count_drops();
        self.counters.unwanted += self.capture.drops() + self.injected.failed;
        self.counters.sent = self.injected.sent;
        self.counters
    }

    /// Takes a frame in, if there is one.
    fn take(&mut self, config: &LinkConfig, now: Instant) -> bool {
        let Some(frame) = self.capture.next() else { return false };
        let counters = &mut self.counters;
        counters.frames += 1;
        counters.bytes += frame.bytes.len() as u64;
        if self.loser.loses(now) {
            counters.lost += 1;
            return true;
        }
        let mut leaves = now;
        if let Some(rate) = config.rate {
            let time = |bytes: u64| Duration::from_nanos(bytes * 8_000_000_000 / rate.max(1));
            self.free = self.free.max(now);
            if self.free - now > time(config.queue) {
                counters.queue_drops += 1;
                return true;
            }
            self.free += time(frame.bytes.len() as u64 + WIRE_OVERHEAD);
            leaves = self.free;
        }
        if frame.unlike || self.flight.len() >= IN_FLIGHT {
            counters.unwanted += 1;
            return true;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        copy_whole(frame.bytes, frame.vlan, &mut bytes);
        self.flight.push_back((leaves + config.delay, bytes));
        true
    }

    /// Sends what is due; returns how many frames that were.
    fn send_due(&mut self) -> usize {
        let now = Instant::now();
        let due = self.flight.iter().take(SEND_BATCH).take_while(|(due, _)| *due <= now).count();
        let frames = self.flight.iter().take(due).map(|(_, bytes)| (bytes.as_slice(), None));
        send(self.out.as_fd(), frames, &mut self.injected);
        for (due, mut bytes) in self.flight.drain(..due) {
            let late = now - due;
            self.counters.late_total += late;
            self.counters.late_most = self.counters.late_most.max(late);
            bytes.clear();
            self.spare.push(bytes);
        }
        due
    }
}

/// Copies a frame with the VLAN tag that the kernel took out of it: protocol identifier and control information.
fn copy_whole(frame: &[u8], tag: Option<(u16, u16)>, into: &mut Vec<u8>) {
    let (addresses, rest) = frame.split_at(frame.len().min(ADDRESSES));
    into.extend_from_slice(addresses);
    if let Some((protocol, control)) = tag {
        into.extend_from_slice(&protocol.to_be_bytes());
        into.extend_from_slice(&control.to_be_bytes());
    }
    into.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tagged_frame_is_whole_again() {
        let frame: Vec<u8> = (0..60).collect();
        let copy = |tag| {
            let mut copy = Vec::new();
            copy_whole(&frame, tag, &mut copy);
            copy
        };
        let tagged = [&frame[..12], &[0x81, 0, 0, 100], &frame[12..]].concat();
        assert_eq!((copy(None), copy(Some((0x8100, 100)))), (frame.clone(), tagged));
    }

    /// The lengths of all runs, if frames come so far apart.
    fn losses(loss: Loss, frames: u32, apart: Duration) -> Vec<usize> {
        let mut loser = Loser::new(loss, Seed(1).stream("there"));
        let start = Instant::now();
        let mut runs = vec![0];
        for frame in 0..frames {
            match (loser.loses(start + apart * frame), runs.last_mut()) {
                (true, Some(run)) => *run += 1,
                (false, Some(0)) => {}
                _ => runs.push(0),
            }
        }
        runs.retain(|&run| run > 0);
        runs
    }

    #[test]
    fn the_asked_part_is_lost_in_the_asked_runs() {
        let frames = 2_000_000;
        for part in [0.001, 0.01, 0.1] {
            for (loss, mean) in [
                (Loss::Random(part), 1.0 / (1.0 - part)),
                (Loss::Bursts { part, length: 20 }, 20.0),
                (Loss::RandomBursts { part, mean: 8.0 }, 8.0),
            ] {
                let runs = losses(loss, frames, Duration::ZERO);
                let lost: usize = runs.iter().sum();
                let ratio = lost as f64 / f64::from(frames) / part;
                assert!((0.9..1.1).contains(&ratio), "{loss:?}: {ratio}");
                let length = lost as f64 / runs.len() as f64;
                // Runs that happen to follow each other at once count as one.
                assert!((0.9..1.25).contains(&(length / mean)), "{loss:?}: {length}");
            }
        }
        assert!(losses(Loss::Random(0.0), 1_000, Duration::ZERO).is_empty());
        assert_eq!(losses(Loss::Bursts { part: 1.0, length: 3 }, 1_000, Duration::ZERO), [1_000]);
    }

    #[test]
    fn a_burst_does_not_outlast_a_tenth_of_a_second() {
        for loss in
            [Loss::Bursts { part: 0.01, length: 20 }, Loss::RandomBursts { part: 0.1, mean: 1e3 }]
        {
            let runs = losses(loss, 2_000_000, Duration::from_millis(30));
            // Frames after 0, 30, 60 and 90 ms; the next may begin a run of its own.
            let longer = runs.iter().filter(|&&run| run > 4).count();
            assert!(!runs.is_empty() && longer * 20 < runs.len(), "{loss:?}: {runs:?}");
        }
    }
}
