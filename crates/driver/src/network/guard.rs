//! Seam between the driver and the network under keys: all that leaves is sealed, all that comes is opened.

use std::net::SocketAddr;
use std::sync::Arc;

use wellspring_core::{SessionId, Time};
use wellspring_trust::{
    ChannelId, Channels, Fingerprint, HEADROOM, Keyring, NoWay, Opened, PublicKey, Refusal, Shape,
    TrustCounters, Via,
};
use wellspring_wire::control::holds_secret;
use wellspring_wire::{ndp, scdp};

use crate::canonical;
use crate::event::{KeyTrouble, PeerChannel};
use crate::handle::{GroupKeyCall, GroupKeyChange};
use crate::socket::MAX_DATAGRAM_LEN;

/// Addresses with channels, at most: each takes about 10 KB.
const MAX_ADDRESSES: usize = 4_096;

/// A host's channels, and the buffers for opening and sealing.
pub(crate) struct Guard {
    channels: Channels,
    own: Option<PublicKey>,
    /// What is to be sent as it is: a part of a handshake, or a request that is sealed already.
    outgoing: Vec<u8>,
    /// A datagram in plain that is sealed for several hosts.
    copy: Vec<u8>,
}

impl Guard {
    /// A host's with that keyring, which `answers` the handshakes of others or does not.
    pub(crate) fn new(keyring: Arc<Keyring>, answers: bool) -> Self {
        let mut secret = [0; 32];
        crate::random::fill(&mut secret);
        let own = keyring.own().map(|own| own.public());
        let channels = Channels::new(keyring, MAX_ADDRESSES, secret);
        let channels = if answers { channels } else { channels.of_client() };
        Guard { channels, own, outgoing: Vec::new(), copy: Vec::new() }
    }

    /// Uses other keys from now on.
    pub(crate) fn set_keyring(&mut self, keyring: Arc<Keyring>) {
        self.own = keyring.own().map(|own| own.public());
        self.channels.set_keyring(keyring);
    }

    pub(crate) fn counters(&self) -> TrustCounters {
        self.channels.counters()
    }

    /// Opens a datagram into `plain`, which holds any. What is [`outgoing`](Self::outgoing) then is to be sent back.
    /// Of an address where sessions belong to a `holder`, nothing else is opened.
    pub(crate) fn open(
        &mut self,
        now: Time,
        (from, holder): (SocketAddr, Option<Fingerprint>),
        datagram: &[u8],
        plain: &mut [u8],
    ) -> Opened {
        let shape = shape_of(datagram);
        let from = canonical(from);
        let of_group = scdp::group_session(datagram)
            .zip(shape)
            .filter(|(session, _)| self.channels.receives_from_group(from, session.0));
        let opened = of_group.and_then(|(session, shape)| {
            self.outgoing.clear();
            self.channels.open_of_group((from, session.0), datagram, shape, plain)
        });
        let opened = opened.unwrap_or_else(|| {
            self.channels.open(now, (from, holder), datagram, shape, plain, &mut self.outgoing)
        });
        if let Opened::Datagram { len, .. } = opened
            && shape.is_some()
        {
            mark(&mut plain[..len], false);
        }
        opened
    }

    /// What is to be sent as it is.
    pub(crate) fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// Seals the datagram of `len` bytes that begins [`HEADROOM`] bytes into `room`, to where `room` begins; `None` if no
    /// channel leads there.
    pub(crate) fn seal(
        &mut self,
        to: SocketAddr,
        via: Via,
        room: &mut [u8],
        len: usize,
    ) -> Option<usize> {
        let datagram = &mut room[HEADROOM..HEADROOM + len];
        mark(datagram, true);
        let clear = shape_of(datagram).map_or(0, |shape| shape.clear);
        if to.ip().is_multicast() {
            // Nothing but symbols goes to a group.
            let session = scdp::group_session(datagram)?;
            return self.channels.seal_for_group((canonical(to), session.0), room, len, clear);
        }
        self.channels.seal(canonical(to), via, room, len, clear)
    }

    /// Keeps a datagram in plain, to be sealed for several hosts.
    pub(crate) fn keep(&mut self, datagram: &[u8]) {
        self.copy.clear();
        self.copy.extend_from_slice(datagram);
    }

    /// The datagram that was [kept](Self::keep).
    pub(crate) fn kept(&self) -> &[u8] {
        &self.copy
    }

    /// Makes [`outgoing`](Self::outgoing) what brings a request to a server.
    pub(crate) fn request(
        &mut self,
        now: Time,
        to: SocketAddr,
        request: &[u8],
    ) -> Result<(), KeyTrouble> {
        let request = (request, holds_secret(request));
        let way = self.channels.request(now, canonical(to), request, &mut self.outgoing);
        way.map_err(|no_way| match no_way {
            NoWay::NoServerKey => KeyTrouble::NoServerKey,
            NoWay::TooLong => KeyTrouble::TooLong,
        })
    }

    /// Makes [`outgoing`](Self::outgoing) the next request that waited for a handshake; false if there is none.
    pub(crate) fn next_waiting(&mut self, to: SocketAddr) -> bool {
        self.channels.next_waiting(canonical(to), &mut self.outgoing)
    }

    /// Takes in what a handle says of a group's keys; false if there are too many.
    pub(crate) fn on_group_key(&mut self, call: GroupKeyCall) -> bool {
        let GroupKeyCall { address, session, what } = call;
        let address = canonical(address);
        match what {
            GroupKeyChange::Send(key) => self.channels.send_to_group(address, session.0, &key),
            GroupKeyChange::Receive(key) => {
                self.channels.receive_from_group(address, session.0, key)
            }
            GroupKeyChange::Forget => {
                self.channels.forget_group(address, session.0);
                true
            }
        }
    }

    /// Takes no more symbols of a session that members of its group can forge; false if it took none.
    pub(crate) fn leave_group(&mut self, sender: SocketAddr, session: SessionId) -> bool {
        let sender = canonical(sender);
        let received = self.channels.receives_from_group(sender, session.0);
        self.channels.forget_group(sender, session.0);
        received
    }

    /// Who has sent a datagram.
    pub(crate) fn peer(&self, from: SocketAddr, via: ChannelId) -> Option<PeerChannel> {
        let identity = self.channels.identity(canonical(from), via)?;
        Some(PeerChannel { identity, channel: via })
    }

    /// What a client is told when a server refuses its handshake.
    pub(crate) fn refused(&self, reason: Refusal) -> KeyTrouble {
        KeyTrouble::Refused { reason, own: self.own }
    }
}

/// What the header of a datagram says of its form, if it is one that is to survive trimming.
fn shape_of(datagram: &[u8]) -> Option<Shape> {
    let symbol = || {
        let len = scdp::tagged_len(datagram)?;
        Some(Shape { clear: scdp::HEADER_LEN, len })
    };
    let packet = || {
        let len = ndp::tagged_len(datagram)?;
        Some(Shape { clear: ndp::DATA_HEADER_LEN, len })
    };
    symbol().or_else(packet).filter(|shape| shape.len <= MAX_DATAGRAM_LEN)
}

fn mark(datagram: &mut [u8], tagged: bool) {
    scdp::set_tagged(datagram, tagged);
    ndp::set_tagged(datagram, tagged);
}
