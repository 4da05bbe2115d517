//! Aggregation: small packets and multicast carried in datagrams between the appliances (§4.8).
//!
//! Bundles are ordinary packets between the two appliances, so the code protects them. What comes out
//! of them enters the local network as recovered packets do.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use wellspring_core::Duration as Span;
use wellspring_maelstrom::{
    Batch, BundleCounters, BundleHello, Bundler, SessionId, Unbundled, Unbundler, Volatile, restore,
};

use crate::addresses::Addresses;
use crate::bundle_peer::{BundlePeer, HELLO_EVERY};
use crate::capture::Capture;
use crate::clock::Clock;
use crate::filter;
use crate::inject::{LocalSocket, destination, source};
use crate::interface::{Interface, InterfaceName};
use crate::setup::{Config, SetupError};
use crate::sys;
use crate::tun::Tun;

/// Packets taken from one place before the others have their turn.
const ROUND: usize = 128;
/// Longest wait for anything.
const WAIT: Duration = Duration::from_millis(50);
/// Memory of the ring that multicast is watched through \[bytes\].
const RING: usize = 2 << 20;
/// Groups that one socket joins, at most: Linux allows 20 of IPv4 unless told otherwise.
const MEMBERSHIPS: usize = 16;
/// Longest packet taken from the local network \[bytes\].
const LONGEST: usize = 65_536;

/// Counters of the aggregation service.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AggregationStatus {
    /// Whether small packets are taken now.
    pub taking: bool,
    /// Whether the peer was heard lately: what it sends is unpacked.
    pub peer_alive: bool,
    /// Towards the peer.
    pub sent: BundleCounters,
    /// From the peer.
    pub received: BundleCounters,
    /// Packets from the peer that do not belong in the local network.
    pub refused: u64,
}

/// An aggregation service that runs. Dropping it ends it.
pub(crate) struct Aggregation {
    stop: Arc<AtomicBool>,
    status: Arc<Mutex<AggregationStatus>>,
    thread: Option<JoinHandle<()>>,
}

impl Aggregation {
    /// Begins, if there is anything to carry. `own` is this appliance's address towards the peer,
    /// `longest` what a protected packet may be.
    pub(crate) fn start(
        config: &Config,
        session: SessionId,
        own: IpAddr,
        longest: usize,
    ) -> Result<Option<Self>, SetupError> {
        if config.aggregate.is_none() && config.multicast.is_empty() {
            return Ok(None);
        }
        let system = |error| SetupError::System("what carries small packets and multicast", error);
        let work = Work::open(config, session, own, longest)?;
        let (stop, status) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (flag, shared) = (Arc::clone(&stop), Arc::clone(&status));
        let run = move || work.run(&flag, &shared);
        let thread =
            thread::Builder::new().name("aggregation".into()).spawn(run).map_err(system)?;
        Ok(Some(Aggregation { stop, status, thread: Some(thread) }))
    }

    pub(crate) fn status(&self) -> AggregationStatus {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Aggregation {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    peer: UdpSocket,
    lan: InterfaceName,
    local: LocalSocket,
    tun: Option<Tun>,
    multicast: Option<Multicast>,
    bundler: Bundler,
    unbundler: Unbundler,
    addresses: Addresses,
    groups: Vec<IpAddr>,
    own: IpAddr,
    out: Batch,
    into: Batch,
    clock: Clock,
    other: BundlePeer,
    refused: u64,
}

/// The groups that are watched, and the sockets that have joined them.
struct Multicast {
    capture: Capture,
    _members: Vec<Socket>,
}

impl Work {
    fn open(
        config: &Config,
        session: SessionId,
        own: IpAddr,
        longest: usize,
    ) -> Result<Self, SetupError> {
        let system = |error| SetupError::System("what carries small packets and multicast", error);
        let port = config.peer.port().checked_sub(1).filter(|&port| port > 0);
        let port = port.ok_or(SetupError::Partitions { got: config.partitions, port: 0 })?;
        let peer = UdpSocket::bind(SocketAddr::new(own, port)).map_err(system)?;
        peer.connect(SocketAddr::new(config.peer.ip(), port)).map_err(system)?;
        peer.set_nonblocking(true).map_err(system)?;
        // Room for what comes while this process waits for a core.
        for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            let set = sys::set_option(peer.as_fd(), libc::SOL_SOCKET, name, &(4 << 20));
            set.map_err(system)?;
        }
        // Before its sockets: one that is made anew meanwhile is noticed.
        let lan = InterfaceName::new(&config.lan);
        let tun = config.aggregate.as_ref().map(|aggregate| {
            if config.remote.is_empty() {
                return Err(SetupError::AggregateWithoutRemote);
            }
            Tun::new(&config.name, &config.lan, &config.remote, aggregate.longest)
                .map_err(SetupError::AggregateRules)
        });
        let join = || Multicast::join(&config.lan, &config.multicast);
        let multicast = (!config.multicast.is_empty()).then(join);
        let headers = if own.is_ipv4() { 28 } else { 48 };
        let hold = config.aggregate.as_ref().map_or(Duration::ZERO, |aggregate| aggregate.hold);
        let hold = Span::from_nanos(hold.as_nanos() as u64);
        let addresses = Addresses {
            remote: config.remote.clone(),
            peer: config.peer.ip(),
            own: vec![own],
            port,
        };
        Ok(Work {
            peer,
            lan,
            local: LocalSocket::new(&config.lan, own).map_err(system)?,
            tun: tun.transpose()?,
            multicast: multicast.transpose().map_err(system)?,
            bundler: Bundler::new(&config.key, session, longest.saturating_sub(headers), hold),
            unbundler: Unbundler::new(&config.key, session),
            addresses,
            groups: config.multicast.clone(),
            own,
            out: Batch::new(),
            into: Batch::new(),
            clock: Clock::starting_at(Instant::now()),
            other: BundlePeer::new(session),
            refused: 0,
        })
    }

    fn run(mut self, stop: &AtomicBool, shared: &Mutex<AggregationStatus>) {
        sys::wake_exactly();
        let mut packet = vec![0; LONGEST];
        let mut hello_at = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            // First: where this process had to wait for a core, the peer has not been silent, but unheard.
            self.take_bundles(now, &mut packet);
            self.take_small(&mut packet);
            self.take_multicast();
            self.bundler.handle_timeout(self.clock.now(), &mut self.out);
            if now >= hello_at {
                hello_at = now + HELLO_EVERY;
                // Who cannot deliver what the peer would send says no hello.
                if self.keep_local() {
                    let hello = self.other.hello(now, self.unbundler.peer());
                    self.bundler.hello(&hello, &mut self.out);
                }
                self.follow(now);
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = self.status(now);
            }
            for datagram in self.out.iter() {
                // What the kernel refuses is lost, as on the way.
                let _ = self.peer.send(datagram);
            }
            self.out.clear();
            self.wait(hello_at.saturating_duration_since(Instant::now()));
        }
    }

    /// Whether packets can be delivered and groups heard; sockets are opened again where the interface has been made anew.
    fn keep_local(&mut self) -> bool {
        let Work { lan, local, multicast, groups, own, .. } = self;
        lan.keep_open(|name| {
            *local = LocalSocket::new(name, *own)?;
            if multicast.is_some() {
                *multicast = Some(Multicast::join(name, groups)?);
            }
            Ok(())
        })
    }

    /// Takes small packets only while the peer says that it unpacks them at the other end.
    fn follow(&mut self, now: Instant) {
        let there = self.other.takes_bundles(now);
        if let Some(tun) = &mut self.tun
            && let Err(error) = tun.set_up(there)
        {
            tracing::warn!("small packets: {error}");
        }
    }

    fn take_small(&mut self, packet: &mut [u8]) {
        let now = self.clock.now();
        let Some(tun) = &mut self.tun else { return };
        for _ in 0..ROUND {
            let Some(len) = tun.read(packet) else { break };
            // The kernel's own, such as router solicitations, are not for the peer.
            if destination(&packet[..len]).is_some_and(|to| self.addresses.is_theirs(to)) {
                self.bundler.add(now, &packet[..len], &mut self.out);
            }
        }
    }

    fn take_multicast(&mut self) {
        let now = self.clock.now();
        let Some(multicast) = &mut self.multicast else { return };
        for _ in 0..ROUND {
            let Some(packet) = multicast.capture.next() else { break };
            if packet.unlike || packet.is_of_vlan() {
                continue;
            }
            if let Some(packet) = unpadded(packet.bytes)
                && one_hop_on(packet)
            {
                self.bundler.add(now, packet, &mut self.out);
            }
        }
    }

    fn take_bundles(&mut self, now: Instant, datagram: &mut [u8]) {
        for _ in 0..ROUND {
            let len = match self.peer.recv(datagram) {
                Ok(len) => len,
                // A peer that is not there yet refuses.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => break,
            };
            let (addresses, groups, into) = (&self.addresses, &self.groups, &mut self.into);
            let (multicast, refused) = (self.multicast.is_some(), &mut self.refused);
            let opened = self.unbundler.handle_datagram(&datagram[..len], |packet| {
                let to = destination(packet).filter(|_| length(packet) == Some(packet.len()));
                let belongs = match (source(packet), to) {
                    (Some(_), Some(to)) if to.is_multicast() => multicast && groups.contains(&to),
                    (Some(from), Some(to)) => addresses.is_theirs(from) && !addresses.is_theirs(to),
                    _ => false,
                };
                if belongs { into.push(packet) } else { *refused += 1 }
            });
            match opened {
                Ok(Unbundled::Packets) => self.other.on_bundle(now),
                Ok(Unbundled::Hello(hello)) => self.other.on_hello(now, &hello),
                Ok(Unbundled::Greeting(session)) => {
                    self.bundler.hello(&BundleHello::answer(session), &mut self.out);
                }
                Err(_) => {}
            }
            self.local.send(&mut self.into);
        }
    }

    fn wait(&self, at_most: Duration) {
        let due = self.bundler.poll_timeout().map_or(WAIT, |due| {
            let now = self.clock.now();
            if now.has_reached(due) {
                Duration::ZERO
            } else {
                Duration::from_nanos(due.since(now).as_nanos())
            }
        });
        let mut from: Vec<BorrowedFd<'_>> = vec![self.peer.as_fd()];
        from.extend(self.tun.as_ref().filter(|tun| tun.is_up()).map(AsFd::as_fd));
        // What watches an interface that is gone only says so, again and again.
        let multicast = self.multicast.as_ref().filter(|_| self.lan.index.is_some());
        from.extend(multicast.map(|multicast| multicast.capture.as_fd()));
        sys::wait_any(&from, due.min(at_most).min(WAIT));
    }

    fn status(&self, now: Instant) -> AggregationStatus {
        AggregationStatus {
            taking: self.tun.as_ref().is_some_and(Tun::is_up),
            peer_alive: self.other.is_heard(now),
            sent: *self.bundler.counters(),
            received: *self.unbundler.counters(),
            refused: self.refused,
        }
    }
}

impl Multicast {
    fn join(lan: &str, groups: &[IpAddr]) -> io::Result<Self> {
        let lan = Interface::find(lan)?;
        let lan = lan.ok_or_else(|| io::Error::other("the local interface is gone"))?;
        // A socket joins groups of its own IP version.
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) =
            groups.iter().copied().partition(IpAddr::is_ipv4);
        let program = filter::groups(groups);
        let mut members = Vec::new();
        for groups in v4.chunks(MEMBERSHIPS).chain(v6.chunks(MEMBERSHIPS)) {
            let domain = if groups[0].is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
            let member = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
            for group in groups {
                match group {
                    IpAddr::V4(group) => {
                        let lan = InterfaceIndexOrAddress::Index(lan.index);
                        member.join_multicast_v4_n(group, &lan)?;
                    }
                    IpAddr::V6(group) => member.join_multicast_v6(group, lan.index)?,
                }
            }
            members.push(member);
        }
        let capture = Capture::packets(lan.index, lan.mtu + 64, RING, &program)?;
        Ok(Multicast { capture, _members: members })
    }
}

/// Counts a packet one hop further, as a router does; false if it may not go that far.
fn one_hop_on(packet: &mut [u8]) -> bool {
    let (hops, class) = match packet.first() {
        Some(0x45) if packet.len() >= 20 => (packet[8], packet[1]),
        Some(first) if first >> 4 == 6 && packet.len() >= 40 => {
            (packet[7], packet[0] << 4 | packet[1] >> 4)
        }
        _ => return false,
    };
    if hops <= 1 {
        return false;
    }
    restore(packet, Volatile { hops: hops - 1, class });
    true
}

/// A packet without what pads its frame (Ethernet's have 60 bytes at least); none if it is shorter than it says.
fn unpadded(packet: &mut [u8]) -> Option<&mut [u8]> {
    let length = length(packet)?;
    packet.get_mut(..length)
}

/// How long a packet says that it is.
fn length(packet: &[u8]) -> Option<usize> {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => {
            Some(usize::from(u16::from_be_bytes([packet[2], packet[3]])))
        }
        Some(6) if packet.len() >= 40 => {
            Some(40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_packet_is_taken_without_what_pads_its_frame() {
        let mut frame = vec![0; 46];
        (frame[0], frame[3], frame[31]) = (0x45, 32, 7);
        assert_eq!(unpadded(&mut frame).map(|packet| packet.to_vec()), Some(frame[..32].to_vec()));
        assert_eq!(unpadded(&mut frame[..31]), None, "cut");
        let mut frame = vec![0; 50];
        (frame[0], frame[5]) = (0x60, 8);
        assert_eq!(unpadded(&mut frame).map(|packet| packet.len()), Some(48));
        assert_eq!(unpadded(&mut []), None);
    }
}
