//! Opening of sessions for requests.

use super::{Driver, Due, ENDLESS, Endless, Session};
use crate::adapter::{ActionsOf, Adapter, Leg};
use crate::record::{Account, FlowRecord};
use crate::scenario::{Background, Placement, ReadBy, Workload, WriteBy};
use crate::workload::{Request, storage};
use wellspring_core::{SessionId, Time};

/// Pieces of a read that one host is asked for at once: one of them on its way while another is asked for.
const PIECES_AT_A_TIME: u32 = 2;

impl<A: Adapter> Driver<A> {
    fn leg(&mut self, operation: u32, from: u32, to: u32, bytes: u64) -> Leg {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let of = self.operations.get(operation as usize);
        let background = of.is_some_and(|operation| operation.endless.is_background());
        let beside = of.is_some_and(|operation| operation.record.beside);
        let leg = Leg { session, from, to, bytes, background, beside };
        let (members, receivers) = (Vec::new(), vec![to]);
        let entry = Session { operation, leg, group: false, members, senders: 1, receivers };
        self.sessions.insert(session, entry);
        leg
    }

    pub(super) fn unicast(
        &mut self,
        operation: u32,
        (from, to): (u32, u32),
        bytes: u64,
        actions: &mut ActionsOf<A>,
    ) -> SessionId {
        let leg = self.leg(operation, from, to, bytes);
        self.adapter.unicast(leg, actions);
        leg.session
    }

    pub(super) fn start(
        &mut self,
        now: Time,
        request: &Request,
        actions: &mut ActionsOf<A>,
    ) -> u32 {
        let protocol = self.scenario.protocol.name;
        let record = |kind, host, peer, bytes| FlowRecord {
            kind,
            protocol,
            beside: false,
            host,
            peer,
            bytes,
            start: now.as_secs_f64(),
            end: None,
            account: Account::default(),
            failed: false,
            reason: None,
        };
        if self.open_requests == 0 {
            self.heard_at = now;
        }
        match request {
            Request::Transfer { from, to, bytes } => {
                let operation = self.open(record("transfer", *from, *to, *bytes), 1, Endless::No);
                self.unicast(operation, (*from, *to), *bytes, actions);
                operation
            }
            Request::Traced { flow, from, to, bytes } => {
                let operation = self.open(record("transfer", *from, *to, *bytes), 1, Endless::No);
                if let Some(opened) = self.operations.get_mut(operation as usize) {
                    opened.traced = Some(*flow);
                }
                self.unicast(operation, (*from, *to), *bytes, actions);
                operation
            }
            Request::Write { from, to, bytes } => {
                let first = to.first().copied().unwrap_or(*from);
                let write = record("write", *from, first, *bytes);
                let operation = self.open(write, to.len() as u32, Endless::No);
                self.start_write(operation, *from, to, *bytes, actions);
                operation
            }
            Request::Read { to, from, single, ahead, bytes } => {
                let first = from.first().copied().unwrap_or(*to);
                let operation = self.open(record("read", *to, first, *bytes), 1, Endless::No);
                self.start_read(operation, *to, (from, single, ahead), *bytes, actions);
                operation
            }
            Request::Timed { from, to, duration } => {
                let end = now + *duration;
                let operation = self.open(record("timed", *from, *to, 0), 1, Endless::Timed(end));
                let session = self.unicast(operation, (*from, *to), ENDLESS * 10, actions);
                self.schedule(end, Due::Cancel(session));
                operation
            }
        }
    }

    fn start_write(
        &mut self,
        operation: u32,
        from: u32,
        to: &[u32],
        bytes: u64,
        actions: &mut ActionsOf<A>,
    ) {
        if to.len() > 1 {
            let leg = self.leg(operation, from, to[0], bytes);
            if self.adapter.one_to_many(leg, to, actions) {
                if let Some(session) = self.sessions.get_mut(&leg.session) {
                    session.group = true;
                    session.members = to.to_vec();
                    session.receivers = to.to_vec();
                }
                return;
            }
            self.sessions.remove(&leg.session);
        }
        let chained = matches!(
            self.scenario.workload,
            Workload::Storage { write_by: WriteBy::DaisyChain, .. }
        );
        let now = if chained { 1 } else { to.len() };
        for host in &to[..now.min(to.len())] {
            self.unicast(operation, (from, *host), bytes, actions);
        }
        if let (true, Some(operation)) = (chained, self.operations.get_mut(operation as usize)) {
            operation.chain = to[now.min(to.len())..].to_vec();
        }
    }

    /// Reads one block from all that have it; false if the protocol cannot.
    fn many_to_one(
        &mut self,
        operation: u32,
        from: &[u32],
        to: u32,
        bytes: u64,
        actions: &mut ActionsOf<A>,
    ) -> bool {
        let leg = self.leg(operation, from.first().copied().unwrap_or(to), to, bytes);
        let begun = self.adapter.many_to_one(leg, from, actions);
        if begun && let Some(session) = self.sessions.get_mut(&leg.session) {
            session.senders = from.len() as u32;
        }
        if !begun {
            self.sessions.remove(&leg.session);
        }
        begun
    }

    fn start_read(
        &mut self,
        operation: u32,
        to: u32,
        (from, single, ahead): (&[u32], &[u32], &[Vec<u32>]),
        bytes: u64,
        actions: &mut ActionsOf<A>,
    ) {
        let read_by = match self.scenario.workload {
            Workload::Storage { read_by, .. } => read_by,
            _ => ReadBy::Single,
        };
        if from.len() > 1 {
            let ahead = if read_by == ReadBy::MultiBlock { ahead } else { &[] };
            let part = bytes.div_ceil(1 + ahead.len() as u64);
            let mut blocks = core::iter::once(from).chain(ahead.iter().map(Vec::as_slice));
            if blocks.all(|from| self.many_to_one(operation, from, to, part, actions)) {
                if let Some(operation) = self.operations.get_mut(operation as usize) {
                    operation.pending = 1 + ahead.len() as u32;
                }
                return;
            }
        }
        let sources = match read_by {
            ReadBy::Single => &single[..1.min(single.len())],
            ReadBy::MultiBlock => single,
            ReadBy::Parts => from,
            ReadBy::Pieces => return self.read_pieces(operation, to, from, bytes, actions),
        };
        if let Some(operation) = self.operations.get_mut(operation as usize) {
            operation.pending = sources.len() as u32;
        }
        let part = bytes.div_ceil(sources.len().max(1) as u64);
        for source in sources {
            self.unicast(operation, (*source, to), part, actions);
        }
    }

    /// Reads pieces from all hosts, a few at a time of each.
    fn read_pieces(
        &mut self,
        place: u32,
        to: u32,
        from: &[u32],
        bytes: u64,
        actions: &mut ActionsOf<A>,
    ) {
        let pieces = u32::try_from(bytes.div_ceil(self.piece())).unwrap_or(u32::MAX);
        let Some(operation) = self.operations.get_mut(place as usize) else { return };
        (operation.pending, operation.unasked) = (pieces, (pieces, bytes));
        for _ in 0..PIECES_AT_A_TIME {
            for source in from {
                self.next_piece(place, (*source, to), actions);
            }
        }
    }

    /// Bytes of a piece.
    fn piece(&self) -> u64 {
        let protocol = &self.scenario.protocol;
        (u64::from(protocol.block_symbols) * u64::from(protocol.payload())).max(1)
    }

    /// Reads the next piece from a host, if one is left.
    pub(super) fn next_piece(&mut self, place: u32, ends: (u32, u32), actions: &mut ActionsOf<A>) {
        let most = self.piece();
        let Some(operation) = self.operations.get_mut(place as usize) else { return };
        let (pieces, rest) = operation.unasked;
        if pieces > 0 {
            let bytes = most.min(rest);
            operation.unasked = (pieces - 1, rest - bytes);
            self.unicast(place, ends, bytes, actions);
        }
    }

    pub(super) fn start_background(&mut self, actions: &mut ActionsOf<A>) {
        let hosts = self.population.background.clone();
        for (index, &from) in hosts.iter().enumerate() {
            let to = hosts[(index + 1) % hosts.len()];
            let record = FlowRecord {
                kind: "background",
                protocol: self.scenario.protocol.name,
                beside: false,
                host: from,
                peer: to,
                bytes: 0,
                start: self.round_start.as_secs_f64(),
                end: None,
                account: Account::default(),
                failed: false,
                reason: None,
            };
            match self.scenario.background.storage {
                None => {
                    let operation = self.open(record, 1, Endless::Flow);
                    self.unicast(operation, (from, to), ENDLESS, actions);
                }
                Some(_) => {
                    let operation = self.open(record, 1, Endless::Storage);
                    self.storage_turn(operation, actions);
                }
            }
        }
    }

    /// The next read or write of an endless storage client: even odds (SCDP §V-D).
    pub(super) fn storage_turn(&mut self, operation: u32, actions: &mut ActionsOf<A>) {
        let Some(size) = self.scenario.background.storage else { return };
        let Some(entry) = self.operations.get(operation as usize) else { return };
        let client = entry.record.host;
        let mut clients = self.population.clone();
        clients.foreground = clients.background.clone();
        let is_write = self.random.chance(0.5);
        let random = &mut self.random;
        let request = storage(
            &clients,
            client,
            Background::REPLICAS,
            Placement::Hdfs,
            is_write,
            size.0,
            random,
        );
        match request {
            Request::Write { from, to, bytes } => {
                if let Some(entry) = self.operations.get_mut(operation as usize) {
                    entry.pending = to.len() as u32;
                }
                self.start_write(operation, from, &to, bytes, actions);
            }
            Request::Read { to, from, single, ahead, bytes } => {
                if let Some(entry) = self.operations.get_mut(operation as usize) {
                    entry.pending = 1;
                }
                self.start_read(operation, to, (&from, &single, &ahead), bytes, actions);
            }
            Request::Transfer { .. } | Request::Traced { .. } | Request::Timed { .. } => {}
        }
    }
}
