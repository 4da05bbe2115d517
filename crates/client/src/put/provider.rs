//! The manifest of an object that is put, given to its receivers.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use wellspring_wire::control::{Parsed, Reply, Request, emit_reply, parse};

use crate::driver::{ControlMessage, OutgoingControl};
use crate::manifest::{Manifests, PageId, hash_sections};
use crate::protocols::DriverHandle;
use crate::store::{Digest, HashProgress, Node};
use wellspring_net::canonical;

/// Pages computed at one time; receivers ask again for others.
const AT_WORK: usize = 8;

/// Objects that are being put by a client.
#[derive(Default)]
pub(crate) struct Providers {
    all: Mutex<Vec<Arc<Provider>>>,
}

/// An object that is being put.
pub(crate) struct Provider {
    digest: Digest,
    size: u64,
    file: File,
    /// Who may ask.
    receivers: BTreeSet<SocketAddr>,
    manifests: Manifests,
    /// Its sections are being hashed.
    is_hashing: AtomicBool,
    /// How far that is.
    hashed: HashProgress,
    at_work: Arc<Semaphore>,
    handle: DriverHandle,
    runtime: tokio::runtime::Handle,
}

/// Has an object's manifest given as long as it lives.
pub(super) struct Providing {
    providers: Arc<Providers>,
    provider: Arc<Provider>,
}

impl Drop for Providing {
    fn drop(&mut self) {
        self.providers.lock().retain(|provider| !Arc::ptr_eq(provider, &self.provider));
    }
}

impl Providers {
    /// Gives the manifest of an open file to those who may ask. To be called on a runtime.
    pub(super) fn provide(
        self: &Arc<Self>,
        (file, size, digest): (File, u64, Digest),
        sections: Option<Vec<Node>>,
        receivers: impl IntoIterator<Item = SocketAddr>,
        handle: DriverHandle,
    ) -> Providing {
        let manifests = Manifests::default();
        manifests.learn(digest, sections.unwrap_or_default());
        let provider = Arc::new(Provider {
            digest,
            size,
            file,
            receivers: receivers.into_iter().map(canonical).collect(),
            manifests,
            is_hashing: AtomicBool::new(false),
            hashed: HashProgress::default(),
            at_work: Arc::new(Semaphore::new(AT_WORK)),
            handle,
            runtime: tokio::runtime::Handle::current(),
        });
        self.lock().push(Arc::clone(&provider));
        Providing { providers: Arc::clone(self), provider }
    }

    /// Takes in a datagram from a host whose first address this is; false if it does not ask for a manifest.
    pub(crate) fn take_in(&self, message: &ControlMessage, from: SocketAddr) -> bool {
        let Ok(Parsed::Request { nonce, request, .. }) = parse(&message.bytes) else {
            return false;
        };
        let Request::Manifest { digest, log, index, .. } = request else { return true };
        let asked = self.lock().iter().find_map(|provider| {
            let is_it = provider.digest.0 == digest && provider.receivers.contains(&from);
            is_it.then(|| Arc::clone(provider))
        });
        if let (Some(provider), Some(page)) = (asked, PageId::of(log, index)) {
            provider.answer(OutgoingControl::answer(message, Vec::new()), nonce, page);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Provider>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Provider {
    fn answer(self: Arc<Self>, mut message: OutgoingControl, nonce: u64, page: PageId) {
        if page.node_len >= self.size || page.range(self.size).is_empty() {
            return;
        }
        let Ok(permit) = Arc::clone(&self.at_work).try_acquire_owned() else { return };
        let runtime = self.runtime.clone();
        crate::task::spawn_blocking_on(&runtime, move || {
            let reply = self.page(page);
            let reply = match &reply {
                Some(nodes) => Reply::Manifest { nodes: nodes.as_flattened() },
                None => Reply::Pending { done: self.hashed.done(), total: self.size },
            };
            emit_reply(nonce, &reply, &mut message.bytes);
            // A lost reply is asked for again.
            let _ = self.handle.send_control(message);
            drop(permit);
        });
    }

    /// A page, if it is at hand or can be had from a part of the file; the whole is hashed once if
    /// that is what it takes.
    fn page(&self, page: PageId) -> Option<Vec<Node>> {
        let at_hand = || {
            let found = self.manifests.page(self.digest, self.size, page, Some(&self.file));
            found.ok().flatten()
        };
        if let Some(nodes) = at_hand() {
            return Some(nodes);
        }
        if self.is_hashing.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (_, sections) = hash_sections(&self.file, self.size, &self.hashed).ok()?;
        // Of other bytes, if the file has changed: then its receivers refuse them.
        self.manifests.learn(self.digest, sections);
        at_hand()
    }
}
