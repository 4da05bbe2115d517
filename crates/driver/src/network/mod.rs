//! Way out to the network: the socket, what is gathered for it, and its pace.

pub(crate) mod faults;
pub(crate) mod groups;
pub(crate) mod guard;
pub(crate) mod outbox;
mod pace;
pub(crate) mod peers;
pub(crate) mod ports;
pub(crate) mod strangers;
pub(crate) mod taps;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use wellspring_core::{Rate, SessionId, Time};
use wellspring_trust::{HEADROOM, Keyring, Opened, Via};

use crate::DscpMap;
use crate::event::KeyTrouble;
use crate::handle::{GroupKeyCall, OutgoingControl};
use crate::network::faults::Origin;
use crate::network::guard::Guard;
use crate::network::outbox::{Marks, Outbox, Target};
use crate::network::pace::Pace;
use crate::network::peers::Peer;
use crate::network::ports::Ports;
use crate::socket::{HostSocket, Unreached};
use crate::statistics::Sent;

/// UDP and IPv4 headers, as a rate counts them \[bytes\].
const UDP_IP_LEN: u64 = 28;

/// Sends datagrams while the socket has room and the rate allows.
pub(crate) struct Network {
    pub ports: Ports,
    /// The socket is bound to no address of its own, so answers must name theirs.
    chooses_source: bool,
    outbox: Outbox,
    /// Seals what leaves, if the host has keys.
    guard: Option<Box<Guard>>,
    /// The socket had no room when last asked.
    blocked: bool,
    pace: Option<Pace>,
    pub dscp: DscpMap,
    pub sent: Sent,
}

impl Network {
    pub(crate) fn new(
        ports: Ports,
        dscp: DscpMap,
        rate: Option<Rate>,
        guard: Option<Guard>,
    ) -> Self {
        Network {
            chooses_source: ports.main().local_addr().ip().is_unspecified(),
            ports,
            outbox: Outbox::new(),
            guard: guard.map(Box::new),
            blocked: false,
            pace: rate.map(Pace::new),
            dscp,
            sent: Sent::default(),
        }
    }

    /// The first of the sockets.
    pub(crate) fn socket(&self) -> &HostSocket {
        self.ports.main()
    }

    /// Whether the socket had no room.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// The socket has room again.
    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Sends what has been gathered; false if the socket has no room for all of it.
    pub(crate) fn flush(&mut self) -> bool {
        self.blocked = !self.outbox.flush(self.ports.sockets(), &mut self.sent);
        !self.blocked
    }

    /// Whether the rate holds back what is to be sent.
    pub(crate) fn is_paced(&self, now: Time) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.holds(now))
    }

    /// When the rate lets more go, if it holds anything back.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.pace.as_ref()?.deadline()
    }

    /// Nothing waits for the rate.
    pub(crate) fn forget_pace(&mut self, now: Time) {
        if let Some(pace) = &mut self.pace {
            pace.forget(now);
        }
    }

    /// Room for one datagram of any length, flushed if need be; `None` if the socket is full.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if !self.outbox.has_room() && (self.blocked || !self.flush()) {
            return None;
        }
        self.plain_room()
    }

    /// Room for a datagram in plain: where it is sealed, if it is.
    fn plain_room(&mut self) -> Option<&mut [u8]> {
        let headroom = if self.guard.is_some() { HEADROOM } else { 0 };
        Some(&mut self.outbox.room()?[headroom..])
    }

    /// Sends the first `len` bytes of the [`room`](Self::room).
    pub(crate) fn push(&mut self, now: Time, len: usize, marks: Marks, targets: &[Target]) {
        let len = match targets {
            _ if self.guard.is_none() => {
                self.outbox.push(len, marks, targets);
                len
            }
            [target] => self.push_sealed(len, marks, *target).unwrap_or(0),
            targets => self.push_sealed_to_each(len, marks, targets),
        };
        if let Some(pace) = &mut self.pace {
            pace.count(now, (len as u64 + UDP_IP_LEN) * targets.len() as u64);
        }
    }

    /// Sends the first `len` bytes of the buffer, sealed; returns the new length, or `None` if no channel leads there.
    fn push_sealed(&mut self, len: usize, marks: Marks, target: Target) -> Option<usize> {
        let sealed = self.guard.as_mut()?.seal(target.to, target.via, self.outbox.room()?, len)?;
        self.outbox.push(sealed, marks, &[target]);
        Some(sealed)
    }

    /// Sends the first `len` bytes of the buffer to each target, sealed for it; where there is no room any more it is
    /// lost. Returns the length that each got.
    fn push_sealed_to_each(&mut self, len: usize, marks: Marks, targets: &[Target]) -> usize {
        let (Some(guard), Some(room)) = (&mut self.guard, self.outbox.room()) else { return 0 };
        guard.keep(&room[HEADROOM..HEADROOM + len]);
        let mut each = 0;
        for target in targets {
            if !self.outbox.has_room() && !self.flush() {
                return each;
            }
            let (Some(guard), Some(room)) = (&self.guard, self.outbox.room()) else { return each };
            room[HEADROOM..HEADROOM + len].copy_from_slice(guard.kept());
            each = self.push_sealed(len, marks, *target).unwrap_or(each);
        }
        each
    }

    /// Sends a datagram that is not a symbol; false if there is no room, or no channel.
    pub(crate) fn push_datagram(&mut self, bytes: &[u8], target: Target, marks: Marks) -> bool {
        if self.guard.is_none() {
            return self.push_in_clear(bytes, target, marks);
        }
        let Some(room) = self.room() else { return false };
        room[..bytes.len()].copy_from_slice(bytes);
        self.push_sealed(bytes.len(), marks, target).is_some()
    }

    /// Sends a datagram as it is, whatever keys there are: a part of a handshake, or an answer to who has no keys.
    pub(crate) fn push_in_clear(&mut self, bytes: &[u8], target: Target, marks: Marks) -> bool {
        if self.room().is_none() {
            return false;
        }
        let Some(room) = self.outbox.room() else { return false };
        room[..bytes.len()].copy_from_slice(bytes);
        self.outbox.push(bytes.len(), marks, &[target]);
        true
    }

    /// Sends a control message; without room it is lost, as it may be in the network.
    ///
    /// # Errors
    /// There is no key by which it could be sent.
    pub(crate) fn send_control(
        &mut self,
        now: Time,
        message: &OutgoingControl,
    ) -> Result<(), KeyTrouble> {
        let of_path = || self.ports.by_path(message.to, message.path);
        let open = |port: &u8| *port < self.ports.count();
        let Some(port) = message.port.filter(open).or_else(of_path) else {
            self.sent.errors += 1;
            return Ok(());
        };
        let via = message.via.map_or(Via::Any, Via::Channel);
        let target = Target { to: message.to, local: message.local, port, via };
        let usual = self.messages();
        let marks = message.class.map_or(usual, |class| Marks { dscp: class >> 2, ecn: class & 3 });
        let pushed = match &mut self.guard {
            _ if !self.ports.main().reaches(&message.to) => false,
            Some(guard) if message.via.is_none() => {
                guard.request(now, message.to, &message.bytes)?;
                // Nothing is to be sent of a request that waits for a handshake.
                guard.outgoing().is_empty() || self.push_outgoing(target, marks)
            }
            _ => self.push_datagram(&message.bytes, target, marks),
        };
        match pushed {
            true => self.sent.control += 1,
            false => self.sent.errors += 1,
        }
        Ok(())
    }

    /// Sends no faster than this from now on.
    pub(crate) fn set_rate(&mut self, rate: Option<Rate>) {
        self.pace = rate.map(Pace::new);
    }

    /// Uses other keys from now on; of no effect in a host without keys.
    pub(crate) fn set_keyring(&mut self, keyring: Arc<Keyring>) {
        if let Some(guard) = &mut self.guard {
            guard.set_keyring(keyring);
        }
    }

    /// Whether the host has keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.guard.is_some()
    }

    /// Opens a datagram into `plain`, and sends what handshakes answer. Only for a host that
    /// [has keys](Self::has_keys).
    pub(crate) fn open(
        &mut self,
        now: Time,
        origin: &Origin,
        datagram: &[u8],
        plain: &mut [u8],
    ) -> Opened {
        let Some(guard) = &mut self.guard else { return Opened::Nothing };
        let opened = guard.open(now, (origin.from, origin.holder), datagram, plain);
        let answers = !guard.outgoing().is_empty();
        let target = self.answer_to(origin);
        if answers {
            self.push_outgoing(target, self.messages());
        }
        if opened == Opened::Established {
            while self.guard.as_mut().is_some_and(|guard| guard.next_waiting(origin.from)) {
                self.push_outgoing(target, self.messages());
            }
        }
        opened
    }

    /// Takes in what a handle says of a group's keys. Of too many none is taken, and the group is not heard.
    pub(crate) fn on_group_key(&mut self, call: GroupKeyCall) {
        if let Some(guard) = &mut self.guard
            && !guard.on_group_key(call)
        {
            self.sent.errors += 1;
        }
    }

    /// Takes no more symbols of a session that members of its group can forge; false if it took none.
    pub(crate) fn leave_group(&mut self, sender: SocketAddr, session: SessionId) -> bool {
        self.guard.as_mut().is_some_and(|guard| guard.leave_group(sender, session))
    }

    /// The guard, if the host has keys.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        self.guard.as_deref()
    }

    fn push_outgoing(&mut self, target: Target, marks: Marks) -> bool {
        if !self.outbox.has_room() && (self.blocked || !self.flush()) {
            return false;
        }
        let (Some(guard), Some(room)) = (&self.guard, self.outbox.room()) else { return false };
        let bytes = guard.outgoing();
        room[..bytes.len()].copy_from_slice(bytes);
        let len = bytes.len();
        self.outbox.push(len, marks, &[target]);
        true
    }

    /// Marks of messages that are not symbols.
    pub(crate) fn messages(&self) -> Marks {
        Marks { dscp: self.dscp.messages, ecn: 0 }
    }

    /// A source address that the system has refused since this was last asked.
    pub(crate) fn take_refused_source(&mut self) -> Option<IpAddr> {
        self.outbox.take_refused_source()
    }

    /// Takes the addresses to which this host sends nothing.
    pub(crate) fn take_unreached(&mut self) -> Vec<(SocketAddr, Unreached)> {
        self.outbox.take_unreached()
    }

    /// Where an answer to a datagram goes, and from where.
    pub(crate) fn answer_to(&self, origin: &Origin) -> Target {
        let local = self.answers_from(origin.local);
        let via = origin.holder.map_or(Via::Any, Via::Key);
        Target { to: origin.from, local, port: origin.port, via }
    }

    /// The local address that a datagram to it is to be answered from, where that matters.
    pub(crate) fn answers_from(&self, local: Option<IpAddr>) -> Option<IpAddr> {
        local.filter(|local| self.chooses_source && !local.is_multicast())
    }
}

impl From<Peer> for Target {
    fn from(peer: Peer) -> Self {
        let Peer { address: to, local, port, key } = peer;
        Target { to, local, port, via: key.map_or(Via::Any, Via::Key) }
    }
}

impl From<SocketAddr> for Target {
    fn from(to: SocketAddr) -> Self {
        Target { to, local: None, port: 0, via: Via::Any }
    }
}
