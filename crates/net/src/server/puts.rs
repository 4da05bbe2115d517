//! Objects on their way in.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wellspring_core::SessionId;
use wellspring_transport::scdp::{ObjectInfo, ReceiveStats};
use wellspring_wire::control::{Offer, PutState, RefusalCode, Reply};
use wellspring_wire::scdp::Mode;

use super::address_limit::{MinuteCount, source_of};
use super::cookie::Purpose;
use super::digests::Known;
use super::requests::{Handler, Outcome, Refusal, Shown, lock};
use super::{ServerConfig, ServerEvent};
use crate::driver::{SessionEvent, SessionProgress};
use crate::protocols::ReceiveObject;
use crate::store::{Digest, Existing, Fingerprint, ObjectName, PartFile, StoreError};
use crate::store_messages;

/// Objects whose end is remembered, so that their clients can still ask.
const MAX_REMEMBERED: usize = 1_024;

/// What an object must get on by in its patience to keep its space \[bytes\].
const LEAST_PROGRESS: u64 = 32 << 10;

/// Sessions that receive, and what became of the last ones.
#[derive(Default)]
pub(super) struct Puts {
    all: BTreeMap<SessionId, Put>,
    over: VecDeque<SessionId>,
    /// Empty objects taken.
    empty: MinuteCount,
}

struct Put {
    client: SocketAddr,
    name: String,
    size: u64,
    digest: Digest,
    blocks: u32,
    group: Option<SocketAddr>,
    stage: Stage,
    symbol_size: u16,
    /// It was given up since it got on too slowly.
    too_slow: bool,
    /// How long it may get on too slowly before it is given up.
    patience: Duration,
    /// Symbols received when they were last enough, and when that was.
    got_on: Option<(u64, Instant)>,
}

impl Put {
    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Complete | Stage::Failed(_))
    }

    /// Whether it has got on by less than [`LEAST_PROGRESS`] in its patience.
    fn is_idle(&mut self, now: Instant) -> bool {
        let Stage::Receiving(_, progress) = &self.stage else { return false };
        let symbols = progress.symbols();
        let (before, since) = *self.got_on.get_or_insert((symbols, now));
        let bytes = symbols.saturating_sub(before) * u64::from(self.symbol_size);
        if bytes >= LEAST_PROGRESS.min(self.size) {
            self.got_on = Some((symbols, now));
            return false;
        }
        now.duration_since(since) >= self.patience
    }
}

enum Stage {
    /// The part file is being made.
    Opening,
    Receiving(Arc<PartFile>, SessionProgress),
    /// All bytes are there and being verified.
    Verifying,
    Complete,
    Failed(RefusalCode),
}

impl Puts {
    pub(super) fn holds(&self, session: SessionId) -> bool {
        self.all.contains_key(&session)
    }

    /// Answers how far an object is.
    pub(super) fn status(&self, session: SessionId, client: SocketAddr) -> Reply<'static> {
        let unknown = Reply::Status { state: PutState::Unknown, blocks_done: 0, blocks_total: 0 };
        let Some(put) = self.all.get(&session).filter(|put| put.client == client) else {
            return unknown;
        };
        let (state, blocks_done) = match &put.stage {
            Stage::Opening => (PutState::Receiving, 0),
            Stage::Receiving(_, progress) => {
                let done = u32::try_from(progress.blocks_done()).unwrap_or(u32::MAX);
                (PutState::Receiving, done)
            }
            Stage::Verifying => (PutState::Receiving, put.blocks),
            Stage::Complete => (PutState::Complete, put.blocks),
            Stage::Failed(code) => (PutState::Failed(*code), 0),
        };
        Reply::Status { state, blocks_done, blocks_total: put.blocks }
    }

    /// The answer to an offer that was taken before, or that cannot be.
    fn known(&self, client: SocketAddr, offer: &Offer<'_>) -> Result<Option<Outcome>, Refusal> {
        if let Some(put) = self.all.get(&offer.session) {
            if put.client != client || put.name != offer.name.as_str() {
                return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
            }
            return match &put.stage {
                Stage::Opening => Ok(Some(Outcome::Nothing)),
                Stage::Failed(code) => Err(Refusal::new(*code, code.to_string())),
                Stage::Receiving(..) | Stage::Verifying | Stage::Complete => {
                    Ok(Some(Outcome::Accepted))
                }
            };
        }
        Ok(None)
    }

    fn admit(
        &mut self,
        client: SocketAddr,
        offer: &Offer<'_>,
        config: &ServerConfig,
    ) -> Result<(), Refusal> {
        let source = source_of(client);
        let of_source = |put: &&Put| !put.is_over() && source_of(put.client) == source;
        let limit = config.max_puts_an_address;
        if self.all.values().filter(of_source).count() >= limit {
            let text = format!("{limit} objects are being received from {source} already");
            return Err(Refusal::new(RefusalCode::Busy, text));
        }
        let limit = config.max_empty_an_address;
        if offer.size == 0 && !self.empty.take(client, limit, Instant::now()) {
            let text = format!("{limit} empty objects came from {source} in this minute");
            return Err(Refusal::new(RefusalCode::Busy, text));
        }
        let waits = Duration::from_millis(offer.timeout_ms.into()).min(super::LONGEST_WAIT);
        let put = Put {
            client,
            name: offer.name.to_string(),
            size: offer.size,
            digest: Digest(offer.digest),
            blocks: 0,
            group: offer.group,
            stage: Stage::Opening,
            symbol_size: offer.geometry.symbol_size,
            patience: config.idle_put.max(waits * 2),
            too_slow: false,
            got_on: None,
        };
        self.all.insert(offer.session, put);
        Ok(())
    }

    fn end(&mut self, session: SessionId, stage: Stage) {
        if let Some(put) = self.all.get_mut(&session) {
            put.stage = stage;
            self.over.push_back(session);
        }
        while self.over.len() > MAX_REMEMBERED {
            if let Some(oldest) = self.over.pop_front() {
                self.all.remove(&oldest);
            }
        }
    }
}

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
        self: &Handler,
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
            lock(&self.puts).all.remove(&offer.session);
            self.jar.give_back(cookie);
        }
        outcome
    }

    fn open_put(&self, client: SocketAddr, offer: &Offer<'_>) -> Result<Outcome, Refusal> {
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
        let part = Arc::new(self.store.create(&name, offer.size, digest, existing)?);
        self.tell(ServerEvent::Receiving {
            name: name.to_string(),
            client,
            size: offer.size,
            multicast: offer.group.is_some(),
        });
        match object {
            None => self.finish_put(offer.session, part.commit(), None),
            Some(object) => self.begin_put(client, offer, object, part)?,
        }
        Ok(Outcome::Accepted)
    }

    fn begin_put(
        &self,
        client: SocketAddr,
        offer: &Offer<'_>,
        object: ObjectInfo,
        part: Arc<PartFile>,
    ) -> Result<(), Refusal> {
        if let Some(group) = offer.group {
            self.handle
                .join_group(group, self.config.interface.as_ref())
                .map_err(|error| Refusal::new(RefusalCode::Unsupported, error.to_string()))?;
        }
        let mut puts = lock(&self.puts);
        let request = ReceiveObject {
            session: offer.session,
            object,
            digest: offer.digest,
            mode: if offer.group.is_some() { Mode::OneToMany } else { Mode::Unicast },
            senders: vec![client],
            initial_window: offer.geometry.initial_window,
            sink: Arc::clone(&part) as Arc<dyn crate::store::ObjectSink>,
        };
        let events = self.session_events(offer.session, 0);
        let progress = self.handle.receive_object(request, events).map_err(|error| {
            self.leave(offer.group);
            Refusal::new(RefusalCode::Failed, error.to_string())
        })?;
        self.wait_for_client(offer.session, offer.timeout_ms);
        if let Some(put) = puts.all.get_mut(&offer.session) {
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

    /// Gives up objects that get on too slowly to be worth the space that is held for them.
    pub(super) fn end_idle_puts(&self, now: Instant) {
        let mut puts = lock(&self.puts);
        let idle: Vec<SessionId> = puts
            .all
            .iter_mut()
            .filter_map(|(session, put)| put.is_idle(now).then_some(*session))
            .collect();
        for session in &idle {
            if let Some(put) = puts.all.get_mut(session) {
                put.too_slow = true;
            }
        }
        drop(puts);
        for session in idle {
            // A driver that has stopped has ended its sessions.
            let _ = self.handle.cancel(session);
        }
    }

    pub(super) fn on_put_event(self: &Arc<Self>, session: SessionId, event: SessionEvent) {
        let mut puts = lock(&self.puts);
        let Some(put) = puts.all.get_mut(&session) else { return };
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
            SessionEvent::Failed(failure) => {
                let (name, client, group) = (put.name.clone(), put.client, put.group.take());
                let (code, reason) = match put.too_slow {
                    true => (RefusalCode::TooSlow, RefusalCode::TooSlow.to_string()),
                    false => (RefusalCode::Failed, failure.to_string()),
                };
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
        let Some(put) = puts.all.get(&session) else { return };
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
