//! The sessions of a driver: what the endpoint does not know of them.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use wellspring_core::{Frame, HostId, SessionId};
use wellspring_transport::scdp::ObjectInfo;
use wellspring_wire::scdp::ScdpHeader;

use super::event::{EventSink, Failure, SessionEvent};
use super::progress::SessionProgress;
use crate::payload::{ObjectSink, ObjectSource};

/// A session of this driver, never used twice: place in the table (low half) and count of
/// sessions (high half). Session ids are the peers' choice and may come again while a worker
/// still has a block of the session before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct SessionKey(pub(super) u64);

impl SessionKey {
    fn place(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// What a driver keeps of a session beside the endpoint.
pub(super) struct Session {
    pub key: SessionKey,
    pub id: SessionId,
    pub object: ObjectInfo,
    pub digest: [u8; 32],
    pub progress: SessionProgress,
    /// Every host it names, each counted in the table of peers.
    pub peers: Vec<HostId>,
    pub side: Side,
    /// Jobs of it that workers have.
    pub jobs: u32,
    /// Frames that wait for their block or its encoder, and those behind them: symbols leave in
    /// the order of their packet numbers, or receivers would take them for lost.
    pub held: VecDeque<Frame<ScdpHeader>>,
    /// Why this side ends it, if it does.
    pub failure: Option<Failure>,
    events: EventSink,
    /// The last event, once the endpoint is done with the session.
    last: Option<SessionEvent>,
}

/// Which side of a session this host is.
pub(super) enum Side {
    Sending {
        source: Arc<dyn ObjectSource>,
        /// The multicast group, if there is one.
        group: Option<SocketAddr>,
        /// Members that still take the group's symbols, for copies without multicast.
        members: Vec<HostId>,
    },
    Receiving {
        sink: Arc<dyn ObjectSink>,
        /// Senders that announced other bytes.
        refused: Vec<HostId>,
    },
}

impl Session {
    /// Tells the application.
    pub(super) fn tell(&mut self, event: SessionEvent) {
        (self.events)(event);
    }

    /// Whether the endpoint is done with it.
    pub(super) fn is_over(&self) -> bool {
        self.last.is_some()
    }
}

/// What it takes to open a session.
pub(super) struct NewSession {
    pub id: SessionId,
    pub object: ObjectInfo,
    pub digest: [u8; 32],
    pub progress: SessionProgress,
    pub peers: Vec<HostId>,
    pub side: Side,
    pub events: EventSink,
}

/// All sessions: open ones by id, and those over whose workers have not come back yet.
#[derive(Default)]
pub(super) struct SessionTable {
    sessions: Vec<Option<Session>>,
    free: Vec<usize>,
    open: BTreeMap<SessionId, SessionKey>,
    opened: u64,
    /// The session looked up last: packets come in runs.
    last: Option<(SessionId, SessionKey)>,
}

impl SessionTable {
    /// Sessions open at the endpoint.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Sessions that have not told their last event.
    pub(super) fn unfinished(&self) -> usize {
        self.sessions.len() - self.free.len()
    }

    /// Ids of the open sessions.
    pub(super) fn ids(&self) -> Vec<SessionId> {
        self.open.keys().copied().collect()
    }

    /// Puts a session in, which the endpoint has accepted.
    pub(super) fn insert(&mut self, new: NewSession) -> SessionKey {
        let place = self.free.pop().unwrap_or(self.sessions.len());
        self.opened += 1;
        let key = SessionKey((self.opened << 32) | place as u64);
        let NewSession { id, object, digest, progress, peers, side, events } = new;
        let session = Session {
            key,
            id,
            object,
            digest,
            progress,
            peers,
            side,
            jobs: 0,
            held: VecDeque::new(),
            failure: None,
            events,
            last: None,
        };
        if place == self.sessions.len() {
            self.sessions.push(Some(session));
        } else {
            self.sessions[place] = Some(session);
        }
        self.open.insert(id, key);
        self.last = None;
        key
    }

    /// The open session of that id.
    pub(super) fn by_id(&mut self, id: SessionId) -> Option<&mut Session> {
        let key = match self.last {
            Some((last, key)) if last == id => key,
            _ => {
                let key = *self.open.get(&id)?;
                self.last = Some((id, key));
                key
            }
        };
        self.by_key(key)
    }

    /// A session that has not told its last event.
    pub(super) fn by_key(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.sessions.get_mut(key.place())?.as_mut().filter(|session| session.key == key)
    }

    /// The endpoint is done with a session: `last` is told once workers are done with it too.
    /// Its id is free at once. Returns the hosts it named.
    pub(super) fn end(
        &mut self,
        id: SessionId,
        last: SessionEvent,
    ) -> Option<(SessionKey, Vec<HostId>)> {
        let key = self.open.remove(&id)?;
        self.last = None;
        let session = self.by_key(key)?;
        session.last = Some(last);
        session.held.clear();
        let peers = std::mem::take(&mut session.peers);
        self.settle(key);
        Some((key, peers))
    }

    /// A worker is done with a job of a session.
    pub(super) fn job_done(&mut self, key: SessionKey) {
        if let Some(session) = self.by_key(key) {
            session.jobs -= 1;
            self.settle(key);
        }
    }

    /// Tells the last event of a session that is over and that no worker has a part of.
    fn settle(&mut self, key: SessionKey) {
        let Some(session) = self.by_key(key) else { return };
        if session.jobs > 0 {
            return;
        }
        let Some(last) = session.last.take() else { return };
        session.tell(last);
        self.sessions[key.place()] = None;
        self.free.push(key.place());
    }
}
