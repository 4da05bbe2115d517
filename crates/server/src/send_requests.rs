//! Requests to send an object by SCDP or NDP, and their sessions.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use wellspring_core::{Priority, SessionId};
use wellspring_transport::scdp::{Resume, Share};
use wellspring_wire::control::{RefusalCode, Start, StartNdp};

use super::ServerEvent;
use super::answer::{Outcome, Owner, Refusal, SessionReport, Shown};
use super::config::wait_of;
use super::cookie::Purpose;
use super::handler::{Handler, OpenObject, lock};
use super::sends::{Admitted, By, Ended, Kind, Wanted};
use crate::driver::{SessionEvent, SessionProgress};
use crate::protocols::{Recipients, SendObject};
use crate::store::Digest;
use wellspring_net::timeouts::peer_timeout;

impl Handler {
    /// Answers a request to send an object by SCDP.
    pub(super) fn start(&self, shown: Shown<'_>, start: &Start<'_>) -> Result<Outcome, Refusal> {
        if lock(&self.puts).holds(start.session) {
            return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
        }
        let purpose = Purpose::of_start(start);
        let (name, digest) = (start.name.as_str(), start.digest);
        let wanted = Wanted { session: start.session, name, digest, purpose, by: By::Scdp(start) };
        self.send(shown, &wanted)
    }

    /// Answers a request to send an object by NDP.
    pub(super) fn start_ndp(
        &self,
        shown: Shown<'_>,
        start: &StartNdp<'_>,
    ) -> Result<Outcome, Refusal> {
        let payload = self.handle.ndp().payload;
        if start.payload != payload {
            let text = format!("packets of {} bytes (only {payload})", start.payload);
            return Err(Refusal::new(RefusalCode::Unsupported, text));
        }
        let (name, digest) = (start.name.as_str(), start.digest);
        let part = (start.offset, start.len);
        let purpose = Purpose::StartNdp { name, digest: Digest(digest), payload, part };
        let wanted = Wanted { session: start.session, name, digest, purpose, by: By::Ndp(start) };
        self.send(shown, &wanted)
    }

    fn send(&self, shown: Shown<'_>, wanted: &Wanted<'_>) -> Result<Outcome, Refusal> {
        let Shown { client, cookie, account, .. } = shown;
        let Admitted { number, replaces, instead_of } = {
            let mut sends = lock(&self.sends);
            if let Some(answer) = sends.known(shown.owner(), wanted)? {
                return Ok(answer);
            }
            self.check_open(client)?;
            if !self.jar.spend(client, cookie, wanted.purpose) {
                return Ok(Outcome::Challenge(self.jar.bake(client, wanted.purpose)));
            }
            let counted = (&self.quotas, account);
            sends
                .admit(shown.owner(), wanted, counted, crate::clock::now())
                .inspect_err(|_| self.jar.give_back(cookie))?
        };
        if let Some(ended) = instead_of {
            self.end_send(ended);
        }
        if replaces {
            // The client has lost sight of that session; the driver takes requests in order, so
            // the number is free when the new one comes.
            let _ = self.handle.cancel(wanted.session);
        }
        let opened = self.open_send(shown, wanted, number);
        let (outcome, running) = match opened {
            Ok(Ok(running)) => (Ok(Outcome::Accepted), Some(running)),
            Ok(Err(answer)) => {
                self.jar.give_back(cookie);
                (Ok(answer), None)
            }
            // It has paid for looking: what is refused may have taken reading many files.
            Err(refusal) => (Err(refusal), None),
        };
        lock(&self.sends).opened(wanted, number, running);
        outcome
    }

    /// Ends a session whose place another one has. Its client is told, and asks again when it can go on.
    fn end_send(&self, Ended { kind, session, client, name }: Ended) {
        match kind {
            // A driver that has stopped has ended its sessions.
            Kind::Scdp => drop(self.handle.cancel(session)),
            Kind::Ndp => self.handle.ndp().cancel(session),
        }
        let reason =
            "gave its place to another fetch: all are taken, and it got on least".to_owned();
        self.tell(ServerEvent::SendFailed { name, client, reason });
    }

    /// Opens the session that was admitted by that number; or what is to be answered first.
    fn open_send(
        &self,
        shown: Shown<'_>,
        wanted: &Wanted<'_>,
        number: u64,
    ) -> Result<Result<SessionProgress, Outcome>, Refusal> {
        let owner = shown.owner();
        let object = match self.object_to_send(shown, wanted.name, wanted.digest)? {
            Ok(object) => object,
            Err((done, total)) => return Ok(Err(Outcome::Pending { done, total })),
        };
        let name = object.name.clone();
        let (progress, share, resumed) = match wanted.by {
            By::Scdp(start) => {
                let progress = self.send_by_scdp(owner, start, (number, object))?;
                let share = (start.share_index, start.share_count);
                (progress, share, start.resume.is_some())
            }
            By::Ndp(start) => (self.send_by_ndp(owner, start, (number, object))?, (0, 1), false),
        };
        self.tell(ServerEvent::Sending { name, client: owner.client, share, resumed });
        Ok(Ok(progress))
    }

    fn send_by_scdp(
        &self,
        Owner { client, key }: Owner,
        start: &Start<'_>,
        (number, opened): (u64, OpenObject),
    ) -> Result<SessionProgress, Refusal> {
        let session = start.session;
        let object = self.object_info(opened.size, opened.digest.tag(), &start.geometry)?;
        let share = Share { index: start.share_index, count: start.share_count };
        let resume =
            start.resume.map(|at| Resume { epoch: at.epoch, floor: at.floor, horizon: at.horizon });
        let source = Arc::new(opened.source);
        lock(&self.sends).keep_source(session, &source);
        let request = SendObject {
            session,
            object,
            digest: opened.digest.0,
            source,
            to: Recipients::One { receiver: client, share },
            initial_window: start.geometry.initial_window,
            resume,
            priority: Priority::background_if(start.background),
            key,
        };
        let reports = self.reports.clone();
        let events = Box::new(move |event| {
            // Nobody listens only when the server is going away.
            let _ = reports.send(SessionReport::Send { session, number, event });
        });
        let progress = self.handle.send_object(request, events).map_err(Refusal::failed)?;
        self.wait_for_client(session, start.timeout_ms);
        Ok(progress)
    }

    fn send_by_ndp(
        &self,
        Owner { client, key }: Owner,
        start: &StartNdp<'_>,
        (number, opened): (u64, OpenObject),
    ) -> Result<SessionProgress, Refusal> {
        let (session, part) = (start.session, start.offset..start.offset + start.len);
        if part.end > opened.size {
            let text = format!("no such part: the object has {} bytes", opened.size);
            return Err(Refusal::new(RefusalCode::Unsupported, text));
        }
        let reports = self.reports.clone();
        let events = Box::new(move |event| {
            // Nobody listens only when the server is going away.
            let _ = reports.send(SessionReport::Ndp { session, number, event });
        });
        let (source, ndp) = (Arc::new(opened.source), self.handle.ndp());
        let progress =
            ndp.send(session, part, source, (client, key), events).map_err(Refusal::failed)?;
        if let Some(wait) = wait_of(start.timeout_ms) {
            // A driver that has stopped has ended its sessions.
            let _ = ndp.wait_for_peer(session, peer_timeout(wait));
        }
        Ok(progress)
    }

    /// Takes in what happened in a session that sends; `sent` is the event of its success.
    pub(super) fn on_send_event<R: Debug, S: Debug>(
        &self,
        (kind, session, number): (Kind, SessionId, u64),
        event: SessionEvent<R, S>,
        sent: impl FnOnce(String, SocketAddr, S) -> ServerEvent,
    ) {
        if !event.is_last() {
            tracing::debug!(?session, ?event, "sending");
            return;
        }
        let Some((client, name)) = lock(&self.sends).end(kind, session, number) else { return };
        self.recent.add(client);
        match event {
            SessionEvent::Sent { stats } => self.tell(sent(name, client, stats)),
            SessionEvent::Failed(failure) => {
                self.tell(ServerEvent::SendFailed { name, client, reason: failure.to_string() });
            }
            _ => {}
        }
    }
}
