//! From frames to datagrams: what is sent.

use wellspring_core::{Destination, Ecn, Endpoint as _, Frame, SessionId, Time};

use super::{Host, MAX_HEADER_LEN, OWN, Runner};
use crate::network::outbox::{Marks, Target};
use crate::payload::send_store::{Fill, SourceOf};
use crate::protocol::{Header, Protocol, Side};

/// Frames sent in one turn of the loop, so that arrivals are not kept waiting.
const FRAMES_A_TURN: usize = 1_024;
/// Frames that may wait for their blocks before the endpoint is asked for no more.
const MAX_WAITING: usize = 8_192;

/// Bytes read ahead of the block being sent, beyond the next one \[bytes\].
const READ_AHEAD_LEN: u64 = 2 << 20;

/// What became of a frame.
enum Emitted {
    /// It is in the outbox, or waits for its block, or has no destination any more.
    Yes,
    /// Its block cannot be read yet: it is to be tried again.
    Later,
}

impl<P: Protocol> Runner<P> {
    /// Sends what is to be sent while the socket has room; true if there is more than one turn
    /// allows.
    pub(super) fn transmit(&mut self, host: &mut Host) -> bool {
        let mut more = false;
        if !host.network.is_blocked() && host.network.flush() {
            more = self.gather(host);
            host.network.flush();
        }
        while let Some((key, job)) = host.to_send.next_job() {
            if let Some(session) = self.sessions.by_key(key.0) {
                session.jobs += 1;
                host.workers.submit(key, job);
            }
        }
        more && !host.network.is_blocked()
    }

    /// Fills the outbox, flushing it as it gets full.
    fn gather(&mut self, host: &mut Host) -> bool {
        let now = host.clock.now();
        for _ in 0..FRAMES_A_TURN {
            if host.network.is_paced(now) || host.network.room().is_none() {
                return false;
            }
            let Some(frame) = self.next_frame(now) else {
                host.network.forget_pace(now);
                return false;
            };
            match self.emit(host, now, &frame) {
                Emitted::Yes => {}
                Emitted::Later => {
                    self.queue.ready.push_front(frame);
                    return false;
                }
            }
        }
        true
    }

    fn next_frame(&mut self, now: Time) -> Option<Frame<Header<P>>> {
        self.queue.ready.pop_front().or_else(|| {
            let may_ask = self.queue.held < MAX_WAITING;
            if may_ask { self.endpoint.poll_transmit(now) } else { None }
        })
    }

    fn emit(&mut self, host: &mut Host, now: Time, frame: &Frame<Header<P>>) -> Emitted {
        let symbol = self
            .sessions
            .by_id(frame.session)
            .and_then(|session| P::symbol(&frame.header, &session.geometry));
        let has_targets = self.find_targets(host, frame);
        let len = match symbol {
            _ if P::header_len(&frame.header) > 0 && symbol.is_none() => return Emitted::Yes,
            Some(_) if !has_targets => return Emitted::Yes,
            Some(symbol) => match self.fill_symbol(host, frame, symbol) {
                (Fill::Written, len) => len,
                (Fill::Waits, _) => {
                    host.network.sent.waited_for_block += 1;
                    return Emitted::Yes;
                }
                (Fill::NoRoom, _) => return Emitted::Later,
            },
            None => {
                let session = self.sessions.by_id(frame.session).map(|session| &mut session.state);
                let room = host.network.room().expect("asked for by gather");
                match self.protocol.emit(frame, session, room) {
                    Some(len) if has_targets => len,
                    _ => return Emitted::Yes,
                }
            }
        };
        host.network.sent.pulls += u64::from(P::is_pull(&frame.header));
        let dscp = match symbol {
            Some(_) => host.network.dscp.of_symbol(frame.class),
            None => host.network.dscp.control,
        };
        let ecn = match frame.ecn {
            Ecn::NotCapable => 0,
            Ecn::Capable => 2,
            Ecn::Marked => 3,
        };
        host.network.push(now, len, Marks { dscp, ecn }, &self.queue.targets);
        Emitted::Yes
    }

    /// Finds where a frame goes; false if it goes nowhere (any more).
    fn find_targets(&mut self, host: &Host, frame: &Frame<Header<P>>) -> bool {
        let targets = &mut self.queue.targets;
        targets.clear();
        match frame.destination {
            Destination::Host(peer) => {
                let path = self.protocol.path(frame);
                targets.extend(host.peers.by_path(peer, path).map(Target::from));
            }
            Destination::Group(_) => {
                let Some(session) = self.sessions.by_id(frame.session) else { return false };
                let Side::Sending { group, members, .. } = &session.side else { return false };
                match group {
                    Some(to) => targets.push(Target::from(*to)),
                    None => {
                        let peers = members.iter().filter_map(|member| host.peers.peer(*member));
                        targets.extend(peers.map(Target::from));
                    }
                }
            }
        }
        !targets.is_empty()
    }

    /// Writes a symbol's datagram into the network's room; returns its length.
    fn fill_symbol(
        &mut self,
        host: &mut Host,
        frame: &Frame<Header<P>>,
        (sbn, esi): (u32, u32),
    ) -> (Fill, usize) {
        let Some(session) = self.sessions.by_id(frame.session) else { return (Fill::Waits, 0) };
        let Side::Sending { source, .. } = &session.side else { return (Fill::Waits, 0) };
        let (geometry, coding) = (&session.geometry, &session.coding);
        let of = SourceOf { key: session.key, geometry, coding, source };
        let header_len = P::header_len(&frame.header);
        let len = header_len + usize::from(frame.payload_len);
        let room = host.network.room().expect("asked for by gather");
        let (header, payload) = room[..len].split_at_mut(header_len);
        // Behind a frame that waits, a symbol waits as well; but its block is seen to.
        let out = session.held.is_empty().then_some(payload);
        let fill = host.to_send.fill(&of, (sbn, esi), out);
        if matches!(fill, Fill::Waits) {
            session.held.push_back(*frame);
            self.queue.held += 1;
        }
        if self.queue.last_block != Some((session.key, sbn)) {
            self.queue.last_block = Some((session.key, sbn));
            let floor = P::floor(&mut self.endpoint, frame).unwrap_or(0);
            // Symbols that wait, for their blocks or for the network, are sent even if nobody wants
            // them any more: each is the answer to a credit.
            let ready = self.queue.ready.iter().filter(|f| f.session == frame.session);
            let waiting = session.held.iter().chain(ready);
            let waiting = waiting.filter_map(|f| P::symbol(&f.header, geometry));
            let lowest = waiting.map(|(sbn, _)| sbn).fold(floor.min(sbn), u32::min);
            host.to_send.release_below(session.key, lowest);
            let fitting = READ_AHEAD_LEN / geometry.longest_block().max(1);
            let blocks = host.read_ahead.min(fitting.max(1) as u32);
            // Of blocks that all have, no more than what waits is sent.
            host.to_send.read_ahead(&of, sbn.max(floor.saturating_sub(1)), blocks);
        }
        if matches!(fill, Fill::Written) {
            let written = self.protocol.emit(frame, Some(&mut session.state), header);
            debug_assert_eq!(written, Some(header_len));
            session.progress.add_symbols(1);
            let sent = &mut host.network.sent;
            if esi < session.geometry.symbols_in_block(sbn) {
                sent.source_symbols += 1;
            } else {
                sent.repair_symbols += 1;
            }
        }
        (fill, len)
    }

    /// Sends a header of the driver's own making; false if there is no room for it.
    pub(super) fn send_header(
        &mut self,
        host: &mut Host,
        session: SessionId,
        header: Header<P>,
        to: Target,
    ) -> bool {
        let mut frame = super::arrived_frame(OWN, session, header, 0, Ecn::NotCapable);
        frame.destination = Destination::Host(OWN);
        let mut bytes = [0; MAX_HEADER_LEN];
        let Some(len) = self.protocol.emit(&frame, None, &mut bytes) else { return false };
        let marks = Marks { dscp: host.network.dscp.control, ecn: 0 };
        host.network.push_datagram(&bytes[..len], to, marks)
    }
}
