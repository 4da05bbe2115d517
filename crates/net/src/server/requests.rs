//! Requests, answered.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};
use wellspring_core::SessionId;
use wellspring_wire::control::{
    Cookie, Geometry, Parsed, RefusalCode, Reply, Request, emit_reply, parse,
};

use super::cookie::{CookieJar, Purpose};
use super::digests::{Digests, Known};
use super::event_limit::EventLimit;
use super::ndp::Transfers;
use super::puts::Puts;
use super::sends::Sends;
use super::{ServerConfig, ServerCounters, ServerEvent, SessionReport};
use crate::address::canonical;
use crate::driver::{ControlMessage, OutgoingControl};
use crate::protocols::DriverHandle;
use crate::store::{Digest, NameError, ObjectName, Store, StoreError};
use crate::store_messages;

/// Requests at work at one time; each may wait for a disk.
const MAX_AT_WORK: usize = 64;

/// A refusal on its way to a client.
pub(super) struct Refusal {
    pub code: RefusalCode,
    pub text: String,
}

impl Refusal {
    pub(super) fn new(code: RefusalCode, text: impl Into<String>) -> Self {
        Refusal { code, text: text.into() }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Refusal::new(store_messages::refusal_code(&error), error.to_string())
    }
}

/// What a client shows: its address, and the cookie it has for its request.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    pub client: SocketAddr,
    pub cookie: Cookie,
}

/// What a request comes to, besides being refused.
pub(super) enum Outcome {
    Info {
        cookie: Cookie,
        size: u64,
        digest: Digest,
    },
    Pending {
        done: u64,
        total: u64,
    },
    Challenge(Cookie),
    Accepted,
    /// The same request is being worked on: its first copy gets the answer.
    Nothing,
}

/// Everything a request can need.
pub(super) struct Handler {
    pub(super) handle: DriverHandle,
    pub(super) store: Store,
    pub(super) config: ServerConfig,
    pub(super) digests: Arc<Digests>,
    pub(super) reports: mpsc::UnboundedSender<SessionReport>,
    pub(super) sends: Mutex<Sends>,
    pub(super) puts: Mutex<Puts>,
    pub(super) ndp: Mutex<Transfers>,
    pub(super) jar: CookieJar,
    /// Tells this life of the server from others.
    instance: u32,
    at_work: Arc<Semaphore>,
    limit: EventLimit,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handler {
    pub(super) fn new(
        handle: DriverHandle,
        store: Store,
        config: ServerConfig,
        reports: mpsc::UnboundedSender<SessionReport>,
    ) -> Self {
        Handler {
            handle,
            store,
            digests: Digests::new(Arc::clone(&config.cache)),
            sends: Mutex::new(Sends::new(config.max_sends, config.max_sends_an_address)),
            puts: Mutex::default(),
            ndp: Mutex::default(),
            config,
            reports,
            jar: CookieJar::new(),
            instance: crate::random::number() as u32,
            at_work: Arc::new(Semaphore::new(MAX_AT_WORK)),
            limit: EventLimit::new(),
        }
    }

    /// Takes in a control message: on a thread that may wait for the disk, unless too many wait
    /// already, when it is dropped and will be repeated.
    pub(super) fn take_in(self: &Arc<Self>, message: ControlMessage) {
        if !matches!(parse(&message.bytes), Ok(Parsed::Request { .. })) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.at_work).try_acquire_owned() else { return };
        let handler = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            handler.answer(&message);
            drop(permit);
        });
    }

    fn answer(&self, message: &ControlMessage) {
        let Ok(Parsed::Request { nonce, cookie, request }) = parse(&message.bytes) else { return };
        let client = canonical(message.from);
        let shown = Shown { client, cookie };
        let outcome = match &request {
            Request::Info { name, geometry } => self.info(shown, name.as_str(), *geometry),
            Request::Start(start) => self.start(shown, start),
            Request::Offer(offer) => self.offer(shown, offer),
            Request::StartNdp(start) => self.start_ndp(shown, start),
            // Needs no cookie: the answer is no longer than the question, and nothing follows.
            Request::Status { session } => {
                let reply = lock(&self.puts).status(*session, client);
                return self.reply(message, nonce, &reply);
            }
        };
        match outcome {
            Ok(Outcome::Nothing) => {}
            Ok(Outcome::Info { cookie, size, digest }) => {
                let instance = self.instance;
                let info = Reply::Info { cookie, size, digest: digest.0, instance };
                self.reply(message, nonce, &info);
            }
            Ok(Outcome::Pending { done, total }) => {
                self.reply(message, nonce, &Reply::Pending { done, total });
            }
            Ok(Outcome::Challenge(cookie)) => {
                self.reply(message, nonce, &Reply::Challenge { cookie });
            }
            Ok(Outcome::Accepted) => self.reply(message, nonce, &Reply::Accepted),
            Err(refusal) => {
                let name = match &request {
                    Request::Info { name, .. } => name.to_string(),
                    Request::Start(start) => start.name.to_string(),
                    Request::Offer(offer) => offer.name.to_string(),
                    Request::StartNdp(start) => start.name.to_string(),
                    Request::Status { .. } => String::new(),
                };
                let Refusal { code, text } = refusal;
                let refused = ServerEvent::Refused { name, client, reason: text.clone() };
                self.tell_limited(refused, Some(code));
                self.reply(message, nonce, &Reply::Refused { code, text: &text });
            }
        }
    }

    fn reply(&self, to: &ControlMessage, nonce: u64, reply: &Reply<'_>) {
        let mut bytes = Vec::new();
        emit_reply(nonce, reply, &mut bytes);
        // From the address that was asked, or the client would not know whose answer it is.
        let local: Option<IpAddr> = to.local.filter(|ip| !ip.is_multicast());
        // A lost reply is asked for again.
        let _ = self.handle.send_control(OutgoingControl { to: to.from, local, bytes });
    }

    pub(super) fn tell(&self, event: ServerEvent) {
        self.tell_limited(event, None);
    }

    fn tell_limited(&self, event: ServerEvent, code: Option<RefusalCode>) {
        if let Some(first) = self.limit.pass(&event, code, Instant::now()) {
            first.into_iter().for_each(|suppressed| (self.config.events)(suppressed));
            (self.config.events)(event);
        }
    }

    /// What was counted so far.
    pub(super) fn counters(&self) -> ServerCounters {
        ServerCounters { refused: self.limit.refusals() }
    }

    fn info(&self, shown: Shown, name: &str, geometry: Geometry) -> Result<Outcome, Refusal> {
        let Shown { client, cookie } = shown;
        let name = self.name_to_serve(name)?;
        let (file, fingerprint) = self.store.open_object(&name)?;
        let size = fingerprint.size();
        let purpose = Purpose::Digest { name: name.as_str() };
        let proven = self.jar.is_good(client, cookie, purpose);
        let begin = || self.tell(ServerEvent::Hashing { name: name.to_string(), size });
        let begin: Option<&dyn Fn()> = if proven { Some(&begin) } else { None };
        match self.digests.of(&file, fingerprint, begin) {
            Known::Digest(digest) => {
                let start = Purpose::Start { name: name.as_str(), digest, geometry };
                Ok(Outcome::Info { cookie: self.jar.bake(client, start), size, digest })
            }
            Known::Pending(done) => Ok(Outcome::Pending { done, total: size }),
            Known::Failed(reason) => Err(Refusal::new(RefusalCode::Failed, reason)),
            Known::Unknown => Ok(Outcome::Challenge(self.jar.bake(client, purpose))),
        }
    }

    /// The name of an object that may be served.
    pub(super) fn name_to_serve(&self, name: &str) -> Result<ObjectName, StoreError> {
        let name = ObjectName::new(name)?;
        // As if it were not there: that it is there is nobody's business.
        let hidden = name.is_hidden() && !self.config.allow_hidden;
        if hidden { Err(StoreError::NotFound(name.to_string())) } else { Ok(name) }
    }

    /// The name of an object that may be taken.
    pub(super) fn name_to_take(&self, name: &str) -> Result<ObjectName, StoreError> {
        let name = ObjectName::new(name)?;
        if name.is_hidden() && !self.config.allow_hidden {
            return Err(NameError::Hidden.into());
        }
        if !self.config.allow_odd_names {
            name.check_plain()?;
        }
        Ok(name)
    }

    /// Has a session wait for its client as long as that waits for us, within
    /// [`LONGEST_WAIT`](super::LONGEST_WAIT).
    pub(super) fn wait_for_client(&self, session: SessionId, timeout_ms: u32) {
        if timeout_ms > 0 {
            let wait = Duration::from_millis(timeout_ms.into()).min(super::LONGEST_WAIT);
            // A driver that has stopped has ended its sessions.
            let _ = self.handle.wait_for_peers(session, crate::client::peer_timeout(wait));
        }
    }

    /// Takes in what happened in a session.
    pub(super) fn on_session(self: &Arc<Self>, report: SessionReport) {
        let (session, epoch, event) = match report {
            SessionReport::Scdp { session, epoch, event } => (session, epoch, event),
            SessionReport::Ndp { session, event } => return self.on_ndp_event(session, event),
        };
        if lock(&self.sends).holds(session) {
            self.on_send_event(session, epoch, event);
        } else {
            self.on_put_event(session, event);
        }
    }
}
