//! Sessions of an endpoint: what the endpoint does not know of them.

use std::collections::{BTreeMap, VecDeque};

use slab::Slab;
use wellspring_core::{Frame, HostId, SessionId};

use crate::event::{Failure, SessionEvent};
use crate::payload::coding::Coding;
use crate::payload::geometry::Geometry;
use crate::payload::key::SessionKey;
use crate::progress::SessionProgress;
use crate::protocol::{Header, Protocol, Report, Side, Sink};

/// What is kept of a session beside the endpoint.
pub(crate) struct Session<P: Protocol> {
    pub key: SessionKey,
    pub id: SessionId,
    pub geometry: Geometry,
    pub coding: Coding,
    pub progress: SessionProgress,
    /// Every host it names, each counted in the table of peers.
    pub peers: Vec<HostId>,
    pub side: Side,
    /// What the protocol keeps of it.
    pub state: P::Session,
    /// Jobs of it that workers have.
    pub jobs: u32,
    /// Symbols kept of each peer, and how many of them were altered.
    pub kept: Vec<(u64, u64)>,
    /// Its group was left, since a member that has the group's key may have forged symbols.
    pub left_group: bool,
    /// Peers whose symbols are not used any more, by their index.
    pub suspects: Vec<u8>,
    /// Blocks of which it could not be told whether they are right.
    pub unchecked: Vec<u32>,
    /// Frames that wait for their block or its encoder, and those behind them: symbols leave in
    /// the order of their packet numbers, or receivers would take them for lost.
    pub held: VecDeque<Frame<Header<P>>>,
    /// So many of them wait that the endpoint is asked for no more.
    pub is_paused: bool,
    /// Why this side ends it, if it does.
    pub failure: Option<Failure>,
    events: Sink<P>,
    /// The last event, once the endpoint is done with the session.
    last: Option<Report<P>>,
}

impl<P: Protocol> Session<P> {
    /// Reports to the application.
    pub(crate) fn report(&mut self, event: Report<P>) {
        (self.events)(event);
    }

    /// Whether the endpoint is done with it.
    pub(crate) fn is_over(&self) -> bool {
        self.last.is_some()
    }

    /// Bytes that the endpoint took for written were not: the session did not end well.
    pub(crate) fn spoil(&mut self, failure: Failure) {
        if let Some(SessionEvent::Received { .. }) = self.last {
            self.last = Some(SessionEvent::Failed(failure));
        }
    }
}

/// What it takes to put a session in.
pub(crate) struct NewSession<P: Protocol> {
    pub id: SessionId,
    pub geometry: Geometry,
    pub coding: Coding,
    pub progress: SessionProgress,
    pub peers: Vec<HostId>,
    pub side: Side,
    pub state: P::Session,
    pub events: Sink<P>,
}

/// All sessions of an endpoint: open ones by id, and those over whose workers have not come back
/// yet.
pub(crate) struct SessionTable<P: Protocol> {
    runner: u8,
    sessions: Slab<Session<P>>,
    open: BTreeMap<SessionId, SessionKey>,
    opened: u64,
    /// The session looked up last: packets come in runs.
    last: Option<(SessionId, SessionKey)>,
}

impl<P: Protocol> SessionTable<P> {
    /// The sessions of the protocol of that number.
    pub(crate) fn new(runner: u8) -> Self {
        SessionTable { runner, sessions: Slab::new(), open: BTreeMap::new(), opened: 0, last: None }
    }

    /// Sessions open at the endpoint.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Sessions that have not reported their last event.
    pub(crate) fn unfinished(&self) -> usize {
        self.sessions.len()
    }

    /// Ids of the open sessions.
    pub(crate) fn ids(&self) -> Vec<SessionId> {
        self.open.keys().copied().collect()
    }

    /// Puts a session in, which the endpoint has accepted.
    pub(crate) fn insert(&mut self, new: NewSession<P>) -> SessionKey {
        self.opened += 1;
        let entry = self.sessions.vacant_entry();
        let key = SessionKey::new(entry.key(), self.runner, self.opened);
        let NewSession { id, geometry, coding, progress, peers, side, state, events } = new;
        let kept = vec![(0, 0); peers.len()];
        entry.insert(Session {
            key,
            id,
            geometry,
            coding,
            progress,
            peers,
            side,
            state,
            jobs: 0,
            kept,
            suspects: Vec::new(),
            unchecked: Vec::new(),
            left_group: false,
            held: VecDeque::new(),
            is_paused: false,
            failure: None,
            events,
            last: None,
        });
        self.open.insert(id, key);
        self.last = None;
        key
    }

    /// The open session of that id.
    pub(crate) fn by_id(&mut self, id: SessionId) -> Option<&mut Session<P>> {
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

    /// Whether it is, or was, a session of this table.
    pub(crate) fn has(&self, key: SessionKey) -> bool {
        key.runner() == usize::from(self.runner)
    }

    /// A session that has not reported its last event.
    pub(crate) fn by_key(&mut self, key: SessionKey) -> Option<&mut Session<P>> {
        self.sessions.get_mut(key.place()).filter(|session| session.key == key)
    }

    /// The endpoint is done with a session: `last` is reported once workers are done with it too.
    /// Its id is free at once. Returns the hosts it named.
    pub(crate) fn end(
        &mut self,
        id: SessionId,
        last: Report<P>,
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
    pub(crate) fn job_done(&mut self, key: SessionKey) {
        if let Some(session) = self.by_key(key) {
            session.jobs -= 1;
            self.settle(key);
        }
    }

    /// Reports the last event of a session that is over and that no worker has a part of.
    fn settle(&mut self, key: SessionKey) {
        let Some(session) = self.by_key(key) else { return };
        if session.jobs > 0 {
            return;
        }
        let Some(last) = session.last.take() else { return };
        session.report(last);
        self.sessions.remove(key.place());
    }
}
