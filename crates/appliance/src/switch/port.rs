//! Port of a switch: an interface's ring, its queues, and the socket that sends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use super::buffers::Buffers;
use super::config::SwitchConfig;
use super::counters::PortCounters;
use super::egress::{Egress, Leaving};
use super::refusal::LINK_HEADER;
use crate::capture::Capture;
use crate::inject::{InjectCounters, send};
use crate::interface::Interface;
use crate::sys;

/// Memory of each port's ring \[bytes\].
const RING: usize = 8 << 20;

/// A port.
pub(super) struct SwitchPort {
    /// Its number in the switch.
    pub number: usize,
    pub name: String,
    pub capture: Capture,
    pub egress: Egress,
    pub counters: PortCounters,
    out: OwnedFd,
    injected: InjectCounters,
}

impl SwitchPort {
    pub(super) fn open(
        number: usize,
        interface: &Interface,
        config: &SwitchConfig,
    ) -> io::Result<Self> {
        let out = sys::packet_socket(sys::See::Frames)?;
        sys::set_option(out.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
        sys::set_option(out.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &(16 << 20))?;
        sys::bind_packet(out.as_fd(), interface.index, false)?;
        Ok(SwitchPort {
            number,
            name: interface.name.clone(),
            capture: Capture::frames(interface.index, interface.mtu + LINK_HEADER, RING)?,
            egress: Egress::new(config.port(), config.rate, Instant::now()),
            counters: PortCounters::default(),
            out,
            injected: InjectCounters::default(),
        })
    }

    /// Sends frames.
    pub(super) fn send(&mut self, leaving: &[Leaving], buffers: &Buffers) {
        let frames = leaving.iter().map(|frame| (buffers.on_wire(frame.slot, frame.tagged), None));
        send(self.out.as_fd(), frames, &mut self.injected);
        let bytes = leaving.iter().map(|frame| buffers.on_wire(frame.slot, frame.tagged).len());
        self.counters.sent_bytes += bytes.sum::<usize>() as u64;
    }

    /// The counters at this moment.
    pub(super) fn counters(&mut self) -> PortCounters {
        self.capture.count_drops();
        self.counters.overrun = self.capture.drops();
        self.counters.sent = self.injected.sent;
        self.counters.refused = self.injected.failed;
        for (number, queue) in self.counters.queues.iter_mut().enumerate() {
            queue.bytes = self.egress.queue_bytes(number);
        }
        self.counters
    }

    /// Takes note of an interface that went down, else waiting for it would not wait. It may come up again, unless it is
    /// gone.
    pub(super) fn look(&self) -> io::Result<()> {
        let error = socket2::SockRef::from(&self.capture.as_fd()).take_error()?;
        if error.is_some() && Interface::find(&self.name)?.is_none() {
            return Err(io::Error::other(format!("interface `{}` is gone", self.name)));
        }
        Ok(())
    }
}
