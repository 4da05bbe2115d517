//! UDP ports of a driver: one socket each.
//!
//! Routers with several equal-cost paths choose among them by a hash of addresses and ports (and, by IPv6, of the flow
//! label, which the kernel derives from these). So the ports of a driver are paths to every host it speaks to; the
//! other host needs one port only, and answers each pull to where it came from.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::canonical;
use crate::config::MAX_PORTS;
use crate::network::groups::Groups;
use crate::socket::{HostSocket, SocketConfig};
use crate::wait::Waiter;

/// Number in the poll of the second port, beyond any group's and below the taps'.
const FIRST_NUMBER: usize = 1 << 20;
/// Hosts of which it is remembered by which port they answer, at most.
const MAX_REMEMBERED: usize = 1_024;

/// The sockets of a driver, the first of which others know.
pub(crate) struct Ports {
    sockets: Vec<HostSocket>,
    /// How many of them, from the first on, lead to every host. Each of the others leads to further addresses of
    /// hosts, and is their path of its number.
    to_all: u8,
    /// How further ones are opened.
    further: SocketConfig,
    /// Whether those but the first may have something to read.
    readable: Vec<bool>,
    firsts: Arc<FirstPorts>,
}

impl Ports {
    /// Takes the first socket, and opens `count - 1` more as configured, at ports that the system chooses.
    pub(crate) fn open(
        main: HostSocket,
        config: &SocketConfig,
        count: u8,
        waiter: &Waiter,
        firsts: Arc<FirstPorts>,
    ) -> io::Result<Ports> {
        waiter.watch_socket(&main, Groups::MAIN)?;
        let mut further = config.clone();
        further.bind = SocketAddr::new(main.local_addr().ip(), 0);
        let sockets = vec![main];
        let mut ports = Ports { sockets, to_all: count, further, readable: vec![true], firsts };
        ports.extend(count, waiter)?;
        Ok(ports)
    }

    /// Opens ports until there are so many.
    pub(crate) fn extend(&mut self, count: u8, waiter: &Waiter) -> io::Result<()> {
        for number in self.sockets.len()..usize::from(count.min(MAX_PORTS)) {
            let socket = HostSocket::bind(&self.further)?;
            waiter.watch_socket(&socket, FIRST_NUMBER + number)?;
            self.sockets.push(socket);
            self.readable.push(true);
        }
        Ok(())
    }

    /// The first.
    pub(crate) fn main(&self) -> &HostSocket {
        &self.sockets[0]
    }

    /// All of them.
    pub(crate) fn sockets(&self) -> &[HostSocket] {
        &self.sockets
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u8 {
        // No more than MAX_PORTS.
        self.sockets.len() as u8
    }

    /// A socket of that number in the poll has something to read.
    pub(crate) fn mark_readable(&mut self, number: usize) {
        if let Some(readable) = self.readable.get_mut(number.wrapping_sub(FIRST_NUMBER)) {
            *readable = true;
        }
    }

    /// All sockets may have something to read.
    #[cfg(feature = "simulation")]
    pub(crate) fn mark_all_readable(&mut self) {
        self.readable.fill(true);
    }

    /// Whether that is a port's number in the poll.
    pub(crate) fn holds(&self, number: usize) -> bool {
        number == Groups::MAIN || number.wrapping_sub(FIRST_NUMBER) < self.sockets.len()
    }

    /// Whether a port but the first may have something to read.
    pub(crate) fn is_readable(&self, port: u8) -> bool {
        port > 0 && self.readable[usize::from(port)]
    }

    pub(crate) fn mark_drained(&mut self, port: u8) {
        self.readable[usize::from(port)] = false;
    }

    /// The port that is a path to a host; `None` if it is not open.
    pub(crate) fn by_path(&self, to: SocketAddr, path: u8) -> Option<u8> {
        if path >= self.to_all {
            return (path < self.count()).then_some(path);
        }
        Some((self.firsts.of(to) + path) % self.to_all)
    }
}

/// By which of this host's ports others answer, as far as it is not the first: their path 0.
#[derive(Debug, Default)]
pub(crate) struct FirstPorts {
    ports: Mutex<BTreeMap<SocketAddr, u8>>,
}

impl FirstPorts {
    /// The port for path 0 to a host.
    pub(crate) fn of(&self, host: SocketAddr) -> u8 {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.get(&canonical(host)).copied().unwrap_or(0)
    }

    /// A host has answered by that port, and not by the one that was its path 0.
    pub(crate) fn set(&self, host: SocketAddr, port: u8) {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        if ports.len() >= MAX_REMEMBERED {
            ports.clear();
        }
        ports.insert(canonical(host), port);
    }
}
