//! The queues of one egress port.

use crate::config::{Limit, Overflow, PortConfig, Sharing, Victim};
use crate::packet::Packet;
use crate::pool::{Fifo, Handle, Pool};

const CONTROL: usize = 0;
const QUEUES: usize = PortConfig::QUEUES;

/// What became of a packet offered to a [`Port`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admission {
    /// A packet lost its payload (the offered one or, by [`Victim`], another).
    pub trimmed: bool,
    /// The offered packet was marked.
    pub marked: bool,
    /// This packet is gone: there was no room for it, or for the header cut from it.
    pub dropped: Option<Handle>,
}

impl Admission {
    const QUEUED: Self = Admission { trimmed: false, marked: false, dropped: None };
}

/// A queue and the bytes in it.
#[derive(Clone, Copy, Debug)]
struct Queue {
    fifo: Fifo,
    bytes: u32,
}

/// The queues of one egress port: a control queue (by configuration) and data queues by class.
///
/// The [`PortConfig`] and the [`Pool`] that holds the packets are arguments of each call, so that
/// thousands of ports share them. Data members come in the order of their use, so that a port
/// whose queues are short touches one or two cache lines.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Port {
    /// Bit i is set while queue i holds something.
    occupied: u32,
    data_packets: u32,
    data_bytes: u32,
    /// Control packets sent in a row while data waited.
    control_run: u32,
    queues: [Queue; QUEUES],
    /// State of the coin for [`Victim::ArrivingOrLast`].
    coin: u32,
}

impl Port {
    /// An empty port. `seed` sets off its coin.
    pub const fn new(seed: u32) -> Self {
        let queue = Queue { fifo: Fifo::EMPTY, bytes: 0 };
        Port {
            occupied: 0,
            data_packets: 0,
            data_bytes: 0,
            control_run: 0,
            queues: [queue; QUEUES],
            coin: seed | 1,
        }
    }

    /// True when nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Packets that wait, control and data.
    pub fn len(&self) -> u32 {
        self.data_packets + self.control_packets()
    }

    /// Data packets that wait.
    pub fn data_packets(&self) -> u32 {
        self.data_packets
    }

    /// Bytes that wait in the data queues.
    pub fn data_bytes(&self) -> u64 {
        u64::from(self.data_bytes)
    }

    /// Bytes that wait in a queue, by its number ([`PortConfig::queue`]).
    ///
    /// # Panics
    /// If there is no queue of that number.
    pub fn queue_bytes(&self, queue: usize) -> u64 {
        u64::from(self.queues[queue].bytes)
    }

    /// Packets that wait in the control queue.
    pub fn control_packets(&self) -> u32 {
        self.queues[CONTROL].fifo.len()
    }

    /// Offers a packet of the pool that is in no queue. What is dropped is in none, and still in
    /// the pool.
    #[inline]
    pub fn enqueue<P: Packet>(
        &mut self,
        config: &PortConfig,
        pool: &mut Pool<P>,
        handle: Handle,
    ) -> Admission {
        let packet = &mut pool[handle];
        if config.control.is_some() && packet.class() == 0 {
            return self.enqueue_control(config, pool, handle);
        }
        let mut admission = Admission::QUEUED;
        if config.ecn_threshold.reached(self.data_packets, u64::from(self.data_bytes)) {
            admission.marked = packet.mark();
        }
        let queue = config.queue(packet.class());
        let len = packet.wire_len();
        let (packets, bytes) = match config.sharing {
            Sharing::Shared => (self.data_packets, self.data_bytes),
            Sharing::Split => (self.queues[queue].fifo.len(), self.queues[queue].bytes),
        };
        if config.data_limit.admits(packets, u64::from(bytes), len) {
            self.push(pool, queue, handle, len);
            return admission;
        }
        match config.overflow {
            Overflow::Trim(victim) => {
                let cut = self.overflow_trim(config, pool, (victim, queue), handle);
                Admission { marked: admission.marked, ..cut }
            }
            Overflow::Drop => Admission { dropped: Some(handle), ..admission },
        }
    }

    /// The packet to send next, which is in no queue from now on.
    #[inline]
    pub fn dequeue<P: Packet>(&mut self, config: &PortConfig, pool: &Pool<P>) -> Option<Handle> {
        let data = self.occupied >> 1;
        if self.occupied & 1 == 1 {
            let weight = config.control.map_or(0, |control| control.weight);
            if data == 0 || self.control_run < weight {
                self.control_run += u32::from(data != 0 && weight != u32::MAX);
                let first = self.queues[CONTROL].fifo.pop_front(pool)?;
                self.took(pool, CONTROL, first);
                return Some(first);
            }
        }
        if data == 0 {
            return None;
        }
        self.control_run = 0;
        let queue = 1 + data.trailing_zeros() as usize;
        let first = self.queues[queue].fifo.pop_front(pool)?;
        self.took(pool, queue, first);
        Some(first)
    }

    /// Keeps account of a packet taken from a queue.
    #[inline]
    fn took<P: Packet>(&mut self, pool: &Pool<P>, queue: usize, handle: Handle) {
        let len = pool[handle].wire_len();
        let this = &mut self.queues[queue];
        this.bytes -= len;
        if this.fifo.is_empty() {
            self.occupied &= !(1 << queue);
        }
        if queue != CONTROL {
            self.data_packets -= 1;
            self.data_bytes -= len;
        }
    }

    #[inline]
    fn push<P>(&mut self, pool: &mut Pool<P>, queue: usize, handle: Handle, len: u32) {
        let this = &mut self.queues[queue];
        this.bytes += len;
        this.fifo.push_back(pool, handle);
        self.occupied |= 1 << queue;
        if queue != CONTROL {
            self.data_packets += 1;
            self.data_bytes += len;
        }
    }

    #[inline]
    fn enqueue_control<P: Packet>(
        &mut self,
        config: &PortConfig,
        pool: &mut Pool<P>,
        handle: Handle,
    ) -> Admission {
        let limit = config.control.map_or(Limit::Unlimited, |control| control.limit);
        let Queue { fifo, bytes } = self.queues[CONTROL];
        let len = pool[handle].wire_len();
        if !limit.admits(fifo.len(), u64::from(bytes), len) {
            return Admission { dropped: Some(handle), ..Admission::QUEUED };
        }
        self.push(pool, CONTROL, handle, len);
        Admission::QUEUED
    }

    #[cold]
    fn overflow_trim<P: Packet>(
        &mut self,
        config: &PortConfig,
        pool: &mut Pool<P>,
        (victim, queue): (Victim, usize),
        handle: Handle,
    ) -> Admission {
        let dropped = |handle| Admission { dropped: Some(handle), ..Admission::QUEUED };
        if config.control.is_none() || !pool[handle].trimmable() {
            return dropped(handle);
        }
        let other = match victim {
            Victim::Arriving => None,
            Victim::ArrivingOrLast => Some(queue).filter(|_| self.toss()),
            Victim::LowestClass => {
                let lowest = 31 - (self.occupied | 1).leading_zeros() as usize;
                Some(lowest).filter(|lowest| *lowest > queue)
            }
        };
        let pushed_out = other.and_then(|other| {
            let last = self.queues[other].fifo.pop_back(pool)?;
            self.took(pool, other, last);
            Some(last)
        });
        let cut = match pushed_out {
            Some(last) => {
                let len = pool[handle].wire_len();
                self.push(pool, queue, handle, len);
                last
            }
            None => handle,
        };
        if !pool[cut].trimmable() {
            return dropped(cut);
        }
        pool[cut].trim();
        Admission { trimmed: true, ..self.enqueue_control(config, pool, cut) }
    }

    fn toss(&mut self) -> bool {
        // Marsaglia's xorshift: enough for a coin.
        self.coin ^= self.coin << 13;
        self.coin ^= self.coin >> 17;
        self.coin ^= self.coin << 5;
        self.coin >> 31 == 1
    }
}
