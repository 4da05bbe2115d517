//! Socket of a driver that runs on the system or on a simulated machine.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::meta::ReceiveMeta;
use super::receive::ReceiveBatch;
use super::unreached::Unreached;
use super::{Interface, Outgoing, SocketConfig, UdpSocket};
use crate::Steering;
use crate::simulation::{VirtualSocket, machine};

/// The methods are those of [`UdpSocket`], which stands in its place where nothing is simulated.
#[derive(Debug)]
pub(crate) enum HostSocket {
    System(UdpSocket),
    Virtual(Arc<dyn VirtualSocket>),
}

use HostSocket::{System, Virtual};

impl HostSocket {
    pub(crate) fn bind(config: &SocketConfig) -> io::Result<Self> {
        match machine() {
            Some(machine) => machine.bind(config).map(Virtual),
            None => UdpSocket::bind(config).map(System),
        }
    }

    /// Only of the system: a simulated machine's driver has one loop.
    pub(crate) fn bind_steered(config: &SocketConfig, steering: Steering) -> io::Result<Vec<Self>> {
        let sockets = UdpSocket::bind_steered(config, steering)?;
        Ok(sockets.into_iter().map(System).collect())
    }

    pub(crate) fn bind_group(
        config: &SocketConfig,
        group: SocketAddr,
        interface: Option<&Interface>,
    ) -> io::Result<Self> {
        match machine() {
            Some(machine) => {
                machine.bind(&SocketConfig { bind: group, ..config.clone() }).map(Virtual)
            }
            None => UdpSocket::bind_group(config, group, interface).map(System),
        }
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        match self {
            System(socket) => socket.local_addr(),
            Virtual(socket) => socket.local_addr(),
        }
    }

    pub(crate) fn segmentation(&self) -> bool {
        match self {
            System(socket) => socket.segmentation(),
            Virtual(_) => true,
        }
    }

    pub(crate) fn coalescing(&self) -> bool {
        match self {
            System(socket) => socket.coalescing(),
            Virtual(_) => false,
        }
    }

    pub(crate) fn icmp_errors(&self) -> u64 {
        match self {
            System(socket) => socket.icmp_errors(),
            Virtual(_) => 0,
        }
    }

    pub(crate) fn take_unreached(&self) -> Vec<(SocketAddr, Unreached)> {
        match self {
            System(socket) => socket.take_unreached(),
            Virtual(socket) => {
                let closed = socket.take_closed_ports().into_iter();
                closed.map(|address| (address, Unreached::PortClosed)).collect()
            }
        }
    }

    pub(crate) fn segmentation_failures(&self) -> u64 {
        match self {
            System(socket) => socket.segmentation_failures(),
            Virtual(_) => 0,
        }
    }

    pub(crate) fn receive_buffer(&self) -> io::Result<usize> {
        match self {
            System(socket) => socket.receive_buffer(),
            Virtual(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(crate) fn send_buffer(&self) -> io::Result<usize> {
        match self {
            System(socket) => socket.send_buffer(),
            Virtual(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        match self {
            System(socket) => socket.dropped(),
            Virtual(_) => 0,
        }
    }

    pub(crate) fn reaches(&self, to: &SocketAddr) -> bool {
        match self {
            System(socket) => socket.reaches(to),
            Virtual(socket) => socket.local_addr().is_ipv4() == to.is_ipv4(),
        }
    }

    pub(crate) fn send(&self, batches: &[Outgoing<'_>]) -> io::Result<usize> {
        match self {
            System(socket) => socket.send(batches),
            Virtual(socket) => match batches.first() {
                Some(first) => socket.send(first).map(|()| 1),
                None => Ok(0),
            },
        }
    }

    pub(crate) fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        let socket = match self {
            System(socket) => return socket.receive(batch),
            Virtual(socket) => socket,
        };
        batch.found.clear();
        for buffer in &mut batch.buffers {
            let Some(arrival) = socket.receive(buffer) else { break };
            batch.found.push(ReceiveMeta {
                from: arrival.from,
                local: Some(arrival.local),
                interface: 0,
                traffic_class: arrival.traffic_class,
                truncated: arrival.len > buffer.len(),
                segment: arrival.len,
                len: arrival.len,
            });
        }
        match batch.found.len() {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            found => Ok(found),
        }
    }
}
