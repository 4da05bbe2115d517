//! Options of UDP sockets that Linux has.

use std::io;
use std::os::fd::RawFd;

use super::options::{option, set_multicast_interface_v4, set_option};
use crate::socket::meta::Options;

/// Has a socket tell what came with datagrams and what ICMP says of them, and sets how it sends.
pub(in crate::socket) fn prepare(fd: RawFd, options: &Options) -> io::Result<()> {
    let Options { v6, v4, .. } = *options;
    if v6 {
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
    }
    if v4 {
        set_option(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        set_option(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        set_option(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
        let ttl = libc::c_int::from(options.multicast_ttl);
        set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, ttl)?;
        let looped = libc::c_int::from(options.multicast_loopback);
        set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, looped)?;
    }
    if options.unfragmented {
        let probe = libc::IP_PMTUDISC_PROBE;
        if v6 {
            set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)?;
        }
        if v4 {
            set_option(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, probe)?;
        }
    }
    match options.multicast_interface {
        Some(index) if v4 => set_multicast_interface_v4(fd, index),
        _ => Ok(()),
    }
}

/// Whether segmentation offload (GSO) is there.
pub(in crate::socket) fn has_segmentation(fd: RawFd) -> bool {
    option(fd, libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
}

/// Whether receive coalescing (GRO) is there; it is on from now on.
pub(in crate::socket) fn has_coalescing(fd: RawFd) -> bool {
    set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok()
}

/// Sets the buffers beyond the system's limit: which of receive and send buffer could be.
pub(in crate::socket) fn force_buffers(fd: RawFd, options: &Options) -> (bool, bool) {
    let size = |bytes: usize| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
    let force = |name, bytes| set_option(fd, libc::SOL_SOCKET, name, size(bytes)).is_ok();
    (
        force(libc::SO_RCVBUFFORCE, options.receive_buffer),
        force(libc::SO_SNDBUFFORCE, options.send_buffer),
    )
}

/// MTU of the path of a connected socket, as far as it is known \[bytes\].
pub(in crate::socket) fn path_mtu(fd: RawFd, v4: bool) -> io::Result<usize> {
    let mtu = if v4 {
        option(fd, libc::IPPROTO_IP, libc::IP_MTU)
    } else {
        option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU)
    }?;
    Ok(usize::try_from(mtu).unwrap_or(0))
}
