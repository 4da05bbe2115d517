//! Objects on their way out.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wellspring_core::SessionId;
use wellspring_transport::scdp::{ObjectInfo, Resume, Share};
use wellspring_wire::control::{Geometry, RefusalCode, Start};

use super::address_limit::source_of;
use super::cookie::Purpose;
use super::digests::Known;
use super::requests::{Handler, Outcome, Refusal, Shown, lock};
use super::{ServerEvent, SessionReport};
use crate::driver::{SessionEvent, SessionProgress};
use crate::protocols::{Recipients, SendObject};
use crate::store::{Digest, FileSource, ObjectName};

/// Longest block that is served or taken \[bytes\]: a block is held in memory as a whole, and so is
/// its encoder or decoder.
const MAX_BLOCK_LEN: u64 = 16 << 20;
/// What a client may have pushed unasked \[bytes\].
const MAX_PUSHED_LEN: u64 = 1 << 20;

/// How long nothing was sent of a session whose client may come back from another address.
const STANDSTILL: Duration = Duration::from_secs(1);

/// Largest symbol that a datagram holds, headers included \[bytes\].
pub(crate) const MAX_SYMBOL_SIZE: u16 = 65_507 - 72;

/// An object as a client knows it.
pub(super) struct Held {
    pub name: ObjectName,
    pub source: FileSource,
    pub size: u64,
    pub digest: Digest,
}

/// Sessions that send.
pub(super) struct Sends {
    limit: usize,
    limit_an_address: usize,
    open: BTreeMap<SessionId, Sending>,
}

struct Sending {
    client: SocketAddr,
    name: String,
    epoch: u8,
    /// Once it is handed to the driver; until then it is being opened.
    running: Option<SessionProgress>,
    /// Symbols sent when another address last asked for the session, and when that was.
    looked: Option<(u64, Instant)>,
}

impl Sending {
    /// Whether a client that asks from another address may be the same one, whose address has
    /// changed: then nothing has been sent to the old address for a while, since nobody pulls
    /// there. A session that is in use is nobody else's to take.
    fn stands_still(&mut self, now: Instant) -> bool {
        let Some(progress) = &self.running else { return false };
        let sent = progress.symbols();
        match self.looked {
            Some((before, since)) if before == sent => now.duration_since(since) >= STANDSTILL,
            _ => {
                self.looked = Some((sent, now));
                false
            }
        }
    }
}

impl Sends {
    pub(super) fn new(limit: usize, limit_an_address: usize) -> Self {
        Sends { limit, limit_an_address, open: BTreeMap::new() }
    }

    pub(super) fn holds(&self, session: SessionId) -> bool {
        self.open.contains_key(&session)
    }

    /// The answer to a request that was granted before, or that cannot be.
    fn known(&mut self, client: SocketAddr, start: &Start<'_>) -> Result<Option<Outcome>, Refusal> {
        let Some(open) = self.open.get_mut(&start.session) else { return Ok(None) };
        let epoch = start.resume.map_or(0, |at| at.epoch);
        if open.name != start.name.as_str() || open.client != client && epoch <= open.epoch {
            return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
        }
        if open.client != client && !open.stands_still(Instant::now()) {
            let text = "the session is in use from another address; try again";
            return Err(Refusal::new(RefusalCode::Busy, text));
        }
        Ok(match epoch.cmp(&open.epoch) {
            Ordering::Equal if open.running.is_some() => Some(Outcome::Accepted),
            // Being opened, or overtaken by a later request.
            Ordering::Equal | Ordering::Less => Some(Outcome::Nothing),
            Ordering::Greater => None,
        })
    }

    /// Takes a place for the session; true if an earlier life of it is to be ended.
    fn admit(&mut self, client: SocketAddr, start: &Start<'_>) -> Result<bool, Refusal> {
        let replaces = self.open.get(&start.session).map(|open| open.running.is_some());
        if replaces.is_none() && self.open.len() >= self.limit {
            let text = format!("{} objects are being sent already; try again later", self.limit);
            return Err(Refusal::new(RefusalCode::Busy, text));
        }
        let source = source_of(client);
        let same = self.open.values().filter(|open| source_of(open.client) == source).count();
        if replaces.is_none() && same >= self.limit_an_address {
            let limit = self.limit_an_address;
            let text = format!("{limit} objects are being sent to {source} already");
            return Err(Refusal::new(RefusalCode::Busy, text));
        }
        let epoch = start.resume.map_or(0, |at| at.epoch);
        let name = start.name.to_string();
        let sending = Sending { client, name, epoch, running: None, looked: None };
        self.open.insert(start.session, sending);
        Ok(replaces.unwrap_or(false))
    }
}

impl Handler {
    /// Answers a request to send an object.
    pub(super) fn start(&self, shown: Shown, start: &Start<'_>) -> Result<Outcome, Refusal> {
        let Shown { client, cookie } = shown;
        if lock(&self.puts).holds(start.session) {
            return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
        }
        let purpose = Purpose::of_start(start);
        let replaces = {
            let mut sends = lock(&self.sends);
            if let Some(answer) = sends.known(client, start)? {
                return Ok(answer);
            }
            if !self.jar.spend(client, cookie, purpose) {
                return Ok(Outcome::Challenge(self.jar.bake(client, purpose)));
            }
            sends.admit(client, start)?
        };
        if replaces {
            // The client has lost sight of that session; the driver takes requests in order, so
            // the number is free when the new one comes.
            let _ = self.handle.cancel(start.session);
        }
        let opened = self.open_send(client, start);
        let mut sends = lock(&self.sends);
        match &opened {
            Ok((Outcome::Accepted, progress)) => {
                if let Some(open) = sends.open.get_mut(&start.session) {
                    open.running = progress.clone();
                }
            }
            _ => {
                sends.open.remove(&start.session);
                self.jar.give_back(cookie);
            }
        }
        opened.map(|(outcome, _)| outcome)
    }

    /// Opens an object that must have that digest; or what is to be answered first.
    pub(super) fn held(
        &self,
        name: &str,
        wanted: [u8; 32],
    ) -> Result<Result<Held, Outcome>, Refusal> {
        let name = self.name_to_serve(name)?;
        let (file, fingerprint) = self.store.open_object(&name)?;
        let size = fingerprint.size();
        let digest = match self.digests.of(&file, fingerprint, Some(&|| {})) {
            Known::Digest(digest) => digest,
            Known::Pending(done) => return Ok(Err(Outcome::Pending { done, total: size })),
            Known::Failed(reason) => return Err(Refusal::new(RefusalCode::Failed, reason)),
            Known::Unknown => {
                let text = "the digest is not known".to_owned();
                return Err(Refusal::new(RefusalCode::Failed, text));
            }
        };
        if digest.0 != wanted {
            let text = format!("{name} has changed: its digest is now {digest}");
            return Err(Refusal::new(RefusalCode::Changed, text));
        }
        let source = FileSource::new(file, fingerprint, digest);
        Ok(Ok(Held { name, source, size, digest }))
    }

    fn open_send(
        &self,
        client: SocketAddr,
        start: &Start<'_>,
    ) -> Result<(Outcome, Option<SessionProgress>), Refusal> {
        let held = match self.held(start.name.as_str(), start.digest)? {
            Ok(held) => held,
            Err(answer) => return Ok((answer, None)),
        };
        let Held { name, source, size, digest } = held;
        let object = self.object_info(size, digest.tag(), &start.geometry)?;
        let share = Share { index: start.share_index, count: start.share_count };
        let resume =
            start.resume.map(|at| Resume { epoch: at.epoch, floor: at.floor, horizon: at.horizon });
        let request = SendObject {
            session: start.session,
            object,
            digest: digest.0,
            source: Arc::new(source),
            to: Recipients::One { receiver: client, share },
            initial_window: start.geometry.initial_window,
            resume,
        };
        let epoch = resume.map_or(0, |at| at.epoch);
        let events = self.session_events(start.session, epoch);
        let progress = self
            .handle
            .send_object(request, events)
            .map_err(|error| Refusal::new(RefusalCode::Failed, error.to_string()))?;
        self.wait_for_client(start.session, start.timeout_ms);
        self.tell(ServerEvent::Sending {
            name: name.to_string(),
            client,
            share: (share.index, share.count),
            resumed: resume.is_some(),
        });
        Ok((Outcome::Accepted, Some(progress)))
    }

    /// The object as the client wants it cut, if that is possible here.
    pub(super) fn object_info(
        &self,
        size: u64,
        tag: u64,
        geometry: &Geometry,
    ) -> Result<ObjectInfo, Refusal> {
        let limit = self.config.driver.scdp.limits.symbols_per_block;
        let unsupported = |text| Err(Refusal::new(RefusalCode::Unsupported, text));
        if size == 0 {
            return unsupported("an empty object needs no session".to_owned());
        }
        if geometry.symbol_size > MAX_SYMBOL_SIZE {
            let size = geometry.symbol_size;
            return unsupported(format!("symbols of {size} bytes (limit {MAX_SYMBOL_SIZE})"));
        }
        if geometry.symbols_per_block > limit {
            let got = geometry.symbols_per_block;
            return unsupported(format!("blocks of {got} symbols (limit {limit})"));
        }
        let symbol = u64::from(geometry.symbol_size);
        let block = (symbol * u64::from(geometry.symbols_per_block)).min(size);
        if block > MAX_BLOCK_LEN {
            return unsupported(format!("blocks of {block} bytes (limit {MAX_BLOCK_LEN})"));
        }
        let pushed = symbol * u64::from(geometry.initial_window);
        if pushed > MAX_PUSHED_LEN {
            let text = format!("an initial window of {pushed} bytes (limit {MAX_PUSHED_LEN})");
            return unsupported(text);
        }
        Ok(ObjectInfo::new(size, geometry.symbol_size, geometry.symbols_per_block, tag))
    }

    /// Where the driver tells of a session: into the channel of the server's task.
    pub(super) fn session_events(&self, session: SessionId, epoch: u8) -> crate::driver::EventSink {
        let reports = self.reports.clone();
        Box::new(move |event| {
            // Nobody listens only when the server is going away.
            let _ = reports.send(SessionReport::Scdp { session, epoch, event });
        })
    }

    pub(super) fn on_send_event(&self, session: SessionId, epoch: u8, event: SessionEvent) {
        if !event.is_last() {
            tracing::debug!(?session, ?event, "sending");
            return;
        }
        let mut sends = lock(&self.sends);
        if sends.open.get(&session).is_none_or(|open| open.epoch != epoch) {
            return; // of a session that was replaced
        }
        let Some(Sending { client, name, .. }) = sends.open.remove(&session) else { return };
        drop(sends);
        match event {
            SessionEvent::Sent { stats } => self.tell(ServerEvent::Sent { name, client, stats }),
            SessionEvent::Failed(failure) => {
                self.tell(ServerEvent::SendFailed { name, client, reason: failure.to_string() });
            }
            _ => {}
        }
    }
}
