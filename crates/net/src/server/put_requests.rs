//! Offers of objects, and their sessions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use wellspring_core::SessionId;
use wellspring_transport::scdp::{ObjectInfo, ReceiveStats};
use wellspring_wire::control::{Offer, RefusalCode};
use wellspring_wire::scdp::Mode;

use super::ServerEvent;
use super::answer::{Outcome, Refusal, Shown};
use super::cookie::Purpose;
use super::digests::Known;
use super::handler::{Handler, lock};
use super::put_pages::Taken;
use super::puts::Stage;
use crate::client::pages::Pages;
use crate::driver::SessionEvent;
use crate::manifest::{Manifest, Verified};
use crate::protocols::ReceiveObject;
use crate::store::{Digest, Existing, Fingerprint, ObjectName, ObjectSink, PartFile, StoreError};
use crate::store_messages;

/// Whether an object that is offered is in its place.
enum Here {
    Yes,
    No,
    /// It is being read: so many bytes are.
    Pending(u64),
}

impl Handler {
    /// Answers an offer.
    pub(super) fn offer(
        self: &Arc<Self>,
        shown: Shown,
        offer: &Offer<'_>,
    ) -> Result<Outcome, Refusal> {
        let Shown { client, cookie } = shown;
        let not_allowed = |text| Err(Refusal::new(RefusalCode::NotAllowed, text));
        if !self.config.allow_put {
            return not_allowed("this server takes no objects (it runs without --allow-put)");
        }
        if offer.overwrite && !self.config.allow_overwrite {
            return not_allowed("this server does not let objects be replaced");
        }
        if offer.group.is_some() && self.config.driver.keys.is_some() {
            let text = "multicast does not run under keys yet";
            return Err(Refusal::new(RefusalCode::Unsupported, text));
        }
        if lock(&self.sends).holds(offer.session) {
            return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
        }
        {
            let mut puts = lock(&self.puts);
            if let Some(answer) = puts.known(client, offer)? {
                return Ok(answer);
            }
            if !self.jar.spend(client, cookie, Purpose::Offer(offer)) {
                return Ok(Outcome::Challenge(self.jar.bake(client, Purpose::Offer(offer))));
            }
            puts.admit(client, offer, &self.config).inspect_err(|_| self.jar.give_back(cookie))?;
        }
        let outcome = self.open_put(client, offer);
        if !matches!(outcome, Ok(Outcome::Accepted)) {
            // Not remembered: the reason may pass, and the client may offer again.
            lock(&self.puts).forget(offer.session);
            self.jar.give_back(cookie);
        }
        outcome
    }

    fn open_put(
        self: &Arc<Self>,
        client: SocketAddr,
        offer: &Offer<'_>,
    ) -> Result<Outcome, Refusal> {
        let name = self.name_to_take(offer.name.as_str())?;
        let digest = Digest(offer.digest);
        match self.is_here_already(&name, offer.size, digest) {
            Here::Yes => {
                self.finish_put(offer.session, Ok(None), None);
                return Ok(Outcome::Accepted);
            }
            Here::Pending(done) => return Ok(Outcome::Pending { done, total: offer.size }),
            Here::No => {}
        }
        let object = match offer.size {
            0 => None,
            size => Some(self.object_info(size, digest.tag(), &offer.geometry)?),
        };
        let existing = if offer.overwrite { Existing::Replace } else { Existing::Keep };
        let part = self.store.create(&name, offer.size, digest, existing)?.of_verified();
        let part = Arc::new(part);
        self.tell(ServerEvent::Receiving {
            name: name.to_string(),
            client,
            size: offer.size,
            multicast: offer.group.is_some(),
        });
        match object {
            None => self.finish_put(offer.session, part.commit(), None),
            Some(object) => self.begin_put((client, name), offer, object, part)?,
        }
        Ok(Outcome::Accepted)
    }

    fn begin_put(
        self: &Arc<Self>,
        (client, name): (SocketAddr, ObjectName),
        offer: &Offer<'_>,
        object: ObjectInfo,
        part: Arc<PartFile>,
    ) -> Result<(), Refusal> {
        if let Some(group) = offer.group {
            self.handle
                .join_group(group, self.config.interface.as_ref())
                .map_err(|error| Refusal::new(RefusalCode::Unsupported, error.to_string()))?;
        }
        let (digest, size) = (Digest(offer.digest), offer.size);
        let pages = Pages::new(Manifest::new(digest, size, object.block_len), size, 1);
        let sink = Arc::clone(&part) as Arc<dyn ObjectSink>;
        let mut puts = lock(&self.puts);
        let request = ReceiveObject {
            session: offer.session,
            object,
            digest: offer.digest,
            mode: if offer.group.is_some() { Mode::OneToMany } else { Mode::Unicast },
            senders: vec![client],
            initial_window: offer.geometry.initial_window,
            sink: Arc::new(Verified::new(Arc::clone(&pages.manifest), sink)),
            complete: Vec::new(),
        };
        let events = self.session_events(offer.session, 0);
        let progress = self.handle.receive_object(request, events).map_err(|error| {
            self.leave(offer.group);
            Refusal::failed(error)
        })?;
        self.wait_for_client(offer.session, offer.timeout_ms);
        let (session, part_of) = (offer.session, Arc::downgrade(&part));
        let taken = Taken { session, client, name, digest, size, part: part_of };
        tokio::spawn(taken.follow(Arc::clone(self), pages));
        if let Some(put) = puts.get_mut(offer.session) {
            put.blocks = object.source_blocks;
            put.stage = Stage::Receiving(part, progress);
        }
        Ok(())
    }

    /// Whether exactly this object is there: an offer repeated after a success succeeds. What is
    /// known of the file only says whether it is worth reading; its bytes decide, and the name must
    /// still lead to them when they have been read.
    fn is_here_already(&self, name: &ObjectName, size: u64, digest: Digest) -> Here {
        let Ok((file, fingerprint)) = self.store.open_object(name) else { return Here::No };
        if fingerprint.size() != size {
            return Here::No;
        }
        if size > 0 && self.digests.cached(&fingerprint) != Some(digest) {
            return Here::No;
        }
        match self.digests.verify(&file, fingerprint) {
            Known::Pending(done) => Here::Pending(done),
            Known::Digest(found) if found == digest => {
                let now = self.store.open_object(name);
                if now.is_ok_and(|(_, now)| now == fingerprint) { Here::Yes } else { Here::No }
            }
            _ => Here::No,
        }
    }

    fn leave(&self, group: Option<SocketAddr>) {
        if let Some(group) = group {
            // Fails only when the driver has stopped, and with it all groups.
            let _ = self.handle.leave_group(group);
        }
    }

    /// Gives up an object for a reason of its client's.
    pub(super) fn give_up_put(&self, session: SessionId, code: RefusalCode, reason: String) {
        if let Some(put) = lock(&self.puts).get_mut(session) {
            put.given_up.get_or_insert((code, reason));
        }
        // A driver that has stopped has ended its sessions.
        let _ = self.handle.cancel(session);
    }

    /// Gives up objects that get on too slowly to be worth the space that is held for them.
    pub(super) fn end_idle_puts(&self, now: Instant) {
        let idle = lock(&self.puts).give_up_idle(now);
        for session in idle {
            // A driver that has stopped has ended its sessions.
            let _ = self.handle.cancel(session);
        }
    }

    pub(super) fn on_put_event(self: &Arc<Self>, session: SessionId, event: SessionEvent) {
        let mut puts = lock(&self.puts);
        let Some(put) = puts.get_mut(session) else { return };
        match event {
            SessionEvent::MovedToUnicast => {
                let group = put.group.take();
                drop(puts);
                self.leave(group);
            }
            SessionEvent::Received { stats, .. } => {
                let stage = std::mem::replace(&mut put.stage, Stage::Verifying);
                let group = put.group.take();
                drop(puts);
                self.leave(group);
                if let Stage::Receiving(part, _) = stage {
                    let handler = Arc::clone(self);
                    tokio::task::spawn_blocking(move || {
                        let committed = part.commit();
                        // Its space is free again before the client hears of the success.
                        drop(part);
                        handler.finish_put(session, committed, Some(stats));
                    });
                }
            }
            SessionEvent::SymbolsAltered { symbols, excluded, .. } => {
                tracing::warn!(?session, symbols, excluded, "altered symbols of an object");
                if excluded {
                    let reason = "symbols were altered by the sender or on their way".to_owned();
                    put.given_up.get_or_insert((RefusalCode::BadDigest, reason));
                }
            }
            SessionEvent::Failed(failure) => {
                let (name, client, group) = (put.name.clone(), put.client, put.group.take());
                let too_slow =
                    put.too_slow.then(|| (RefusalCode::TooSlow, RefusalCode::TooSlow.to_string()));
                let given_up = put.given_up.take().or(too_slow);
                let (code, reason) =
                    given_up.unwrap_or_else(|| (RefusalCode::Failed, failure.to_string()));
                puts.end(session, Stage::Failed(code));
                drop(puts);
                self.leave(group);
                self.tell(ServerEvent::ReceiveFailed { name, client, reason });
            }
            event => tracing::debug!(?session, ?event, "receiving"),
        }
    }

    /// The end of an object that is in place, or was refused its place.
    fn finish_put(
        &self,
        session: SessionId,
        committed: Result<Option<Fingerprint>, StoreError>,
        stats: Option<ReceiveStats>,
    ) {
        let mut puts = lock(&self.puts);
        let Some(put) = puts.get_mut(session) else { return };
        let (name, client, size, digest) = (put.name.clone(), put.client, put.size, put.digest);
        drop(puts);
        let event = match &committed {
            Ok(written) => {
                if let Some(written) = written {
                    self.digests.learn(*written, digest);
                }
                ServerEvent::Received { name, client, size, stats }
            }
            Err(error) => ServerEvent::ReceiveFailed { name, client, reason: error.to_string() },
        };
        puts = lock(&self.puts);
        puts.end(
            session,
            match committed {
                Ok(_) => Stage::Complete,
                Err(error) => Stage::Failed(store_messages::refusal_code(&error)),
            },
        );
        drop(puts);
        self.tell(event);
    }
}
