//! A port with its link: packets wait, leave and arrive.

use crate::parcel::Parcel;
use crate::topology::Directed;
use wellspring_core::Rate;
use wellspring_fabric::{Fifo, Handle, Packet, Pool, Port, PortConfig};

/// A port and the link behind it. What every packet touches lies in the first cache line; the
/// queues follow, the shorter a queue's number the nearer.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Egress {
    /// When the last packet started has left \[ps\].
    pub(super) busy_until: u64,
    /// Picoseconds a byte, times 2^32, rounded up.
    scale: u64,
    pub(super) delay: u64,
    pub(super) sent_packets: u64,
    pub(super) sent_bytes: u64,
    pub to: u32,
    /// Packets on the link by time of arrival. While this is not empty, an event is pending for
    /// the first; while packets are queued, it is not empty.
    pub(super) in_flight: Fifo,
    pub(super) is_down: bool,
    pub(super) port: Port,
}

// A port's first word shows whether packets wait.
const _: () = assert!(core::mem::offset_of!(Egress, port) == 60);

impl Egress {
    pub(super) fn new(directed: &Directed, seed: u32) -> Self {
        Egress {
            busy_until: 0,
            scale: scale(directed.rate),
            delay: directed.delay.as_picos(),
            sent_packets: 0,
            sent_bytes: 0,
            to: directed.to.0,
            in_flight: Fifo::EMPTY,
            is_down: false,
            port: Port::new(seed),
        }
    }

    pub fn is_up(&self) -> bool {
        !self.is_down
    }

    pub fn busy_until(&self) -> u64 {
        self.busy_until
    }

    /// Starts to send a packet at `at`; true if an event must be scheduled for it.
    #[inline]
    pub(super) fn start(&mut self, pool: &mut Pool<Parcel>, at: u64, handle: Handle) -> bool {
        let parcel = &mut pool[handle];
        let len = parcel.wire_len();
        self.busy_until = at + self.transmission_time(len);
        self.sent_packets += 1;
        self.sent_bytes += u64::from(len);
        parcel.arrives = self.busy_until + self.delay;
        let first = self.in_flight.is_empty();
        self.in_flight.push_back(pool, handle);
        first
    }

    /// Time to send so many bytes \[ps\].
    #[inline]
    fn transmission_time(&self, len: u32) -> u64 {
        ((u128::from(len) * u128::from(self.scale) + 0xffff_ffff) >> 32) as u64
    }

    /// Time from the start of a packet's transmission to its arrival \[ps\].
    pub(super) fn time_on_link(&self, len: u32) -> u64 {
        self.transmission_time(len) + self.delay
    }

    /// Works out, in arrears, which packets left the queue up to now: how many.
    #[inline]
    pub(super) fn catch_up(
        &mut self,
        pool: &mut Pool<Parcel>,
        now: u64,
        config: &PortConfig,
    ) -> u64 {
        let mut started = 0;
        while self.busy_until <= now && !self.port.is_empty() {
            let Some(handle) = self.port.dequeue(config, pool) else { break };
            self.start(pool, self.busy_until, handle);
            started += 1;
        }
        started
    }
}

fn scale(rate: Rate) -> u64 {
    let picos_per_byte = (8_000_000_000_000_u128 << 32).div_ceil(rate.as_bits_per_second().into());
    picos_per_byte.min(u64::MAX.into()) as u64
}
