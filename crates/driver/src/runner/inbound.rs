//! From datagrams to frames: what arrives.

use wellspring_core::{DropReason, Ecn, Endpoint as _, HostId, Identity, SessionId, Time, Verdict};

use super::{Host, Runner, arrived_frame};
use crate::event::{Failure, SessionEvent};
use crate::network::faults::Origin;
use crate::payload::receive_store::{BlockOf, Kept};
use crate::protocol::{Admission, Arrived, Header, Protocol, Side, Unknown, Unusable};

impl<P: Protocol> Runner<P> {
    /// Takes in a datagram.
    pub(super) fn take_in(
        &mut self,
        host: &mut Host,
        now: Time,
        origin: &Origin,
        from: Option<HostId>,
        datagram: &[u8],
    ) {
        let arrived = match self.protocol.parse(datagram) {
            Ok(arrived) => arrived,
            Err(Unusable::Malformed) => {
                host.counters.malformed += 1;
                return;
            }
            Err(Unusable::UnknownSession) => {
                return count(host, DropReason::UnknownSession);
            }
        };
        let Some(from) = from else {
            host.counters.strangers += 1;
            if host.network.has_keys() && self.may_have_moved(host, origin, arrived.session) {
                return;
            }
            return self.on_unknown(host, now, origin, &arrived);
        };
        if P::may_open(&arrived.header) && self.sessions.by_id(arrived.session).is_none() {
            count(host, DropReason::UnknownSession);
            return self.on_unknown(host, now, origin, &arrived);
        }
        if !self.may_pass(host, from, &arrived) {
            return;
        }
        let verdict = self.on_frame(now, origin, from, &arrived);
        match verdict {
            Verdict::Consumed => {}
            Verdict::Keep(identity) => self.keep(host, from, identity, arrived.payload),
            Verdict::Drop(reason) => {
                count(host, reason);
                if reason == DropReason::UnknownSession {
                    self.on_unknown(host, now, origin, &arrived);
                } else if reason == DropReason::Duplicate
                    && let Some(session) = self.sessions.by_id(arrived.session)
                {
                    session.progress.add_duplicates(1);
                }
            }
        }
        self.drain_work(host);
        self.drain_events(host);
    }

    /// Whether a stranger may be a sender of that session, to whom a NAT has given another port: it then shows that by a
    /// request of its own, and has to be told nothing before.
    fn may_have_moved(&mut self, host: &Host, origin: &Origin, session: SessionId) -> bool {
        let Some(session) = self.sessions.by_id(session) else { return false };
        let is_there = |peer: &HostId| {
            let address = host.peers.peer(*peer).map(|peer| peer.address.ip());
            address == Some(origin.from.ip().to_canonical())
        };
        matches!(session.side, Side::Receiving { .. }) && session.peers.iter().any(is_there)
    }

    fn on_frame(
        &mut self,
        now: Time,
        origin: &Origin,
        from: HostId,
        arrived: &Arrived<'_, Header<P>>,
    ) -> Verdict {
        let ecn = match origin.ecn {
            0 => Ecn::NotCapable,
            3 => Ecn::Marked,
            _ => Ecn::Capable,
        };
        let (session, header) = (arrived.session, arrived.header);
        let mut frame = arrived_frame(from, session, header, arrived.payload.len(), ecn);
        (frame.trimmed, frame.path) = (arrived.trimmed, origin.path);
        self.endpoint.handle_frame(now, &frame)
    }

    /// Checks of a symbol that the endpoint cannot make: who sent it, its length, and whether
    /// there is memory for its block. What does not pass never reaches the endpoint.
    fn may_pass(
        &mut self,
        host: &mut Host,
        from: HostId,
        arrived: &Arrived<'_, Header<P>>,
    ) -> bool {
        let Some(session) = self.sessions.by_id(arrived.session) else { return true };
        let Side::Receiving { .. } = &session.side else { return true };
        let Some((sbn, esi)) = P::symbol(&arrived.header, &session.geometry) else { return true };
        if sbn >= session.geometry.blocks() {
            count(host, DropReason::Malformed);
            return false;
        }
        let is_peer = session.peers.contains(&from);
        match P::admit(&mut session.state, from, arrived) {
            Admission::Take => {}
            // Who is no sender of the session says nothing of it.
            Admission::Other { .. } if !is_peer => {
                count(host, DropReason::UnknownPeer);
                return false;
            }
            Admission::Refused => {
                host.counters.refused_senders += 1;
                return false;
            }
            Admission::Other { announced } => {
                // If a member of its group could forge it, it accuses nobody.
                if !self.leave_group(host, arrived.session) {
                    host.counters.refused_senders += 1;
                    self.refuse_sender(host, arrived.session, from, announced);
                }
                return false;
            }
        }
        if arrived.trimmed {
            host.counters.trimmed += 1;
            return true;
        }
        let geometry = &session.geometry;
        let expected = match P::PADS {
            true => geometry.symbol_size().into(),
            false => geometry.source_len(sbn, esi),
        };
        if arrived.payload.len() != expected {
            host.counters.wrong_length += 1;
            return false;
        }
        let (session, coding) = (session.key, &session.coding);
        if !host.received.has_room(&BlockOf { session, sbn, geometry, coding }) {
            host.counters.out_of_memory += 1;
            return false;
        }
        true
    }

    /// A sender announced other bytes than agreed: none of its symbols may mix with others'.
    fn refuse_sender(
        &mut self,
        host: &mut Host,
        id: SessionId,
        sender: HostId,
        announced: [u8; 32],
    ) {
        let (Some(session), Some(peer)) = (self.sessions.by_id(id), host.peers.peer(sender)) else {
            return;
        };
        session.report(SessionEvent::SenderRefused { sender: peer.address, announced });
        self.exclude(host, id, sender);
    }

    /// Answers whoever speaks of a session that is not open here with him, if the protocol and the
    /// budget say so; or opens it.
    fn on_unknown(
        &mut self,
        host: &mut Host,
        now: Time,
        origin: &Origin,
        arrived: &Arrived<'_, Header<P>>,
    ) {
        match self.protocol.on_unknown(arrived, origin.from) {
            Unknown::Ignore => {}
            Unknown::Answer(_) if !host.answers.take(now) => host.network.sent.closes_withheld += 1,
            Unknown::Answer(header) => {
                let to = host.network.answer_to(origin);
                if self.send_header(host, arrived.session, header, to) {
                    host.network.sent.closes_to_strangers += 1;
                }
            }
            Unknown::Open(opening) => {
                self.open(host, *opening);
                let Some(from) = host.peers.host(origin.from) else { return };
                if let Some(local) = host.network.answers_from(origin.local) {
                    host.peers.heard_at(from, 0, local);
                }
                self.on_frame(now, origin, from, arrived);
                self.drain_events(host);
            }
        }
    }

    fn keep(&mut self, host: &mut Host, from: HostId, identity: Identity, payload: &[u8]) {
        let (Identity::Symbol { session: id, .. } | Identity::Range { session: id, .. }) = identity;
        let Some(session) = self.sessions.by_id(id) else { return };
        let (sbn, esi) = match identity {
            Identity::Symbol { sbn, esi, .. } => (sbn, esi),
            Identity::Range { offset, .. } => session.geometry.symbol_at(offset),
        };
        // At most 255 senders have a session.
        let sender = session.peers.iter().position(|peer| *peer == from).unwrap_or(0);
        if let Some((kept, _)) = session.kept.get_mut(sender) {
            *kept += 1;
        }
        let key = (session.key, sbn);
        let (geometry, coding) = (&session.geometry, &session.coding);
        let block = BlockOf { session: session.key, sbn, geometry, coding };
        let kept = host.received.keep(&block, sender as u8, esi, payload);
        session.progress.add_symbols(1);
        host.counters.symbols_kept += 1;
        match kept {
            Ok(Kept::Open) => {}
            Ok(Kept::Whole) => {
                self.finish(host, key, false, Vec::new(), true);
            }
            Ok(Kept::Exhausted) => self.fail(host, key, Failure::Exhausted),
            Err(error) => self.fail(host, key, Failure::Write(error)),
        }
    }
}

fn count(host: &mut Host, reason: DropReason) {
    *host.counters.dropped.entry(reason).or_default() += 1;
}
