//! The sockets of a driver by number: its own, and one for each multicast group joined.

use std::net::SocketAddr;

use crate::socket::HostSocket;
use crate::wait::Waiter;

/// The sockets of joined groups, and which sockets may have something to read. The driver's own
/// socket has number 0 and is kept elsewhere.
pub(crate) struct Groups {
    joined: Vec<Option<(SocketAddr, HostSocket)>>,
    readable: Vec<bool>,
    /// Datagrams dropped at the sockets of groups that were left.
    dropped_before: u64,
}

impl Groups {
    /// Number of the driver's own socket.
    pub(crate) const MAIN: usize = 0;

    pub(crate) fn new() -> Self {
        Groups { joined: Vec::new(), readable: vec![true], dropped_before: 0 }
    }

    /// Numbers in use are below.
    pub(crate) fn end(&self) -> usize {
        self.readable.len()
    }

    /// The socket of that number, other than the driver's own.
    pub(crate) fn socket(&self, number: usize) -> Option<&HostSocket> {
        self.joined.get(number.checked_sub(1)?)?.as_ref().map(|(_, socket)| socket)
    }

    pub(crate) fn is_readable(&self, number: usize) -> bool {
        self.readable[number]
    }

    /// All sockets may have something to read.
    #[cfg(feature = "simulation")]
    pub(crate) fn mark_all_readable(&mut self) {
        self.readable.fill(true);
    }

    pub(crate) fn mark_readable(&mut self, number: usize) {
        if let Some(readable) = self.readable.get_mut(number) {
            *readable = true;
        }
    }

    pub(crate) fn mark_drained(&mut self, number: usize) {
        self.readable[number] = false;
    }

    /// Takes a group's socket and watches it.
    pub(crate) fn join(&mut self, waiter: &Waiter, group: SocketAddr, socket: HostSocket) {
        let free = self.joined.iter().position(Option::is_none);
        let place = free.unwrap_or(self.joined.len());
        // A socket that cannot be watched would only be read by luck: better none at all, which
        // is what the statistics then show.
        if waiter.watch_socket(&socket, place + 1).is_err() {
            return;
        }
        if place == self.joined.len() {
            self.joined.push(Some((group, socket)));
            self.readable.push(true);
        } else {
            self.joined[place] = Some((group, socket));
            self.readable[place + 1] = true;
        }
    }

    /// Closes a group's socket.
    pub(crate) fn leave(&mut self, waiter: &Waiter, group: SocketAddr) {
        for (place, entry) in self.joined.iter_mut().enumerate() {
            if entry.as_ref().is_some_and(|(joined, _)| *joined == group)
                && let Some((_, socket)) = entry.take()
            {
                self.readable[place + 1] = false;
                self.dropped_before += socket.dropped();
                // Closing it ends the watch in any case.
                let _ = waiter.forget_socket(&socket);
            }
        }
    }

    /// Datagrams that the system dropped at the sockets of groups.
    pub(crate) fn dropped(&self) -> u64 {
        let now: u64 = self.joined.iter().flatten().map(|(_, socket)| socket.dropped()).sum();
        self.dropped_before + now
    }

    /// Groups joined.
    pub(crate) fn joined(&self) -> usize {
        self.joined.iter().flatten().count()
    }
}
