//! Datagrams that a switch has trimmed, which a UDP socket never shows.
//!
//! A trimming switch mends IP's length and leaves UDP's (SAI, SONIC): the kernel then finds a UDP
//! length beyond the packet's end and drops it (`InErrors`). A raw socket is served before that
//! check. A filter in the kernel passes only what is for our port and shorter than its UDP header
//! says, so whole datagrams cost nothing here.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use rustix::net::{RecvFlags, recvfrom};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

/// UDP's header \[bytes\].
const UDP_LEN: usize = 8;
/// Longest trimmed datagram looked at: no switch leaves more than its own largest trim size, and
/// only headers matter \[bytes\].
const LONGEST: usize = 2_048;

/// A trimmed datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trimmed<'a> {
    /// Who sent it, by its own account.
    pub from: SocketAddr,
    /// What is left behind the UDP header.
    pub bytes: &'a [u8],
}

/// A raw socket that shows trimmed datagrams for one port. Needs the right to open raw sockets
/// (`CAP_NET_RAW`).
#[derive(Debug)]
pub struct TrimTap {
    socket: Socket,
    v6: bool,
    buffer: Box<[u8; LONGEST]>,
}

impl TrimTap {
    /// Opens a tap for datagrams to that port, of IPv6 or of IPv4.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] without the right to open raw sockets.
    pub fn open(port: u16, v6: bool) -> io::Result<TrimTap> {
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::RAW.nonblocking(), Some(Protocol::UDP))?;
        socket.attach_filter(&filter(port, v6))?;
        // What came between the two calls has not met the filter.
        let mut tap = TrimTap { socket, v6, buffer: Box::new([0; LONGEST]) };
        while tap.receive_packet().is_ok() {}
        Ok(tap)
    }

    /// The next trimmed datagram; `None` when there is none.
    pub fn receive(&mut self) -> Option<Trimmed<'_>> {
        let (len, source) = self.receive_packet().ok()?;
        let packet = &self.buffer[..len];
        let header_len = if self.v6 { 0 } else { usize::from(packet.first()? & 0x0f) * 4 };
        let udp = packet.get(header_len..)?;
        let port = u16::from_be_bytes([*udp.first()?, *udp.get(1)?]);
        let from = SocketAddr::new(source.ip(), port);
        Some(Trimmed { from, bytes: udp.get(UDP_LEN..)? })
    }

    fn receive_packet(&mut self) -> io::Result<(usize, SocketAddr)> {
        let buffer = &mut self.buffer[..];
        let (len, _, source) = recvfrom(&self.socket, buffer, RecvFlags::TRUNC)?;
        let source = source.and_then(|any| SocketAddr::try_from(any).ok());
        let source = source.ok_or_else(|| io::Error::other("a packet without a sender"))?;
        Ok((len.min(LONGEST), source))
    }
}

impl AsRawFd for TrimTap {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Passes packets for `port` whose UDP length says more than there is.
fn filter(port: u16, v6: bool) -> [SockFilter; 10] {
    let op = |code: u32, jt, jf, k| SockFilter::new(code as u16, jt, jf, k);
    // A raw IPv4 socket's packets begin with the IP header, a raw IPv6 socket's behind it.
    let load_header_len = if v6 {
        op(libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM, 0, 0, 0)
    } else {
        op(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0)
    };
    let (accept, drop) = (u32::from(u16::MAX), 0);
    [
        load_header_len,
        op(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, 2),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 6, u32::from(port)),
        // Where the datagram should end: behind IP's header by UDP's length.
        op(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, 4),
        op(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0, 0, 0),
        op(libc::BPF_MISC | libc::BPF_TAX, 0, 0, 0),
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_X, 1, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, accept),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, drop),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// A datagram from port 4000 to `port` whose UDP length says `announced` bytes.
    fn udp(port: u16, announced: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&4_000_u16.to_be_bytes());
        bytes.extend_from_slice(&port.to_be_bytes());
        bytes.extend_from_slice(&(announced + UDP_LEN as u16).to_be_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn trimmed_datagrams_are_seen(v6: bool) {
        let loopback = if v6 { "[::1]:0" } else { "127.0.0.1:0" };
        let ordinary = UdpSocket::bind(loopback).expect("loopback");
        ordinary.set_nonblocking(true).expect("a flag");
        let to = ordinary.local_addr().expect("bound");
        let mut tap = match TrimTap::open(to.port(), v6) {
            Ok(tap) => tap,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                assert!(std::env::var_os("CI").is_none(), "CI has the right to open raw sockets");
                eprintln!("not checked, raw sockets are not allowed: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        // What a trimming switch leaves: IP's length (made by the kernel) right, UDP's not.
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        let raw = Socket::new(domain, Type::RAW, Some(Protocol::UDP)).expect("as above");
        let mut destination = to;
        destination.set_port(0);
        let send = |bytes: &[u8]| {
            raw.send_to(bytes, &destination.into()).expect("loopback takes it");
        };
        send(&udp(to.port(), 1_368, b"sixteen bytes in"));
        send(&udp(to.port(), 5, b"whole"));
        send(&udp(to.port().wrapping_add(1), 1_368, b"for another port"));
        send(&udp(to.port(), 1_368, b"the second"));

        let seen = |tap: &mut TrimTap| tap.receive().map(|t| (t.from.port(), t.bytes.to_vec()));
        assert_eq!(seen(&mut tap), Some((4_000, b"sixteen bytes in".to_vec())));
        assert_eq!(seen(&mut tap), Some((4_000, b"the second".to_vec())));
        assert_eq!(seen(&mut tap), None, "whole datagrams and other ports are filtered out");

        let mut buffer = [0; 100];
        if !v6 {
            // (Over IPv6 a checksum of 0 is refused.)
            let (len, _) = ordinary.recv_from(&mut buffer).expect("the whole one");
            assert_eq!(&buffer[..len], b"whole");
        }
        assert!(ordinary.recv_from(&mut buffer).is_err(), "a UDP socket never sees trimmed ones");
    }

    #[test]
    fn trimmed_datagrams_are_seen_over_ipv4() {
        trimmed_datagrams_are_seen(false);
    }

    #[test]
    fn trimmed_datagrams_are_seen_over_ipv6() {
        trimmed_datagrams_are_seen(true);
    }
}
