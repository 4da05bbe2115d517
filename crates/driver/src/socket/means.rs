//! The choice between Linux's calls and those that every system has.

use std::io;
use std::net::SocketAddr;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;

use socket2::Socket;

use super::meta::{Options, SendMeta};
use super::plain;
use super::receive::ReceiveBatch;
#[cfg(target_os = "linux")]
use super::sys;
use crate::Steering;

/// Deals the hosts that send to an address and port among the sockets there, in the order in which they were bound. `first`
/// is one of them.
pub(super) fn steer(first: &Socket, steering: Steering) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    let outcome = sys::set_chooser(first.as_raw_fd(), &steering.program());
    #[cfg(not(target_os = "linux"))]
    let outcome = {
        let _ = (first, steering);
        Err(io::ErrorKind::Unsupported.into())
    };
    outcome
}

/// By what a socket sends and receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Means {
    /// Batches, offloads, control messages, the queue of errors.
    #[cfg(target_os = "linux")]
    Linux,
    /// One datagram by one call.
    Plain,
}

use Means::Plain;

#[cfg(target_os = "linux")]
use Means::Linux;

impl Means {
    /// What a socket can use that is to be plain, or not.
    pub(super) fn of(plain: bool) -> Self {
        #[cfg(target_os = "linux")]
        if !plain {
            return Linux;
        }
        let _ = plain;
        Plain
    }

    /// Sets a socket's options and buffers; whether it has segmentation offload, and receive coalescing.
    pub(super) fn prepare(self, socket: &Socket, options: &Options) -> io::Result<(bool, bool)> {
        let (received, sent, offloads) = match self {
            #[cfg(target_os = "linux")]
            Linux => {
                let fd = socket.as_raw_fd();
                sys::prepare(fd, options)?;
                let (received, sent) = sys::force_buffers(fd, options);
                let segmentation = options.offload && sys::has_segmentation(fd);
                (received, sent, (segmentation, options.offload && sys::has_coalescing(fd)))
            }
            Plain => {
                plain::prepare(socket, options)?;
                (false, false, (false, false))
            }
        };
        // Up to the system's limit.
        if !received {
            socket.set_recv_buffer_size(options.receive_buffer)?;
        }
        if !sent {
            socket.set_send_buffer_size(options.send_buffer)?;
        }
        Ok(offloads)
    }

    /// Sends datagrams, or batches that the system segments; returns how many were taken (at least one).
    pub(super) fn send_many(
        self,
        socket: &Socket,
        v6_socket: bool,
        messages: &[(SendMeta, &[u8])],
    ) -> io::Result<usize> {
        match self {
            #[cfg(target_os = "linux")]
            Linux => sys::send_many(socket.as_raw_fd(), v6_socket, messages),
            Plain => plain::send_many(socket, v6_socket, messages),
        }
    }

    /// Receives what is there without waiting; returns how many buffers were filled.
    pub(super) fn receive_many(
        self,
        socket: &Socket,
        batch: &mut ReceiveBatch,
    ) -> io::Result<usize> {
        let ReceiveBatch { buffers, found } = batch;
        match self {
            #[cfg(target_os = "linux")]
            Linux => sys::receive_many(socket.as_raw_fd(), buffers, found),
            Plain => plain::receive_many(socket, buffers, found),
        }
    }

    /// Takes a report of an earlier datagram: where it went, and the error.
    pub(super) fn take_report(self, socket: &Socket) -> Option<(Option<SocketAddr>, i32)> {
        match self {
            #[cfg(target_os = "linux")]
            Linux => sys::take_report(socket.as_raw_fd()),
            Plain => {
                let _ = socket;
                None
            }
        }
    }

    /// Datagrams that the system dropped because the receive buffer was full, where it says so.
    pub(super) fn dropped(self, socket: &Socket) -> u64 {
        match self {
            #[cfg(target_os = "linux")]
            Linux => sys::dropped(socket.as_raw_fd()).map_or(0, u64::from),
            Plain => {
                let _ = socket;
                0
            }
        }
    }
}
