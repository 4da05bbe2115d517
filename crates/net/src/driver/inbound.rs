//! From datagrams to frames: what arrives.

use std::io;
use std::net::{IpAddr, SocketAddr};

use wellspring_core::{
    DropReason, Ecn, Endpoint as _, Frame, HostId, Identity, SessionId, Time, Verdict,
};
use wellspring_wire::scdp::{Close, CloseReason, Parsed, ScdpHeader, parse};

use super::engine::{Engine, OWN};
use super::event::{ControlMessage, SessionEvent};
use super::faults::Origin;
use super::handle::FIRST_CONTROL_KIND;
use super::sessions::Side;
use crate::socket::ReceiveBatch;

/// Trimmed headers taken in in one turn of the loop from each tap.
const TRIMS_A_TURN: usize = 256;

impl Engine {
    /// Takes in what has arrived, up to one batch a socket; true if there may be more.
    pub(super) fn receive(&mut self, batch: &mut ReceiveBatch) -> bool {
        self.release_held();
        let mut more = self.receive_trims();
        for number in 0..self.groups.end() {
            if !self.groups.is_readable(number) {
                continue;
            }
            let socket = self.groups.socket(number).unwrap_or(&self.socket);
            match socket.receive(batch) {
                Ok(_) => {
                    // A call that did not fill the batch saw the end of the queue; what comes
                    // behind it is an edge of its own.
                    if batch.is_full() {
                        more = true;
                    } else {
                        self.groups.mark_drained(number);
                    }
                    self.statistics.received.calls += 1;
                    self.take_in(batch);
                }
                Err(error) => {
                    self.groups.mark_drained(number);
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.statistics.received.errors += 1;
                    }
                }
            }
        }
        more
    }

    /// Takes in what switches have trimmed; true if there may be more.
    fn receive_trims(&mut self) -> bool {
        let mut taps = std::mem::take(&mut self.taps);
        let now = self.clock.now();
        let more = taps.receive(TRIMS_A_TURN, |trimmed| {
            let origin = Origin { from: trimmed.from, local: None, ecn: 0 };
            let host = self.peers.host(trimmed.from);
            self.statistics.received.datagrams += 1;
            self.on_datagram(now, &origin, host, trimmed.bytes);
        });
        self.taps = taps;
        more
    }

    fn take_in(&mut self, batch: &ReceiveBatch) {
        for received in batch.iter() {
            let now = self.clock.now();
            let origin = Origin { from: received.from, local: received.local, ecn: received.ecn };
            let host = self.known_host(received.from, received.local);
            let counters = &mut self.statistics.received;
            counters.batches += 1;
            counters.bytes += received.bytes.len() as u64;
            counters.datagrams += received.datagrams().len() as u64;
            if received.ecn == 3 {
                counters.marked += received.datagrams().len() as u64;
            }
            match self.injector.take() {
                None => {
                    for datagram in received.datagrams() {
                        self.on_datagram(now, &origin, host, datagram);
                    }
                }
                Some(mut injector) => {
                    for datagram in received.datagrams() {
                        injector.arrive(now, origin, datagram, |bytes| {
                            self.on_datagram(now, &origin, host, bytes);
                        });
                    }
                    self.injector = Some(injector);
                }
            }
        }
    }

    /// Lets datagrams in that were held back on purpose.
    fn release_held(&mut self) {
        let Some(mut injector) = self.injector.take() else { return };
        let now = self.clock.now();
        while let Some((origin, bytes)) = injector.release(now) {
            let host = self.known_host(origin.from, origin.local);
            self.on_datagram(now, &origin, host, &bytes);
        }
        self.injector = Some(injector);
    }

    /// The host at an address, if a session names it.
    fn known_host(&mut self, from: SocketAddr, local: Option<IpAddr>) -> Option<HostId> {
        let host = self.peers.host(from)?;
        if let Some(local) = local
            && self.chooses_source
            && !local.is_multicast()
        {
            self.peers.heard_at(host, local);
        }
        Some(host)
    }

    fn on_datagram(&mut self, now: Time, origin: &Origin, host: Option<HostId>, datagram: &[u8]) {
        if datagram.first().is_some_and(|first| first & 0x0f >= FIRST_CONTROL_KIND) {
            self.on_control(origin, datagram);
            return;
        }
        let Ok(parsed) = parse(datagram) else {
            self.statistics.received.malformed += 1;
            return;
        };
        let Some(host) = host else {
            self.statistics.received.strangers += 1;
            self.answer_stranger(now, origin, &parsed);
            return;
        };
        let is_symbol = matches!(parsed.header, ScdpHeader::Symbol(_));
        if is_symbol && !self.may_pass(now, host, &parsed) {
            return;
        }
        let frame = Frame {
            source: host,
            destination: Self::own_destination(),
            session: parsed.session,
            payload_len: parsed.payload.len() as u16,
            path: 0,
            class: 0,
            ecn: match origin.ecn {
                0 => Ecn::NotCapable,
                3 => Ecn::Marked,
                _ => Ecn::Capable,
            },
            trimmed: parsed.trimmed,
            header: parsed.header,
        };
        match self.endpoint.handle_frame(now, &frame) {
            Verdict::Consumed => {}
            Verdict::Keep(identity) => self.keep(identity, parsed.payload),
            Verdict::Drop(reason) => {
                *self.statistics.received.dropped.entry(reason).or_default() += 1;
                if reason == DropReason::UnknownSession {
                    self.answer_stranger(now, origin, &parsed);
                }
            }
        }
        self.drain_work();
        self.drain_events();
    }

    /// Checks of a symbol that the endpoint cannot make: the digest, the length, and whether
    /// there is memory for its block. What does not pass never reaches the endpoint.
    fn may_pass(&mut self, now: Time, host: HostId, parsed: &Parsed<'_>) -> bool {
        let Some(session) = self.sessions.by_id(parsed.session) else { return true };
        let Side::Receiving { refused, .. } = &session.side else { return true };
        let counters = &mut self.statistics.received;
        if refused.contains(&host) {
            counters.refused_senders += 1;
            return false;
        }
        if let Some(announced) = parsed.digest
            && *announced != session.digest
        {
            counters.refused_senders += 1;
            let announced = *announced;
            self.refuse(now, parsed.session, host, announced);
            return false;
        }
        if parsed.trimmed {
            counters.trimmed += 1;
            return true;
        }
        if parsed.payload.len() != usize::from(session.object.symbol_size) {
            counters.wrong_length += 1;
            return false;
        }
        let ScdpHeader::Symbol(symbol) = &parsed.header else { return true };
        if symbol.sbn < session.object.source_blocks
            && !self.received.has_room((session.key, symbol.sbn), &session.object)
        {
            counters.out_of_memory += 1;
            return false;
        }
        true
    }

    /// A sender announced other bytes than agreed: none of its symbols may mix with others'.
    fn refuse(&mut self, now: Time, id: SessionId, sender: HostId, announced: [u8; 32]) {
        let (Some(session), Some(peer)) = (self.sessions.by_id(id), self.peers.peer(sender)) else {
            return;
        };
        if let Side::Receiving { refused, .. } = &mut session.side {
            // Not beyond the session's senders: others are unknown to the endpoint, which drops
            // what they send.
            if !session.peers.contains(&sender) {
                return;
            }
            refused.push(sender);
        }
        session.tell(SessionEvent::SenderRefused { sender: peer.address, announced });
        // To the endpoint it is as if the sender had closed; the sender is told likewise.
        let close = Close { reason: CloseReason::Refused, from_receiver: false };
        let frame = Frame {
            source: sender,
            destination: Self::own_destination(),
            session: id,
            payload_len: 0,
            path: 0,
            class: 0,
            ecn: Ecn::NotCapable,
            trimmed: false,
            header: ScdpHeader::Close(close),
        };
        self.endpoint.handle_frame(now, &frame);
        let answer = Close { from_receiver: true, ..close };
        self.send_close(id, answer, peer);
        self.drain_events();
    }

    fn keep(&mut self, identity: Identity, payload: &[u8]) {
        let Identity::Symbol { session, sbn, esi } = identity else { return };
        let Some(session) = self.sessions.by_id(session) else { return };
        self.received.keep((session.key, sbn), &session.object, esi, payload);
        session.progress.add_symbols(1);
        self.statistics.received.symbols_kept += 1;
    }

    fn on_control(&mut self, origin: &Origin, datagram: &[u8]) {
        let message = ControlMessage {
            from: origin.from,
            local: origin.local.filter(|local| !local.is_multicast()),
            bytes: datagram.to_vec(),
        };
        if (self.control)(message) {
            self.statistics.received.control += 1;
        } else {
            self.statistics.received.control_dropped += 1;
        }
    }
}

const _: () = assert!(OWN.0 == 0);
