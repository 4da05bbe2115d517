//! Packet injection: repairs towards the peer, recovered packets into the local network.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use wellspring_maelstrom::Batch;

use crate::filter;
use crate::sys::{self, SEND_BATCH};

/// What was put beside the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct InjectCounters {
    /// Sent.
    pub sent: u64,
    /// Refused by the kernel: no room, no route, too long.
    pub failed: u64,
}

impl InjectCounters {
    pub(crate) fn add(&mut self, other: &InjectCounters) {
        self.sent += other.sent;
        self.failed += other.failed;
    }
}

/// The socket that repairs leave by. It receives nothing: what the peer sends is seen in the ring,
/// in order with the packets.
pub(crate) struct PeerSocket {
    socket: Socket,
    local: IpAddr,
    /// Where it sends; none as long as the peer's address is not known.
    peer: Option<SocketAddr>,
    /// Traffic class of what it sends now.
    class: u8,
    pub counters: InjectCounters,
}

impl PeerSocket {
    /// A socket towards the peer, on that interface, from the peer's port. A peer at no address in particular is sent
    /// nothing until its address is known; this end's is `site` then, or the interface's.
    pub(crate) fn new(peer: SocketAddr, interface: &str, site: Option<IpAddr>) -> io::Result<Self> {
        let domain = Domain::for_address(peer);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        sys::attach_filter(socket.as_fd(), &filter::nothing())?;
        socket.bind_device(Some(interface.as_bytes()))?;
        // Another appliance of this machine may have the partition for a moment too.
        socket.set_reuse_port(true)?;
        // Never fragmented: a fragment lost would be a repair lost.
        let (level, name, always) = match peer {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
            SocketAddr::V6(_) => {
                (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
            }
        };
        sys::set_option(socket.as_fd(), level, name, &always)?;
        socket.set_send_buffer_size(4 << 20)?;
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        socket.bind(&SocketAddr::new(any, peer.port()).into())?;
        socket.set_nonblocking(true)?;
        let known = !peer.ip().is_unspecified();
        let local = match site.filter(|_| !known) {
            Some(site) => site,
            None => {
                socket.connect(&if known { peer } else { somewhere(peer) }.into())?;
                let local = socket.local_addr()?.as_socket();
                local.ok_or_else(|| io::Error::other("no local address"))?.ip()
            }
        };
        let (peer, counters) = (known.then_some(peer), InjectCounters::default());
        Ok(PeerSocket { socket, local, peer, class: 0, counters })
    }

    /// Where it sends; none as long as that is not known.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Sends there from now on.
    pub(crate) fn redirect(&mut self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(&peer.into())?;
        self.peer = Some(peer);
        Ok(())
    }

    fn set_class(&mut self, class: u8) {
        if class == self.class {
            return;
        }
        let (level, name) = match self.local {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        // A repair of another class is better than none.
        let _ = sys::set_option(self.socket.as_fd(), level, name, &libc::c_int::from(class));
        self.class = class;
    }

    /// This end's address.
    pub(crate) fn local(&self) -> IpAddr {
        self.local
    }

    /// Sends all datagrams of a batch there, wherever the peer is.
    pub(crate) fn send_to(&mut self, batch: &Batch, at: SocketAddr) {
        for (class, datagram) in batch.with_classes() {
            self.set_class(class);
            match self.socket.send_to(datagram, &at.into()) {
                Ok(_) => self.counters.sent += 1,
                Err(_) => self.counters.failed += 1,
            }
        }
    }

    /// Sends all datagrams of a batch, each in its traffic class, and empties it.
    pub(crate) fn send(&mut self, batch: &mut Batch) {
        if self.peer.is_some() {
            let mut datagrams = batch.with_classes().peekable();
            while let Some(&(class, _)) = datagrams.peek() {
                self.set_class(class);
                let alike = std::iter::from_fn(|| datagrams.next_if(|next| next.0 == class));
                let alike = alike.map(|(_, datagram)| (datagram, None));
                send(self.socket.as_fd(), alike, &mut self.counters);
            }
        }
        batch.clear();
    }
}

/// An address that is nobody's (RFC 5737, RFC 3849) and as far as all others, to ask the kernel for the way there.
fn somewhere(like: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match like {
        SocketAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        SocketAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    SocketAddr::new(ip, like.port())
}

/// The sockets that recovered packets enter the local network by: raw ones, so that the kernel
/// chooses the next hop and its address.
pub(crate) struct LocalSocket {
    v4: Socket,
    v6: Option<Socket>,
    /// For packets to this machine itself, which no interface takes.
    here: Socket,
    own: IpAddr,
    pub counters: InjectCounters,
}

impl LocalSocket {
    /// Sockets that send by that interface alone, or to this machine at its address `own`.
    pub(crate) fn new(interface: &str, own: IpAddr) -> io::Result<Self> {
        let open = |domain, interface: Option<&str>| -> io::Result<Socket> {
            // IPPROTO_RAW: packets come with their headers.
            let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
            sys::attach_filter(socket.as_fd(), &filter::nothing())?;
            socket.bind_device(interface.map(str::as_bytes))?;
            socket.set_send_buffer_size(4 << 20)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        // A machine without IPv6 has none to recover.
        let (v4, v6) =
            (open(Domain::IPV4, Some(interface))?, open(Domain::IPV6, Some(interface)).ok());
        let here = open(if own.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 }, None)?;
        Ok(LocalSocket { v4, v6, here, own, counters: InjectCounters::default() })
    }

    /// Sends all IP packets of a batch, and empties it.
    pub(crate) fn send(&mut self, batch: &mut Batch) {
        for packet in batch.iter() {
            let (to, socket) = match destination(packet) {
                Some(to) if to == self.own => (to, Some(&self.here)),
                Some(to @ IpAddr::V4(_)) => (to, Some(&self.v4)),
                Some(to @ IpAddr::V6(_)) => (to, self.v6.as_ref()),
                None => continue,
            };
            let Some(socket) = socket else {
                self.counters.failed += 1;
                continue;
            };
            let to = SockAddr::from(SocketAddr::new(to, 0));
            send(socket.as_fd(), std::iter::once((packet, Some(to))), &mut self.counters);
        }
        batch.clear();
    }
}

/// Sends messages in order; one that the kernel refuses is counted and passed over.
pub(crate) fn send<'a>(
    fd: BorrowedFd<'_>,
    messages: impl Iterator<Item = (&'a [u8], Option<SockAddr>)>,
    counters: &mut InjectCounters,
) {
    let mut messages = messages.peekable();
    let mut chunk = Vec::with_capacity(SEND_BATCH);
    while messages.peek().is_some() {
        chunk.extend(messages.by_ref().take(SEND_BATCH));
        let mut rest = chunk.as_slice();
        while !rest.is_empty() {
            match sys::send_many(fd, rest) {
                Ok(sent) => {
                    counters.sent += sent as u64;
                    rest = &rest[sent.max(1)..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    counters.failed += 1;
                    rest = &rest[1..];
                }
            }
        }
        chunk.clear();
    }
}

/// Where an IP packet goes.
pub(crate) fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4Addr::from(*packet.get(16..20)?.first_chunk::<4>()?).into()),
        6 => Some(Ipv6Addr::from(*packet.get(24..40)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// Where an IP packet comes from.
pub(crate) fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4Addr::from(*packet.get(12..16)?.first_chunk::<4>()?).into()),
        6 => Some(Ipv6Addr::from(*packet.get(8..24)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// The payload of an unfragmented UDP datagram to that port.
pub(crate) fn udp_payload(packet: &[u8], port: u16) -> Option<&[u8]> {
    const UDP: u8 = 17;
    let (header, protocol) = match packet.first()? >> 4 {
        4 => {
            // More fragments, or not the first.
            if packet.get(6)? & 0x3f != 0 || *packet.get(7)? != 0 {
                return None;
            }
            (usize::from(packet[0] & 15) * 4, *packet.get(9)?)
        }
        6 => (40, *packet.get(6)?),
        _ => return None,
    };
    let udp = packet.get(header..)?;
    if protocol != UDP || u16::from_be_bytes(*udp.get(2..4)?.first_chunk()?) != port {
        return None;
    }
    let len = usize::from(u16::from_be_bytes(*udp.get(4..6)?.first_chunk()?));
    udp.get(8..len)
}

/// Whether an IP packet has the mark CE (RFC 3168).
pub(crate) fn is_marked(packet: &[u8]) -> bool {
    let ecn = match packet {
        [first, class, ..] if first >> 4 == 4 => class & 3,
        [first, class, ..] if first >> 4 == 6 => class >> 4 & 3,
        _ => 0,
    };
    ecn == 3
}

/// The port that a UDP datagram comes from.
pub(crate) fn udp_source_port(packet: &[u8]) -> Option<u16> {
    let header = match packet.first()? >> 4 {
        4 => usize::from(packet[0] & 15) * 4,
        _ => 40,
    };
    Some(u16::from_be_bytes(*packet.get(header..header + 2)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_read_from_whole_packets_only() {
        let mut packet =
            vec![0x45, 0, 0, 33, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend_from_slice(&[0x12, 0x67, 0x12, 0x67, 0, 13, 0, 0, 1, 2, 3, 4, 5, 99, 99]);
        assert_eq!(udp_payload(&packet, 0x1267), Some(&[1, 2, 3, 4, 5][..]));
        assert_eq!(udp_payload(&packet, 1), None);
        assert_eq!(udp_source_port(&packet), Some(0x1267));
        assert_eq!(source(&packet), Some(IpAddr::from([10, 0, 0, 1])));
        assert_eq!(destination(&packet), Some(IpAddr::from([10, 0, 0, 2])));
        for cut in 0..33 {
            assert_eq!(udp_payload(&packet[..cut], 0x1267), None);
        }
        packet[6] = 0x20;
        assert_eq!(udp_payload(&packet, 0x1267), None, "a fragment");
        for bytes in [&[][..], &[0x45], &[0x60; 39], &[0xff; 60]] {
            assert_eq!(udp_payload(bytes, 1), None);
            let _ = (source(bytes), destination(bytes));
        }
    }
}
