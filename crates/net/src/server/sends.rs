//! Objects on their way out.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use wellspring_core::SessionId;
use wellspring_transport::scdp::{ObjectInfo, Resume, Share};
use wellspring_wire::control::{Geometry, RefusalCode, Start};

use super::digests::Known;
use super::requests::{Desk, Outcome, Refusal, lock};
use super::{ServerEvent, Told};
use crate::driver::SessionEvent;
use crate::protocols::{Recipients, SendObject};
use crate::store::{FileSource, ObjectName, StoreError};

/// Largest symbol that a datagram holds, headers included \[bytes\].
pub(crate) const MAX_SYMBOL_SIZE: u16 = 65_507 - 72;

/// Sessions that send.
pub(super) struct Sends {
    limit: usize,
    open: BTreeMap<SessionId, Sending>,
}

struct Sending {
    client: SocketAddr,
    name: String,
    epoch: u8,
    /// Handed to the driver (true), or still being opened.
    running: bool,
}

impl Sends {
    pub(super) fn new(limit: usize) -> Self {
        Sends { limit, open: BTreeMap::new() }
    }

    pub(super) fn holds(&self, session: SessionId) -> bool {
        self.open.contains_key(&session)
    }

    /// Takes a place for the session. `Ok(None)`: go on; otherwise the answer is known.
    fn admit(
        &mut self,
        client: SocketAddr,
        start: &Start<'_>,
    ) -> Result<(Option<Outcome>, bool), Refusal> {
        let epoch = start.resume.map_or(0, |at| at.epoch);
        let mut replaces = false;
        if let Some(open) = self.open.get(&start.session) {
            if open.client != client || open.name != start.name.as_str() {
                return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
            }
            if epoch == open.epoch {
                let answer = if open.running { Outcome::Accepted } else { Outcome::Nothing };
                return Ok((Some(answer), false));
            }
            if epoch < open.epoch {
                return Ok((Some(Outcome::Nothing), false)); // overtaken by a later request
            }
            replaces = open.running;
        } else if self.open.len() >= self.limit {
            let text = format!("{} objects are being sent already; try again later", self.limit);
            return Err(Refusal::new(RefusalCode::Busy, text));
        }
        let name = start.name.to_string();
        self.open.insert(start.session, Sending { client, name, epoch, running: false });
        Ok((None, replaces))
    }
}

impl Desk {
    /// Answers a request to send an object.
    pub(super) fn start(&self, client: SocketAddr, start: &Start<'_>) -> Result<Outcome, Refusal> {
        if lock(&self.puts).holds(start.session) {
            return Err(Refusal::new(RefusalCode::SessionInUse, "session number in use"));
        }
        let (answer, replaces) = lock(&self.sends).admit(client, start)?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
        if replaces {
            // The client has lost sight of that session; the driver takes requests in order, so
            // the number is free when the new one comes.
            let _ = self.handle.cancel(start.session);
        }
        let outcome = self.open_send(client, start);
        let mut sends = lock(&self.sends);
        match &outcome {
            Ok(Outcome::Accepted) => {
                if let Some(open) = sends.open.get_mut(&start.session) {
                    open.running = true;
                }
            }
            _ => {
                sends.open.remove(&start.session);
            }
        }
        outcome
    }

    fn open_send(&self, client: SocketAddr, start: &Start<'_>) -> Result<Outcome, Refusal> {
        let name = ObjectName::new(start.name.as_str()).map_err(StoreError::from)?;
        let (file, fingerprint) = self.store.open_object(&name)?;
        let size = fingerprint.size();
        let digest = match self.digests.of(&file, fingerprint, Some(&|| {})) {
            Known::Digest(digest) => digest,
            Known::Pending(done) => return Ok(Outcome::Pending { done, total: size }),
            Known::Failed(reason) => return Err(Refusal::new(RefusalCode::Failed, reason)),
            Known::Unknown => return Ok(Outcome::Challenge),
        };
        if digest.0 != start.digest {
            let text = format!("{name} has changed: its digest is now {digest}");
            return Err(Refusal::new(RefusalCode::Changed, text));
        }
        let object = self.object_info(size, digest.tag(), &start.geometry)?;
        let share = Share { index: start.share_index, count: start.share_count };
        let resume =
            start.resume.map(|at| Resume { epoch: at.epoch, floor: at.floor, horizon: at.horizon });
        let request = SendObject {
            session: start.session,
            object,
            digest: digest.0,
            source: Arc::new(FileSource::new(file, fingerprint)),
            to: Recipients::One { receiver: client, share },
            initial_window: start.geometry.initial_window,
            resume,
        };
        let epoch = resume.map_or(0, |at| at.epoch);
        let events = self.session_events(start.session, epoch);
        self.handle
            .send_object(request, events)
            .map_err(|error| Refusal::new(RefusalCode::Failed, error.to_string()))?;
        self.wait_for_client(start.session, start.timeout_ms);
        self.tell(ServerEvent::Sending {
            name: name.to_string(),
            client,
            share: (share.index, share.count),
            resumed: resume.is_some(),
        });
        Ok(Outcome::Accepted)
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
        Ok(ObjectInfo::new(size, geometry.symbol_size, geometry.symbols_per_block, tag))
    }

    /// Where the driver tells of a session: into the channel of the server's task.
    pub(super) fn session_events(&self, session: SessionId, epoch: u8) -> crate::driver::EventSink {
        let told = self.told.clone();
        Box::new(move |event| {
            // Nobody listens only when the server is going away.
            let _ = told.send(Told { session, epoch, event });
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
