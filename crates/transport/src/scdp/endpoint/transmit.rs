//! Order of sending: closes, pulls as their queue and their pace allow, symbols by turns.

use wellspring_core::{Destination, Ecn, Frame, HostId, SessionId, Time};
use wellspring_wire::scdp::ScdpHeader;

use super::{Endpoint, Session};

impl Endpoint {
    pub(super) fn next_close(&mut self) -> Option<Frame<ScdpHeader>> {
        let (peer, path, session, close) = self.closes.pop_front()?;
        Some(self.control_frame(peer, session, path, ScdpHeader::Close(close)))
    }

    pub(super) fn owe_sign_of_life(&mut self, place: u32) {
        if !self.signs_of_life.contains(&place) {
            self.signs_of_life.push_back(place);
        }
    }

    /// The next session to pull.
    fn next_puller(&mut self, now: Time) -> Option<u32> {
        while let Some(place) = self.signs_of_life.pop_front() {
            let session = self.sessions.peek(place);
            if matches!(session, Some((_, Session::Receiving(r))) if r.owes_sign_of_life()) {
                return Some(place);
            }
        }
        self.pulls.next(now)
    }

    pub(super) fn next_pull(&mut self, now: Time) -> Option<Frame<ScdpHeader>> {
        while let Some(place) = self.next_puller(now) {
            let Some((id, Session::Receiving(receiver))) = self.sessions.get(place) else {
                continue;
            };
            let Some(grant) = receiver.next_pull(now, &self.config) else { continue };
            let session = *id;
            let symbol_bytes = u64::from(receiver.object().symbol_size)
                + u64::from(self.config.overhead_per_symbol);
            self.pulls.book(now, symbol_bytes * u64::from(grant.symbols));
            self.refresh(now, place);
            let label = grant.pull.granted as u16;
            let path = if self.config.labels_are_paths() { grant.path } else { label };
            return Some(self.control_frame(
                grant.sender,
                session,
                path,
                ScdpHeader::Pull(grant.pull),
            ));
        }
        None
    }

    fn control_frame(
        &self,
        peer: HostId,
        session: SessionId,
        path: u16,
        header: ScdpHeader,
    ) -> Frame<ScdpHeader> {
        Frame {
            source: self.config.host,
            destination: Destination::Host(peer),
            session,
            payload_len: 0,
            path,
            class: 0,
            ecn: Ecn::NotCapable,
            trimmed: false,
            header,
        }
    }

    pub(super) fn next_symbol(&mut self, now: Time) -> Option<Frame<ScdpHeader>> {
        loop {
            let (place, level) = self.ready.current()?;
            let frame = match self.sessions.get(place) {
                Some((_, Session::Sending(sender))) => sender.next_frame(now, &self.config),
                _ => None, // over since
            };
            let Some(frame) = frame else {
                self.ready.leave(level);
                self.on_idle(now, place);
                continue;
            };
            self.ready.sent(level, self.config.burst);
            return Some(frame);
        }
    }

    fn on_idle(&mut self, now: Time, place: u32) {
        if let Some((_, Session::Sending(sender))) = self.sessions.get(place) {
            sender.on_idle(now, &self.config);
            self.timers.set(place, sender.deadline());
        }
    }
}
