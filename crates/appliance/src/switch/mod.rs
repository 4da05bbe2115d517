//! Software switch with the queues of the simulator, which trims packets instead of dropping them.
//!
//! It learns which station is behind which port, floods what is for many stations or for an unknown one,
//! and queues each frame at its port by `wellspring-fabric`: SCDP's trimming switch, or one that drops at the
//! tail, with marks or without. As in production switches only what goes to one known station is trimmed.
//!
//! Rates of up to about a gigabit a second are what it is for: it is a switch to try things on.

mod addresses;
mod counters;
mod egress;
mod frame;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wellspring_fabric::{ControlQueue, Limit, Overflow, PortConfig, Sharing, Victim};

use crate::capture::Capture;
use crate::inject::{InjectCounters, send};
use crate::interface::Interface;
use crate::sys;
use addresses::Addresses;
pub use counters::PortCounters;
use egress::{Buffers, Egress, Waiting};
pub use frame::Marking;
use frame::Treatment;

/// The link's header and a VLAN tag \[bytes\].
const LINK_HEADER: usize = 18;
/// Memory of each port's ring \[bytes\].
const RING: usize = 8 << 20;
/// Frames taken in from each port before they are put in order.
const ROUND: usize = 64;
/// Frames may leave so much early: to wake up for each would take a core.
const GRAIN: Duration = Duration::from_micros(20);
/// The longest wait for frames, after which `stop` is looked at.
const WAIT: Duration = Duration::from_millis(20);
/// A frame that waited longer in a ring counts as having arrived so long ago.
const OLDEST: Duration = Duration::from_millis(100);
/// Stations remembered.
const MOST_STATIONS: usize = 8192;

/// How a switch treats frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// What each port sends at \[bit/s\]; as fast as the machine if none.
    pub rate: Option<u64>,
    /// Data frames that wait at a port, at most.
    pub queue: u32,
    /// What does not fit is trimmed, not dropped.
    pub trim: bool,
    /// Frames whose transport reads marks are marked when so many wait.
    pub mark_at: Option<u32>,
    /// What waits in the queue of headers and control packets of a port, at most \[bytes\].
    pub control_queue: u64,
    /// What trimming leaves of an IP packet \[bytes\]: at least IP's and UDP's headers and 16.
    pub keep: usize,
    /// Which DSCPs mean what.
    pub marking: Marking,
    /// Run before all other programs: without it frames are late on a busy machine.
    pub first: bool,
}

impl Default for SwitchConfig {
    /// 1 Gbit/s and 20 packets a port, as in the SCDP paper's simulations (§V), trimmed. Data classes are as many as
    /// [`Marking`] has DSCPs for symbols.
    fn default() -> Self {
        SwitchConfig {
            rate: Some(1_000_000_000),
            queue: 20,
            trim: true,
            mark_at: None,
            control_queue: 256 << 10,
            keep: 64,
            marking: Marking::default(),
            first: true,
        }
    }
}

impl SwitchConfig {
    fn port(&self) -> PortConfig {
        let classes = self.marking.symbols.len().clamp(1, PortConfig::MAX_CLASSES.into()) as u8;
        let control =
            ControlQueue { limit: Limit::Bytes(self.control_queue), ..ControlQueue::PAPER };
        PortConfig {
            control: self.trim.then_some(control),
            data_classes: if self.trim { classes } else { 1 },
            data_limit: Limit::Packets(self.queue),
            sharing: Sharing::Shared,
            overflow: if self.trim { Overflow::Trim(Victim::Arriving) } else { Overflow::Drop },
            ecn_threshold: self.mark_at.map_or(Limit::Unlimited, Limit::Packets),
        }
    }
}

/// A port: an interface's ring, its queues, and the socket that sends.
struct SwitchPort {
    capture: Capture,
    egress: Egress,
    out: OwnedFd,
    counters: PortCounters,
    injected: InjectCounters,
}

impl SwitchPort {
    fn open(name: &str, config: &SwitchConfig) -> io::Result<Self> {
        let found = Interface::find(name)?;
        let interface = found.ok_or_else(|| io::Error::other(format!("no interface `{name}`")))?;
        let out = sys::packet_socket(sys::See::Frames)?;
        sys::set_option(out.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
        sys::set_option(out.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &(16 << 20))?;
        sys::bind_packet(out.as_fd(), interface.index, false)?;
        Ok(SwitchPort {
            capture: Capture::frames(interface.index, interface.mtu + LINK_HEADER, RING)?,
            egress: Egress::new(config.port(), config.rate, Instant::now()),
            out,
            counters: PortCounters::default(),
            injected: InjectCounters::default(),
        })
    }

    fn counters(&mut self) -> PortCounters {
        self.counters.unwanted += self.capture.drops();
        PortCounters { sent: self.injected.sent, refused: self.injected.failed, ..self.counters }
    }
}

/// A frame that has come in.
struct Arrival {
    at: Instant,
    port: usize,
    slot: u32,
}

/// A switch between interfaces.
pub struct Switch {
    config: SwitchConfig,
    names: Vec<String>,
    ports: Vec<SwitchPort>,
    addresses: Addresses,
    buffers: Buffers,
    arrivals: Vec<Arrival>,
    leaving: Vec<u32>,
}

impl Switch {
    /// Opens the interfaces: from then on frames wait for [`run`](Self::run).
    ///
    /// # Errors
    /// No such interface, one named twice, or packet sockets are not allowed.
    pub fn open(interfaces: &[String], config: SwitchConfig) -> io::Result<Self> {
        for (i, name) in interfaces.iter().enumerate() {
            if interfaces[..i].contains(name) {
                return Err(io::Error::other(format!("`{name}` is named twice")));
            }
        }
        let ports = interfaces.iter().map(|name| SwitchPort::open(name, &config));
        Ok(Switch {
            ports: ports.collect::<io::Result<_>>()?,
            config,
            names: interfaces.to_vec(),
            addresses: Addresses::new(MOST_STATIONS),
            buffers: Buffers::default(),
            arrivals: Vec::new(),
            leaving: Vec::new(),
        })
    }

    /// Forwards frames until `stop`; gives back what each port did. Blocks the thread.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<Vec<PortCounters>> {
        sys::wake_exactly();
        if self.config.first {
            // Not allowed everywhere; then frames are as late as they are.
            let _ = sys::run_first();
        }
        while !stop.load(Ordering::Relaxed) {
            if !self.turn() {
                self.look_at_interfaces()?;
            }
        }
        Ok(self.ports.iter_mut().map(SwitchPort::counters).collect())
    }

    /// Takes in what has come, forwards it in the order of its arrival, and sends what is due; returns whether anything
    /// had come, and waits a little if not.
    fn turn(&mut self) -> bool {
        self.take_in();
        let arrivals = core::mem::take(&mut self.arrivals);
        for arrival in &arrivals {
            self.forward(arrival);
        }
        let idle = arrivals.is_empty();
        self.arrivals = arrivals;
        self.send_due();
        let next = self.ports.iter().filter_map(|port| port.egress.next()).min();
        let wait = next.map_or(WAIT, |next| next.saturating_duration_since(Instant::now()));
        if wait < 2 * GRAIN {
            // What arrives meanwhile waits in the rings.
            if idle && !wait.is_zero() {
                thread::sleep(wait);
            }
        } else if idle {
            let sockets: Vec<BorrowedFd<'_>> =
                self.ports.iter().map(|port| port.capture.as_fd()).collect();
            sys::wait_any(&sockets, wait.min(WAIT) - GRAIN);
        }
        !idle
    }

    /// Takes note of interfaces that went down, else waiting for them would not wait. They may come up again, unless they are
    /// gone.
    fn look_at_interfaces(&self) -> io::Result<()> {
        for (port, name) in self.ports.iter().zip(&self.names) {
            let error = socket2::SockRef::from(&port.capture.as_fd()).take_error()?;
            if error.is_some() && Interface::find(name)?.is_none() {
                return Err(io::Error::other(format!("interface `{name}` is gone")));
            }
        }
        Ok(())
    }

    fn take_in(&mut self) {
        let Self { ports, buffers, arrivals, .. } = self;
        arrivals.clear();
        // Rings have the time of day, queues a clock that nobody sets.
        let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Instant::now();
        for (i, port) in ports.iter_mut().enumerate() {
            for _ in 0..ROUND {
                let Some(seen) = port.capture.next() else { break };
                port.counters.received += 1;
                port.counters.received_bytes += seen.bytes.len() as u64;
                if seen.unlike {
                    port.counters.unlike += 1;
                    port.counters.unwanted += 1;
                    continue;
                }
                let age = day.saturating_sub(seen.stamp).min(OLDEST);
                let at = now.checked_sub(age).unwrap_or(now);
                arrivals.push(Arrival { at, port: i, slot: buffers.keep(seen.bytes) });
            }
        }
        arrivals.sort_by_key(|arrival| arrival.at);
    }

    fn forward(&mut self, arrival: &Arrival) {
        let Self { config, ports, addresses, buffers, .. } = self;
        let all = ports.len();
        let frame = buffers.get(arrival.slot);
        addresses.learn(frame, arrival.port, arrival.at);
        let treatment = frame::read(frame, &config.marking, config.keep);
        let len = frame.len();
        let mut offer = |buffers: &mut Buffers, to: usize, slot, treatment| {
            let SwitchPort { egress, counters, .. } = &mut ports[to];
            egress.offer(arrival.at, Waiting::new(slot, len, treatment), buffers, counters);
        };
        match addresses.port_of(frame, arrival.at) {
            Some(port) if port == arrival.port => buffers.release(arrival.slot),
            Some(port) => offer(buffers, port, arrival.slot, treatment),
            None => {
                let treatment = Treatment { cut: None, ..treatment };
                for port in (0..all).filter(|&port| port != arrival.port) {
                    let copy = buffers.copy(arrival.slot);
                    offer(buffers, port, copy, treatment);
                }
                buffers.release(arrival.slot);
            }
        }
    }

    fn send_due(&mut self) {
        let Self { config, ports, buffers, leaving, .. } = self;
        let until = Instant::now() + GRAIN;
        for port in ports {
            port.egress.advance(until);
            port.egress.take_leaving(buffers, &config.marking, leaving);
            let frames = leaving.iter().map(|&slot| (buffers.get(slot), None));
            send(port.out.as_fd(), frames, &mut port.injected);
            for slot in leaving.drain(..) {
                port.counters.sent_bytes += buffers.get(slot).len() as u64;
                buffers.release(slot);
            }
        }
    }
}
