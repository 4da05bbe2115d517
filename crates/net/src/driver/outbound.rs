//! From frames to datagrams: what is sent.

use wellspring_core::{Destination, Ecn, Endpoint as _, Frame, SessionId, Time};
use wellspring_wire::scdp::{
    CLOSE_LEN, Close, HEADER_LEN, HEADER_WITH_OPTIONS_LEN, Parsed, ScdpHeader, Symbol, emit,
};

use super::engine::Engine;
use super::faults::Origin;
use super::handle::OutgoingControl;
use super::outbox::{Marks, Target};
use super::peers::Peer;
use super::send_store::{Fill, SourceOf};
use super::sessions::Side;

/// Frames sent in one turn of the loop, so that arrivals are not kept waiting.
const FRAMES_A_TURN: usize = 1_024;
/// Frames that may wait for their blocks before the endpoint is asked for no more.
const MAX_WAITING: usize = 8_192;
/// UDP and IPv4 headers, as an emulated slow link counts them \[bytes\].
const UDP_IP_LEN: u64 = 28;

/// What became of a frame.
enum Emitted {
    /// It is in the outbox, or waits for its block, or has no destination any more.
    Yes,
    /// Its block cannot be read yet: it is to be tried again.
    Later,
}

impl Engine {
    /// Sends what is to be sent while the socket has room; true if there is more than one turn
    /// allows.
    pub(super) fn transmit(&mut self) -> bool {
        let mut more = false;
        if !self.blocked && self.flush() {
            more = self.gather();
            self.flush();
        }
        while let Some((key, job)) = self.to_send.next_job() {
            if let Some(session) = self.sessions.by_key(key.0) {
                session.jobs += 1;
                self.workers.submit(key, job);
            }
        }
        more && !self.blocked
    }

    /// Fills the outbox, flushing it as it gets full.
    fn gather(&mut self) -> bool {
        let now = self.clock.now();
        for _ in 0..FRAMES_A_TURN {
            if self.send_free.is_some_and(|free| free > now) {
                return false;
            }
            if self.outbox.room().is_none() && !self.flush() {
                return false;
            }
            let Some(frame) = self.next_frame(now) else {
                self.send_free = None;
                return false;
            };
            match self.emit(now, &frame) {
                Emitted::Yes => {}
                Emitted::Later => {
                    self.ready.push_front(frame);
                    return false;
                }
            }
        }
        true
    }

    fn next_frame(&mut self, now: Time) -> Option<Frame<ScdpHeader>> {
        self.ready.pop_front().or_else(|| {
            let may_ask = self.held < MAX_WAITING;
            if may_ask { self.endpoint.poll_transmit(now) } else { None }
        })
    }

    fn emit(&mut self, now: Time, frame: &Frame<ScdpHeader>) -> Emitted {
        if !self.find_targets(frame) {
            return Emitted::Yes;
        }
        let len = match &frame.header {
            ScdpHeader::Symbol(symbol) => match self.fill_symbol(frame, symbol) {
                (Fill::Written, len) => len,
                (Fill::Waits, _) => {
                    self.statistics.sent.waited_for_block += 1;
                    return Emitted::Yes;
                }
                (Fill::NoRoom, _) => return Emitted::Later,
            },
            header @ (ScdpHeader::Pull(_) | ScdpHeader::Close(_)) => {
                self.statistics.sent.pulls += u64::from(matches!(header, ScdpHeader::Pull(_)));
                let room = self.outbox.room().expect("asked for by gather");
                emit(frame.session, header, &[0; 32], 0, room)
            }
        };
        let dscp = match &frame.header {
            ScdpHeader::Symbol(_) => self.config.dscp.of_symbol(frame.class),
            _ => self.config.dscp.control,
        };
        let ecn = match frame.ecn {
            Ecn::NotCapable => 0,
            Ecn::Capable => 2,
            Ecn::Marked => 3,
        };
        self.outbox.push(len, Marks { dscp, ecn }, &self.targets);
        if let Some(rate) = self.config.faults.send_rate {
            let start = self.send_free.filter(|free| *free > now).unwrap_or(now);
            let bytes = (len as u64 + UDP_IP_LEN) * self.targets.len() as u64;
            self.send_free = Some(start + rate.time_for(bytes));
        }
        Emitted::Yes
    }

    /// Finds where a frame goes; false if it goes nowhere (any more).
    fn find_targets(&mut self, frame: &Frame<ScdpHeader>) -> bool {
        let target = |peer: Peer| Target { to: peer.address, local: peer.local };
        self.targets.clear();
        match frame.destination {
            Destination::Host(host) => self.targets.extend(self.peers.peer(host).map(target)),
            Destination::Group(_) => {
                let Some(session) = self.sessions.by_id(frame.session) else { return false };
                let Side::Sending { group, members, .. } = &session.side else { return false };
                match group {
                    Some(to) => self.targets.push(Target { to: *to, local: None }),
                    None => {
                        let peers = &self.peers;
                        self.targets.extend(
                            members.iter().filter_map(|host| peers.peer(*host)).map(target),
                        );
                    }
                }
            }
        }
        !self.targets.is_empty()
    }

    /// Writes a symbol's datagram into the outbox's room; returns its length.
    fn fill_symbol(&mut self, frame: &Frame<ScdpHeader>, symbol: &Symbol) -> (Fill, usize) {
        let Some(session) = self.sessions.by_id(frame.session) else { return (Fill::Waits, 0) };
        let Side::Sending { source, .. } = &session.side else { return (Fill::Waits, 0) };
        let of = SourceOf { key: session.key, object: &session.object, source };
        let header_len =
            if symbol.options.is_some() { HEADER_WITH_OPTIONS_LEN } else { HEADER_LEN };
        let size = usize::from(session.object.symbol_size);
        let room = self.outbox.room().expect("asked for by gather");
        let (header, payload) = room[..header_len + size].split_at_mut(header_len);
        // Behind a frame that waits, a symbol waits as well; but its block is seen to.
        let out = session.held.is_empty().then_some(payload);
        let fill = self.to_send.fill(&of, (symbol.sbn, symbol.esi), out);
        if matches!(fill, Fill::Waits) {
            session.held.push_back(*frame);
            self.held += 1;
        }
        if self.last_sent_block != Some((session.key, symbol.sbn)) {
            self.last_sent_block = Some((session.key, symbol.sbn));
            if let Some(floor) = self.endpoint.floor(frame.session) {
                // Symbols that wait for their blocks are sent even if nobody wants them any more: each
                // is the answer to a credit.
                let waiting = session.held.iter().filter_map(|frame| block_of(&frame.header));
                self.to_send.release_below(session.key, waiting.fold(floor, u32::min));
            }
            self.to_send.read_ahead(&of, symbol.sbn, self.config.read_ahead);
        }
        if matches!(fill, Fill::Written) {
            let digest = &session.digest;
            let written = emit(frame.session, &frame.header, digest, size as u16, header);
            debug_assert_eq!(written, header_len);
            session.progress.add_symbols(1);
            let sent = &mut self.statistics.sent;
            if symbol.esi < session.object.symbols_in_block(symbol.sbn) {
                sent.source_symbols += 1;
            } else {
                sent.repair_symbols += 1;
            }
        }
        (fill, header_len + size)
    }

    /// Sends what has been gathered; false if the socket has no room for all of it.
    fn flush(&mut self) -> bool {
        self.blocked = !self.outbox.flush(&self.socket, &mut self.statistics.sent);
        !self.blocked
    }

    /// Puts a datagram that is not a symbol into the outbox; false if there is no room.
    fn push_datagram(&mut self, bytes: &[u8], target: Target, dscp: u8) -> bool {
        if self.outbox.room().is_none() && (self.blocked || !self.flush()) {
            return false;
        }
        let room = self.outbox.room().expect("just flushed");
        room[..bytes.len()].copy_from_slice(bytes);
        self.outbox.push(bytes.len(), Marks { dscp, ecn: 0 }, &[target]);
        true
    }

    /// Sends a control message; without room it is lost, as it may be in the network.
    pub(super) fn send_control(&mut self, message: &OutgoingControl) {
        let target = Target { to: message.to, local: message.local };
        let dscp = self.config.dscp.messages;
        if self.socket.reaches(&message.to) && self.push_datagram(&message.bytes, target, dscp) {
            self.statistics.sent.control += 1;
        } else {
            self.statistics.sent.errors += 1;
        }
    }

    /// Sends a close of this driver's own.
    pub(super) fn send_close(&mut self, session: SessionId, close: Close, peer: Peer) -> bool {
        let mut bytes = [0; CLOSE_LEN];
        emit(session, &ScdpHeader::Close(close), &[0; 32], 0, &mut bytes);
        let target = Target { to: peer.address, local: peer.local };
        self.push_datagram(&bytes, target, self.config.dscp.control)
    }

    /// Tells whoever speaks of a session that is not open here, if the budget allows.
    pub(super) fn answer_stranger(&mut self, now: Time, origin: &Origin, parsed: &Parsed<'_>) {
        let Some(close) = self.closes.answer(parsed.session, &parsed.header) else { return };
        if !self.closes.take(now) {
            self.statistics.sent.closes_withheld += 1;
            return;
        }
        let local = origin.local.filter(|local| self.chooses_source && !local.is_multicast());
        let peer = Peer { address: origin.from, local };
        if self.send_close(parsed.session, close, peer) {
            self.statistics.sent.closes_to_strangers += 1;
        }
    }
}

/// The block that a symbol is of.
fn block_of(header: &ScdpHeader) -> Option<u32> {
    match header {
        ScdpHeader::Symbol(symbol) => Some(symbol.sbn),
        ScdpHeader::Pull(_) | ScdpHeader::Close(_) => None,
    }
}
