//! The state of a server that requests share, and what they have in common.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Semaphore, mpsc};
use wellspring_core::SessionId;
use wellspring_transport::scdp::ObjectInfo;
use wellspring_trust::{Identity, Keyring, Quota};
use wellspring_wire::control::{Abilities, Geometry, RefusalCode};

use super::address_limit::Places;
use super::answer::{Refusal, SessionReport, Shown};
use super::cookie::CookieJar;
use super::counters::{DroppedRequests, StreamHandshakes, Tally};
use super::digests::{Begin, Digests, Known};
use super::event_limit::EventLimit;
use super::puts::Puts;
use super::quotas::{Account, Quotas};
use super::recent_clients::RecentClients;
use super::running::RunningParts;
use super::sends::Sends;
use super::settings::Permissions;
use super::trees::Trees;
use wellspring_net::timeouts::peer_timeout;

use super::config::wait_of;
use super::{ServerConfig, ServerCounters, ServerEvent};
use crate::driver::EventSink;
use crate::manifest::object_of;
use crate::protocols::{DriverHandle, MAX_SYMBOL_SIZE};
use crate::requester::Requester;
use crate::store::tree::listing::TreeName;
use crate::store::{Digest, FileSource, NameError, ObjectName, Store, StoreError};

/// Requests at work at one time; each may wait for a disk.
const MAX_AT_WORK: usize = 64;
/// Of these of one address.
const MAX_AT_WORK_AN_ADDRESS: usize = 16;
/// Part files read at one time to be verified: each takes all processors.
const MAX_CHECKS: usize = 2;
/// Longest block that is served or taken \[bytes\]: a block is held in memory as a whole, and so is
/// its encoder or decoder.
const MAX_BLOCK_LEN: u64 = 16 << 20;
/// What a client may have pushed unasked \[bytes\].
const MAX_PUSHED_LEN: u64 = 1 << 20;

/// An object that is opened to be sent.
pub(super) struct OpenObject {
    pub name: String,
    pub source: FileSource,
    pub size: u64,
    pub digest: Digest,
}

/// Everything a request can need.
pub(super) struct Handler {
    pub(super) handle: DriverHandle,
    /// For asking clients that put objects.
    pub(super) requester: Requester,
    pub(super) store: Store,
    /// What clients with quotas have.
    pub(super) quotas: Arc<Quotas>,
    pub(super) config: ServerConfig,
    pub(super) digests: Arc<Digests>,
    pub(super) reports: mpsc::UnboundedSender<SessionReport>,
    pub(super) sends: Mutex<Sends>,
    pub(super) puts: Mutex<Puts>,
    pub(super) trees: Trees,
    /// Parts that LTTP sends.
    pub(super) parts: RunningParts,
    /// Of whatever is sent, by all protocols.
    pub(super) send_places: Arc<Places>,
    /// Of LTTP's connections.
    pub(super) lttp_connections: Arc<Places>,
    pub(super) jar: CookieJar,
    /// Tells this life of the server from others.
    pub(super) instance: u32,
    pub(super) at_work: Arc<Places>,
    /// Requests that were dropped since too many were at work.
    pub(super) dropped_requests: DroppedRequests,
    /// Turns at reading part files to verify them.
    pub(super) checks: Semaphore,
    /// An object did not arrive, and may have left a part file.
    pub(super) has_left_parts: AtomicBool,
    /// What clients may do at the moment.
    pub(super) permissions: Mutex<Permissions>,
    /// What each address may have at the moment, where there are no keys.
    pub(super) address_quota: Mutex<Quota>,
    /// The keys at the moment.
    pub(super) keyring: Mutex<Option<Arc<Keyring>>>,
    /// Clients whose fetches ended a moment ago.
    pub(super) recent: RecentClients,
    /// Once no more transfers begin: the clients for which they do.
    pub(super) served_to_the_end: OnceLock<BTreeSet<SocketAddr>>,
    /// Handshakes of LTTP's connections.
    pub(super) stream_handshakes: StreamHandshakes,
    /// What the sockets can do, once that was asked for.
    pub(super) of_sockets: OnceLock<Abilities>,
    pub(super) tally: Tally,
    pub(super) limit: EventLimit,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handler {
    pub(super) fn new(
        handle: DriverHandle,
        (store, quotas): (Store, Arc<Quotas>),
        config: ServerConfig,
        reports: mpsc::UnboundedSender<SessionReport>,
    ) -> Self {
        let send_places = Places::new("sends", config.max_sends, config.max_sends_an_address);
        // How many there are in all is the store's to limit.
        let settings = config.settings();
        let put_places = Places::new("puts", usize::MAX, config.max_puts_an_address);
        Handler {
            requester: Requester::new(handle.clone(), Arc::default()),
            handle,
            store,
            quotas,
            digests: Digests::new(Arc::clone(&config.cache)),
            sends: Mutex::new(Sends::new(Arc::clone(&send_places))),
            puts: Mutex::new(Puts::new(put_places)),
            trees: Trees::default(),
            parts: RunningParts::default(),
            send_places,
            lttp_connections: Places::new(
                "connections",
                config.lttp.max_connections,
                config.lttp.max_connections_an_address,
            ),
            config,
            reports,
            jar: CookieJar::new(),
            instance: crate::random::number() as u32,
            at_work: Places::new("requests", MAX_AT_WORK, MAX_AT_WORK_AN_ADDRESS),
            dropped_requests: DroppedRequests::default(),
            checks: Semaphore::new(MAX_CHECKS),
            has_left_parts: AtomicBool::new(false),
            permissions: Mutex::new(settings.permissions),
            address_quota: Mutex::new(settings.address_quota),
            keyring: Mutex::new(settings.keys),
            recent: RecentClients::default(),
            served_to_the_end: OnceLock::new(),
            stream_handshakes: StreamHandshakes::default(),
            of_sockets: OnceLock::new(),
            tally: Tally::default(),
            limit: EventLimit::new(),
        }
    }

    pub(super) fn tell(&self, event: ServerEvent) {
        self.tell_limited(event, None);
    }

    /// As [`tell`](Self::tell); a refusal is counted by its code.
    pub(super) fn tell_limited(&self, event: ServerEvent, code: Option<RefusalCode>) {
        self.tally.count(&event);
        if let Some(first) = self.limit.pass(&event, code, crate::clock::now()) {
            first.into_iter().for_each(|suppressed| (self.config.events)(suppressed));
            (self.config.events)(event);
        }
    }

    /// What was counted so far.
    pub(super) fn counters(&self) -> ServerCounters {
        let mut counters = self.tally.counters();
        counters.refused = self.limit.refusals();
        counters.over_quota = self.quotas.refused();
        counters.dropped_requests = self.dropped_requests.so_far();
        counters.suppressed_events = self.limit.left_out();
        counters.lttp_connections = self.lttp_connections.taken();
        counters.reserved_bytes = self.store.reserved();
        counters.sending = self.send_places.taken();
        counters.receiving = lock(&self.puts).places().taken();
        (counters.digests_known, counters.digests_computed) = self.digests.counts();
        counters
    }

    /// What a client's quota is counted by, if it has one.
    pub(super) fn account(
        &self,
        identity: Option<&Arc<Identity>>,
        client: SocketAddr,
    ) -> Option<Account> {
        Account::of(identity.map(|identity| &**identity), client, *lock(&self.address_quota))
    }

    /// The name of an object that may be served.
    pub(super) fn name_to_serve(&self, name: &str) -> Result<ObjectName, StoreError> {
        let name = ObjectName::of_others(name)?;
        // As if it were not there: that it is there is nobody's business.
        let hidden = name.is_hidden() && !self.permissions().hidden;
        if hidden { Err(StoreError::NotFound(name.to_string())) } else { Ok(name) }
    }

    /// The name of an object that may be taken.
    pub(super) fn name_to_take(&self, name: &str) -> Result<ObjectName, StoreError> {
        let name = ObjectName::of_others(name)?;
        let permissions = self.permissions();
        if name.is_hidden() && !permissions.hidden {
            return Err(NameError::Hidden.into());
        }
        if !permissions.odd_names {
            name.check_plain()?;
        }
        Ok(name)
    }

    /// Has a session by SCDP wait for its client as long as that waits for us.
    pub(super) fn wait_for_client(&self, session: SessionId, timeout_ms: u32) {
        if let Some(wait) = wait_of(timeout_ms) {
            // A driver that has stopped has ended its sessions.
            let _ = self.handle.wait_for_peers(session, peer_timeout(wait));
        }
    }

    /// Opens an object that must have that digest; or how much of it is hashed, of how much.
    pub(super) fn object_to_send(
        &self,
        shown: Shown<'_>,
        name: &str,
        wanted: [u8; 32],
    ) -> Result<Result<OpenObject, (u64, u64)>, Refusal> {
        if TreeName::is_one(name) {
            return self.open_of_tree(shown, name, Digest(wanted));
        }
        let name = self.name_to_serve(name)?;
        let (file, fingerprint) = self.store.open_object(&name)?;
        let size = fingerprint.size();
        let digest = match self.digests.of(&file, fingerprint, Some(Begin::of(shown.source()))) {
            Known::Digest(digest) => digest,
            Known::Pending(done) => return Ok(Err((done, size))),
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
        Ok(Ok(OpenObject { name: name.to_string(), source, size, digest }))
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
        let longest = MAX_SYMBOL_SIZE - self.handle.sealing_overhead();
        if geometry.symbol_size > longest {
            let size = geometry.symbol_size;
            return unsupported(format!("symbols of {size} bytes (limit {longest})"));
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
        Ok(object_of(size, geometry, tag))
    }

    /// Where the driver tells of a session that receives: into the channel of the server's task.
    pub(super) fn put_events(&self, session: SessionId) -> EventSink {
        let reports = self.reports.clone();
        Box::new(move |event| {
            // Nobody listens only when the server is going away.
            let _ = reports.send(SessionReport::Put { session, event });
        })
    }
}
