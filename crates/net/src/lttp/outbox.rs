//! Datagrams on their way to the socket.

use std::io;
use std::net::{IpAddr, SocketAddr};

use wellspring_wire::lttp::{Cookie, Datagram, emit};

use crate::socket::{MAX_BATCH_LEN, MAX_SEGMENTS, Outgoing, UdpSocket};

/// Where a session's datagrams go, and from which address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Route {
    pub to: SocketAddr,
    /// The address that the peer knows us by, where it matters.
    pub local: Option<IpAddr>,
}

/// Datagrams of one length to one peer: a batch for the socket.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    segment: usize,
    count: usize,
    route: Option<Route>,
}

impl Outbox {
    /// Datagrams that wait.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether another datagram as long as the first fits.
    pub(super) fn has_room(&self) -> bool {
        self.count == 0
            || self.count < MAX_SEGMENTS && self.bytes.len() + self.segment <= MAX_BATCH_LEN
    }

    /// Puts a datagram behind the others, which must have its length and route.
    pub(super) fn push(&mut self, route: Route, cookie: Cookie, datagram: &Datagram<'_>) {
        let before = self.bytes.len();
        emit(cookie, datagram, &mut self.bytes);
        if self.count == 0 {
            self.segment = self.bytes.len();
            self.route = Some(route);
        }
        debug_assert_eq!(self.bytes.len() - before, self.segment);
        debug_assert_eq!(self.route, Some(route));
        self.count += 1;
    }

    /// Sends what waits; false if the socket has no room, when all of it stays. A datagram that
    /// cannot be sent at all is lost, as in a network.
    pub(super) fn send(&mut self, socket: &UdpSocket) -> bool {
        let Some(Route { to, local }) = self.route.filter(|_| self.count > 0) else {
            return true;
        };
        let outgoing =
            Outgoing { to, local, dscp: 0, ecn: 0, segment: self.segment, bytes: &self.bytes };
        match socket.send(&[outgoing]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) => tracing::debug!(%to, %error, "datagrams not sent"),
            Ok(_) => {}
        }
        self.bytes.clear();
        self.count = 0;
        true
    }
}
