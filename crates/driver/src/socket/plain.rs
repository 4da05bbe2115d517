//! Datagrams as every system has them: one by one, with nothing but an address.
//!
//! What stands in for the interfaces of Linux elsewhere, and on Linux where a socket is to be
//! plain: DSCP and ECN are not set and not seen, nor are the addresses and interfaces
//! that datagrams came to.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use rustix::net::{RecvFlags, recvfrom};
use socket2::Socket;

use super::meta::{Options, ReceiveMeta, SendMeta};
use super::sys;
use crate::address::canonical;

/// Sets how a socket sends.
pub(super) fn prepare(socket: &Socket, options: &Options) -> io::Result<()> {
    if !options.v4 {
        return Ok(());
    }
    // A socket of both families may not let IPv4's options be set.
    let settle = |set: io::Result<()>| if options.v6 { Ok(()) } else { set };
    settle(socket.set_multicast_ttl_v4(u32::from(options.multicast_ttl)))?;
    settle(socket.set_multicast_loop_v4(options.multicast_loopback))?;
    match options.multicast_interface {
        Some(index) => settle(set_multicast_interface_v4(socket, index)),
        None => Ok(()),
    }
}

/// Chooses the interface of outgoing IPv4 multicast, by its address.
pub(super) fn set_multicast_interface_v4(socket: &Socket, index: u32) -> io::Result<()> {
    let of_it = sys::interfaces()?.into_iter().filter(|i| i.index == index);
    let address = of_it.filter_map(|i| i.address).find_map(|address| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
    socket.set_multicast_if_v4(&address)
}

/// Sends datagrams one by one; returns how many were taken (at least one).
pub(super) fn send_many(
    socket: &Socket,
    v6_socket: bool,
    messages: &[(SendMeta, &[u8])],
) -> io::Result<usize> {
    for (sent, (meta, bytes)) in messages.iter().enumerate() {
        let to = match meta.to {
            SocketAddr::V4(to) if v6_socket => {
                SocketAddrV6::new(to.ip().to_ipv6_mapped(), to.port(), 0, 0).into()
            }
            to => to,
        };
        if let Err(error) = socket.send_to(bytes, &to.into()) {
            return if sent > 0 { Ok(sent) } else { Err(error) };
        }
    }
    Ok(messages.len())
}

/// Receives datagrams without waiting, one into each buffer; `found` takes what came with each.
pub(super) fn receive_many(
    socket: &Socket,
    buffers: &mut [Box<[u8]>],
    found: &mut Vec<ReceiveMeta>,
) -> io::Result<usize> {
    found.clear();
    for buffer in buffers {
        let (len, _, from) = match recvfrom(socket, &mut buffer[..], RecvFlags::empty()) {
            Ok(received) => received,
            Err(_) if !found.is_empty() => break,
            Err(error) => return Err(error.into()),
        };
        let from = from.and_then(|from| SocketAddr::try_from(from).ok());
        // From no internet address: passed over by its length.
        let len = if from.is_some() { len } else { 0 };
        found.push(ReceiveMeta {
            from: canonical(from.unwrap_or(SocketAddr::from(([0; 4], 0)))),
            local: None,
            interface: 0,
            traffic_class: 0,
            len,
            segment: len,
            truncated: false,
        });
    }
    Ok(found.len())
}
