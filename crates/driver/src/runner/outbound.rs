//! From frames to datagrams: what is sent.

use wellspring_core::{Destination, Ecn, Endpoint as _, Frame, SessionId, Time};

use super::{Host, MAX_HEADER_LEN, OWN, Runner};
use crate::network::outbox::{Marks, Target};
use crate::payload::coding::Coding;
use crate::payload::key::SessionKey;
use crate::payload::send_store::{Fill, SourceOf};
use crate::protocol::{Header, Protocol, Side};

/// Frames sent in one turn of the loop, so that arrivals are not kept waiting.
const FRAMES_A_TURN: usize = 1_024;
/// Frames of a session that may wait for their blocks before the endpoint is asked for no more of it.
const MAX_WAITING: usize = 2_048;

/// Bytes read ahead of the block being sent, beyond the next one \[bytes\].
const READ_AHEAD_LEN: u64 = 2 << 20;

/// A frame on its way out.
struct Outgoing<H> {
    frame: Frame<H>,
    /// It has waited for its block, as the first of the session whose turn it is.
    waited: bool,
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
        for turn in 0..FRAMES_A_TURN {
            if host.network.is_paced(now) || host.network.room().is_none() {
                return false;
            }
            let Some(outgoing) = self.next_frame(now) else {
                // What has been sent has left space.
                if self.feed(host) {
                    continue;
                }
                host.network.forget_pace(now);
                // A session of another protocol may go on with that space.
                return turn > 0 && host.to_send.first_starving().is_some();
            };
            self.emit(host, now, &outgoing);
        }
        true
    }

    /// Gives memory to the sessions that found none, by turns, as far as there is some; true if one of them goes on.
    fn feed(&mut self, host: &mut Host) -> bool {
        while let Some(key) = host.to_send.first_starving().filter(|&key| self.sessions.has(key)) {
            let Some(fill) = self.try_first(host, key) else {
                host.to_send.not_starving(key);
                continue;
            };
            if matches!(fill, Fill::NoRoom) {
                break;
            }
            self.queue.release(key);
        }
        !self.queue.ready.is_empty()
    }

    /// Sees to the first symbol that waits in a session, if one does.
    fn try_first(&mut self, host: &mut Host, key: SessionKey) -> Option<Fill> {
        let session = self.sessions.by_key(key)?;
        let Side::Sending { source, .. } = &session.side else { return None };
        let symbol = P::symbol(&session.held.front()?.header, &session.geometry)?;
        let (geometry, coding) = (&session.geometry, &session.coding);
        Some(host.to_send.fill(&SourceOf { key, geometry, coding, source }, symbol, None))
    }

    fn next_frame(&mut self, now: Time) -> Option<Outgoing<Header<P>>> {
        while let Some(&key) = self.queue.ready.front() {
            if let Some(session) = self.sessions.by_key(key)
                && let Some(frame) = session.held.pop_front()
            {
                if session.is_paused && session.held.len() <= MAX_WAITING / 2 {
                    session.is_paused = false;
                    P::pause(&mut self.endpoint, now, &frame, false);
                }
                return Some(Outgoing { frame, waited: true });
            }
            self.queue.ready.pop_front();
        }
        let frame = self.endpoint.poll_transmit(now)?;
        Some(Outgoing { frame, waited: false })
    }

    fn emit(&mut self, host: &mut Host, now: Time, outgoing: &Outgoing<Header<P>>) {
        let frame = &outgoing.frame;
        let symbol = self
            .sessions
            .by_id(frame.session)
            .and_then(|session| P::symbol(&frame.header, &session.geometry));
        let has_targets = self.find_targets(host, frame);
        let len = match symbol {
            _ if P::header_len(&frame.header) > 0 && symbol.is_none() => return,
            Some(_) if !has_targets => return,
            Some(symbol) => match self.fill_symbol(host, outgoing, symbol) {
                (Fill::Written, len) => {
                    if outgoing.waited {
                        P::left_late(&mut self.endpoint, now, frame);
                    }
                    len
                }
                _ => return self.hold_back(host, now, outgoing),
            },
            None => {
                let session = self.sessions.by_id(frame.session).map(|session| &mut session.state);
                let room = host.network.room().expect("asked for by gather");
                match self.protocol.emit(frame, session, room) {
                    Some(len) if has_targets => len,
                    _ => return,
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
    }

    /// Has a symbol wait in its session, which is asked for no more while many do.
    fn hold_back(&mut self, host: &mut Host, now: Time, outgoing: &Outgoing<Header<P>>) {
        let Outgoing { frame, waited } = outgoing;
        let Some(session) = self.sessions.by_id(frame.session) else { return };
        if *waited {
            session.held.push_front(*frame);
            self.queue.wait_on();
            return;
        }
        host.network.sent.waited_for_block += 1;
        // Of an endpoint that cannot be paused, it is lost like one that finds a queue full.
        if session.held.len() < 2 * MAX_WAITING {
            session.held.push_back(*frame);
        }
        if session.held.len() >= MAX_WAITING && !session.is_paused {
            session.is_paused = true;
            P::pause(&mut self.endpoint, now, frame, true);
        }
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
        outgoing: &Outgoing<Header<P>>,
        (sbn, esi): (u32, u32),
    ) -> (Fill, usize) {
        let Outgoing { frame, waited } = outgoing;
        let Some(session) = self.sessions.by_id(frame.session) else { return (Fill::Waits, 0) };
        let Side::Sending { source, .. } = &session.side else { return (Fill::Waits, 0) };
        let (geometry, coding) = (&session.geometry, &session.coding);
        let of = SourceOf { key: session.key, geometry, coding, source };
        let header_len = P::header_len(&frame.header);
        let len = header_len + usize::from(frame.payload_len);
        let room = host.network.room().expect("asked for by gather");
        let (header, payload) = room[..len].split_at_mut(header_len);
        if !waited && !session.held.is_empty() {
            // Behind a frame that waits, a symbol waits as well; but its block is seen to.
            host.to_send.expect(&of, (sbn, esi));
            return (Fill::Waits, len);
        }
        let fill = host.to_send.fill(&of, (sbn, esi), Some(payload));
        if self.queue.last_block != Some((session.key, sbn)) {
            self.queue.last_block = Some((session.key, sbn));
            let floor = P::floor(&mut self.endpoint, frame).unwrap_or(0);
            // Symbols that wait are sent even if nobody wants them any more: each is the answer to a credit.
            let waiting = session.held.iter().filter_map(|f| P::symbol(&f.header, geometry));
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
            match session.coding {
                Coding::Lt(_) => sent.lt_symbols += 1,
                _ if esi < session.geometry.symbols_in_block(sbn) => sent.source_symbols += 1,
                _ => sent.repair_symbols += 1,
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
