//! Requests, answered.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use wellspring_core::SessionId;
use wellspring_wire::control::{Cookie, Parsed, RefusalCode, Reply, Request, emit_reply, parse};

use super::cookie::CookieJar;
use super::digests::{Digests, Known};
use super::puts::Puts;
use super::sends::Sends;
use super::{ServerConfig, ServerEvent, Told};
use crate::address::canonical;
use crate::driver::{ControlMessage, OutgoingControl};
use crate::protocols::DriverHandle;
use crate::store::{Digest, ObjectName, Store, StoreError};

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
        Refusal::new(error.refusal_code(), error.to_string())
    }
}

/// What a request comes to, besides being refused.
pub(super) enum Outcome {
    Info {
        size: u64,
        digest: Digest,
    },
    Pending {
        done: u64,
        total: u64,
    },
    Challenge,
    Accepted,
    /// The same request is being worked on: its first copy gets the answer.
    Nothing,
}

/// Everything a request can need.
pub(super) struct Desk {
    pub(super) handle: DriverHandle,
    pub(super) store: Store,
    pub(super) config: ServerConfig,
    pub(super) digests: Arc<Digests>,
    pub(super) told: mpsc::UnboundedSender<Told>,
    pub(super) sends: Mutex<Sends>,
    pub(super) puts: Mutex<Puts>,
    jar: CookieJar,
    at_work: Arc<Semaphore>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub(super) fn new(
        handle: DriverHandle,
        store: Store,
        config: ServerConfig,
        told: mpsc::UnboundedSender<Told>,
    ) -> Self {
        Desk {
            handle,
            store,
            digests: Digests::new(Arc::clone(&config.cache)),
            sends: Mutex::new(Sends::new(config.max_sends)),
            puts: Mutex::default(),
            config,
            told,
            jar: CookieJar::new(),
            at_work: Arc::new(Semaphore::new(MAX_AT_WORK)),
        }
    }

    /// Takes in a control message: on a thread that may wait for the disk, unless too many wait
    /// already, when it is dropped and will be repeated.
    pub(super) fn take_in(self: &Arc<Self>, message: ControlMessage) {
        if !matches!(parse(&message.bytes), Ok(Parsed::Request { .. })) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.at_work).try_acquire_owned() else { return };
        let desk = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            desk.answer(&message);
            drop(permit);
        });
    }

    fn answer(&self, message: &ControlMessage) {
        let Ok(Parsed::Request { nonce, cookie, request }) = parse(&message.bytes) else { return };
        let client = canonical(message.from);
        let proven = self.jar.is_good(client, cookie);
        if let Request::Status { session } = request {
            let reply = if proven {
                lock(&self.puts).status(session, client)
            } else {
                Reply::Challenge { cookie: self.jar.bake(client) }
            };
            return self.reply(message, nonce, &reply);
        }
        let outcome = match &request {
            Request::Info { name } => self.info(client, name.as_str(), proven),
            _ if !proven => Ok(Outcome::Challenge),
            Request::Start(start) => self.start(client, start),
            Request::Offer(offer) => self.offer(client, offer),
            Request::Status { .. } => Ok(Outcome::Nothing),
        };
        match outcome {
            Ok(Outcome::Nothing) => {}
            Ok(Outcome::Info { size, digest }) => {
                let cookie = self.jar.bake(client);
                self.reply(message, nonce, &Reply::Info { cookie, size, digest: digest.0 });
            }
            Ok(Outcome::Pending { done, total }) => {
                self.reply(message, nonce, &Reply::Pending { done, total });
            }
            Ok(Outcome::Challenge) => {
                let cookie: Cookie = self.jar.bake(client);
                self.reply(message, nonce, &Reply::Challenge { cookie });
            }
            Ok(Outcome::Accepted) => self.reply(message, nonce, &Reply::Accepted),
            Err(refusal) => {
                let name = match &request {
                    Request::Info { name } => name.to_string(),
                    Request::Start(start) => start.name.to_string(),
                    Request::Offer(offer) => offer.name.to_string(),
                    Request::Status { .. } => String::new(),
                };
                let Refusal { code, text } = refusal;
                self.reply(message, nonce, &Reply::Refused { code, text: &text });
                self.tell(ServerEvent::Refused { name, client, reason: text });
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
        (self.config.events)(event);
    }

    fn info(&self, client: SocketAddr, name: &str, proven: bool) -> Result<Outcome, Refusal> {
        let name = ObjectName::new(name).map_err(StoreError::from)?;
        let (file, fingerprint) = self.store.open_object(&name)?;
        let size = fingerprint.size();
        let begin = || {
            tracing::info!(%name, %client, size, "hashing");
            self.tell(ServerEvent::Hashing { name: name.to_string(), size });
        };
        let begin: Option<&dyn Fn()> = if proven { Some(&begin) } else { None };
        match self.digests.of(&file, fingerprint, begin) {
            Known::Digest(digest) => Ok(Outcome::Info { size, digest }),
            Known::Pending(done) => Ok(Outcome::Pending { done, total: size }),
            Known::Failed(reason) => Err(Refusal::new(RefusalCode::Failed, reason)),
            Known::Unknown => Ok(Outcome::Challenge),
        }
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
    pub(super) fn on_session(self: &Arc<Self>, told: Told) {
        let Told { session, epoch, event } = told;
        if lock(&self.sends).holds(session) {
            self.on_send_event(session, epoch, event);
        } else {
            self.on_put_event(session, event);
        }
    }
}
