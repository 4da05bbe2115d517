//! One host's LTTP: all its sessions, as server and as client.

use super::client::{Arrival, Client};
use super::command::{Command, CommandError};
use super::config::Config;
use super::event::Event;
use super::header::{LttpHeader, Parameters};
use super::server::Server;
use crate::slots::Slots;
use crate::tfrc::{Report, Stamp};
use crate::transfer::FailReason;
use alloc::collections::{BTreeMap, VecDeque};
use wellspring_core::{
    Destination, DropReason, Duration, Ecn, Endpoint as EndpointContract, Frame, HostId, Identity,
    SessionId, Time, TimerQueue, Verdict, Work, WorkDone,
};

/// Control messages that wait for the link at most; others are repeated by who waits for them.
const MAX_CONTROL: usize = 4_096;

type Key = (HostId, SessionId);

/// One host for LTTP.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    servers: Slots<Server>,
    clients: Slots<Client>,
    served: BTreeMap<Key, u32>,
    /// By the number alone: work names no peer, and the client chooses the number.
    fetched: BTreeMap<SessionId, u32>,
    /// Servers whose next symbol may go, in the order of time. May name places that are empty.
    ready: VecDeque<u32>,
    /// Clients that have something to say. Likewise.
    talking: VecDeque<u32>,
    control: VecDeque<(HostId, SessionId, LttpHeader)>,
    /// Deadlines: owner 2n is server n, 2n + 1 client n.
    timers: TimerQueue,
    work: VecDeque<Work>,
    events: VecDeque<Event>,
    rates_wanted: bool,
}

impl Endpoint {
    /// A host without sessions.
    pub fn new(config: Config) -> Self {
        Endpoint {
            config,
            servers: Slots::new(),
            clients: Slots::new(),
            served: BTreeMap::new(),
            fetched: BTreeMap::new(),
            ready: VecDeque::new(),
            talking: VecDeque::new(),
            control: VecDeque::new(),
            timers: TimerQueue::new(),
            work: VecDeque::new(),
            events: VecDeque::new(),
            rates_wanted: false,
        }
    }

    /// From now on an [`Event::Rate`] comes whenever a server's rate may have changed.
    pub fn report_rates(&mut self) {
        self.rates_wanted = true;
    }

    /// Of a session that is served: the first block that its client has not stopped.
    pub fn floor(&mut self, client: HostId, session: SessionId) -> Option<u32> {
        let &place = self.served.get(&(client, session))?;
        Some(self.servers.get(place)?.floor())
    }

    /// Sessions this host takes part in.
    pub fn open_sessions(&self) -> usize {
        self.served.len() + self.fetched.len()
    }

    fn path(&self, session: SessionId) -> u16 {
        self.config.seed.numbered_stream("path labels", session.0.into()).below(1 << 16) as u16
    }

    fn check_room(&self, session: SessionId, taken: bool) -> Result<(), CommandError> {
        if taken {
            return Err(CommandError::SessionInUse(session));
        }
        let limit = self.config.max_sessions;
        if self.open_sessions() >= limit {
            return Err(CommandError::TooManySessions(limit));
        }
        Ok(())
    }

    fn offer(
        &mut self,
        now: Time,
        (client, session): Key,
        parameters: Parameters,
        peer_timeout: Duration,
    ) -> Result<(), CommandError> {
        self.check_room(session, self.served.contains_key(&(client, session)))?;
        let Parameters { transfer_len, symbol_size, block_symbols } = parameters;
        if !parameters.are_valid() {
            let block = u64::from(symbol_size) * u64::from(block_symbols);
            let limit = block.saturating_mul(u32::MAX.into());
            return Err(CommandError::TransferLength { got: transfer_len, limit });
        }
        let path = self.path(session);
        let server = Server::new(now, (client, session), parameters, path, peer_timeout);
        let place = self.servers.insert(server);
        self.served.insert((client, session), place);
        self.schedule_server(now, place);
        Ok(())
    }

    fn request(
        &mut self,
        now: Time,
        (server, session): Key,
        symbol_size: u16,
    ) -> Result<(), CommandError> {
        self.check_room(session, self.fetched.contains_key(&session))?;
        let path = self.path(session);
        let client = Client::new(now, (server, session), symbol_size, path, &self.config);
        let place = self.clients.insert(client);
        self.fetched.insert(session, place);
        self.schedule_client(place);
        Ok(())
    }

    fn cancel(&mut self, session: SessionId) -> Result<(), CommandError> {
        let client = self.fetched.get(&session).copied();
        let served = self.served.iter().find(|((_, number), _)| *number == session);
        let served = served.map(|(key, place)| (key.0, *place));
        let fetched_from = client.and_then(|place| self.clients.get(place)).map(|c| c.server);
        let Some(peer) = served.map(|(peer, _)| peer).or(fetched_from) else {
            return Err(CommandError::NoSuchSession(session));
        };
        self.push_control(peer, session, LttpHeader::Close);
        match served {
            Some((_, place)) => self.close(Some(place), None),
            None => self.close(None, client),
        }
        Ok(())
    }

    /// The place of a session that is fetched from that server.
    fn fetched_from(&mut self, (server, session): Key) -> Option<u32> {
        let place = *self.fetched.get(&session)?;
        self.clients.get(place).is_some_and(|client| client.server == server).then_some(place)
    }

    fn close(&mut self, server: Option<u32>, client: Option<u32>) {
        if let Some(place) = server {
            self.timers.set(place * 2, None);
            if let Some(server) = self.servers.remove(place) {
                self.served.remove(&(server.client, server.session));
            }
        }
        if let Some(place) = client {
            self.timers.set(place * 2 + 1, None);
            if let Some(client) = self.clients.remove(place) {
                self.fetched.remove(&client.session);
            }
        }
    }

    fn push_control(&mut self, peer: HostId, session: SessionId, header: LttpHeader) {
        if self.control.len() < MAX_CONTROL {
            self.control.push_back((peer, session, header));
        }
    }

    /// Sets a server's timer to its next symbol, or puts it in line for the link.
    fn schedule_server(&mut self, now: Time, place: u32) {
        let Some(server) = self.servers.get(place) else { return };
        let deadline = server.deadline();
        let at = match server.next_send() {
            Some(_) if server.ready => deadline,
            Some(at) if now.has_reached(at) => {
                server.ready = true;
                self.ready.push_back(place);
                deadline
            }
            Some(at) => at.earlier_of(deadline),
            None => deadline,
        };
        self.timers.set(place * 2, Some(at));
    }

    /// Sets a client's timer, and puts it in line if it has something to say.
    fn schedule_client(&mut self, place: u32) {
        let Some(client) = self.clients.get(place) else { return };
        self.timers.set(place * 2 + 1, Some(client.deadline(&self.config)));
        if !client.talking && client.has_something() {
            client.talking = true;
            self.talking.push_back(place);
        }
    }

    fn on_request(&mut self, now: Time, key: Key) -> Verdict {
        let Some(&place) = self.served.get(&key) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        let Some(server) = self.servers.get(place) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        server.on_request(now, &self.config);
        let parameters = server.parameters;
        self.push_control(key.0, key.1, LttpHeader::Parameters(parameters));
        self.schedule_server(now, place);
        Verdict::Consumed
    }

    fn on_report(&mut self, now: Time, key: Key, report: &Report) -> Verdict {
        let place = self.served.get(&key).copied();
        let Some((place, server)) = place.and_then(|p| Some((p, self.servers.get(p)?))) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        if !server.on_report(now, report) {
            return Verdict::Drop(DropReason::Malformed);
        }
        self.tell_rate(place);
        self.schedule_server(now, place);
        Verdict::Consumed
    }

    fn tell_rate(&mut self, place: u32) {
        if self.rates_wanted
            && let Some(server) = self.servers.get(place)
            && let Some(rate) = server.rate()
        {
            self.events.push_back(Event::Rate { session: server.session, rate: rate as u64 });
        }
    }

    /// A stop is confirmed even if the session is forgotten: the confirmation may have been lost.
    fn on_stop(&mut self, now: Time, key: Key, next: u32) -> Verdict {
        self.push_control(key.0, key.1, LttpHeader::Stopped { next });
        let Some(&place) = self.served.get(&key) else {
            return Verdict::Drop(DropReason::Stale);
        };
        let Some(server) = self.servers.get(place) else {
            return Verdict::Drop(DropReason::Stale);
        };
        if server.on_stop(now, next) {
            let event = Event::Sent { session: server.session, stats: server.stats };
            self.events.push_back(event);
            self.close(Some(place), None);
        } else {
            self.schedule_server(now, place);
        }
        Verdict::Consumed
    }

    fn on_parameters(&mut self, now: Time, key: Key, parameters: Parameters) -> Verdict {
        let place = self.fetched_from(key);
        let Some((place, client)) = place.and_then(|p| Some((p, self.clients.get(p)?))) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        let known = client.source_symbols().is_some();
        let Some(finish) = client.on_parameters(now, parameters, &self.config) else {
            return Verdict::Drop(DropReason::Malformed);
        };
        if !known {
            self.events.push_back(Event::Accepted { session: key.1, parameters });
        }
        if finish {
            self.ask_to_finish(place);
        }
        self.schedule_client(place);
        Verdict::Consumed
    }

    fn ask_to_finish(&mut self, place: u32) {
        if let Some(client) = self.clients.get(place) {
            client.begin_work();
            let (session, sbn) = (client.session, client.progress().0);
            self.work.push_back(Work::Finish { session, sbn, decode: true });
        }
    }

    fn on_symbol(&mut self, now: Time, key: Key, stamp: Stamp, (sbn, esi): (u32, u32)) -> Verdict {
        let place = self.fetched_from(key);
        let Some((place, client)) = place.and_then(|p| Some((p, self.clients.get(p)?))) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        let arrival = client.on_symbol(now, stamp, (sbn, esi), &self.config);
        let symbols = client.arrived();
        let verdict = match arrival {
            Arrival::Useful { .. } => Verdict::Keep(Identity::Symbol { session: key.1, sbn, esi }),
            Arrival::Duplicate => Verdict::Drop(DropReason::Duplicate),
            Arrival::Redundant => Verdict::Drop(DropReason::Stale),
            Arrival::Malformed => return Verdict::Drop(DropReason::Malformed),
        };
        let every = self.config.progress_every;
        if every > 0 && symbols.is_multiple_of(every.into()) {
            let bytes = u64::from(every) * u64::from(client.symbol_size);
            self.events.push_back(Event::Progress { session: key.1, bytes });
        }
        if matches!(arrival, Arrival::Useful { finish: true }) {
            self.ask_to_finish(place);
        }
        self.schedule_client(place);
        verdict
    }

    fn on_stopped(&mut self, now: Time, key: Key, next: u32) -> Verdict {
        let place = self.fetched_from(key);
        let Some((place, client)) = place.and_then(|p| Some((p, self.clients.get(p)?))) else {
            return Verdict::Drop(DropReason::UnknownSession);
        };
        if client.on_stopped(now, next) {
            self.close(None, Some(place));
        } else {
            self.schedule_client(place);
        }
        Verdict::Consumed
    }

    fn on_close(&mut self, key: Key) -> Verdict {
        let server = self.served.get(&key).copied();
        let client = self.fetched_from(key);
        if server.is_none() && client.is_none() {
            return Verdict::Drop(DropReason::UnknownSession);
        }
        let done = client.and_then(|p| self.clients.get(p)).is_some_and(|c| c.is_complete());
        if !done {
            let reason = FailReason::Closed;
            self.events.push_back(Event::Failed { session: key.1, reason });
        }
        self.close(server, client);
        Verdict::Consumed
    }

    fn on_server_deadline(&mut self, now: Time, place: u32) {
        let Some(server) = self.servers.get(place) else { return };
        let silences = server.stats.silences;
        if server.on_timeout(now) {
            if server.stats.silences > silences {
                self.tell_rate(place);
            }
            return self.schedule_server(now, place);
        }
        let (session, reason) = (server.session, FailReason::PeerLost);
        self.events.push_back(Event::Failed { session, reason });
        self.close(Some(place), None);
    }

    fn on_client_deadline(&mut self, now: Time, place: u32) {
        let Some(client) = self.clients.get(place) else { return };
        if client.on_timeout(now, &self.config) {
            return self.schedule_client(place);
        }
        if !client.is_complete() {
            let (session, reason) = (client.session, FailReason::PeerLost);
            self.events.push_back(Event::Failed { session, reason });
        }
        self.close(None, Some(place));
    }

    fn frame(
        &self,
        (peer, session): Key,
        path: u16,
        payload_len: u16,
        header: LttpHeader,
    ) -> Frame<LttpHeader> {
        Frame {
            source: self.config.host,
            destination: Destination::Host(peer),
            session,
            payload_len,
            path,
            class: self.config.class,
            ecn: Ecn::NotCapable,
            trimmed: false,
            header,
        }
    }

    fn transmit_client(&mut self, now: Time) -> Option<Frame<LttpHeader>> {
        while let Some(place) = self.talking.pop_front() {
            let Some(client) = self.clients.get(place) else { continue };
            client.talking = false;
            let control = client.poll_control(now, &self.config);
            let header = control.or_else(|| client.poll_report(now).map(LttpHeader::Report));
            let (key, path) = ((client.server, client.session), client.path);
            self.schedule_client(place);
            if let Some(header) = header {
                return Some(self.frame(key, path, 0, header));
            }
        }
        None
    }

    fn transmit_symbol(&mut self, now: Time) -> Option<Frame<LttpHeader>> {
        while let Some(place) = self.ready.pop_front() {
            let Some(server) = self.servers.get(place) else { continue };
            server.ready = false;
            let header = server.poll_symbol(now, &self.config);
            let (key, path) = ((server.client, server.session), server.path);
            let symbol_size = server.parameters.symbol_size;
            self.schedule_server(now, place);
            if let Some(header) = header {
                return Some(self.frame(key, path, symbol_size, header));
            }
        }
        None
    }
}

impl EndpointContract for Endpoint {
    type Header = LttpHeader;
    type Command = Command;
    type Event = Event;
    type CommandError = CommandError;

    fn handle_command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        match command {
            Command::Offer { session, client, transfer_len } => {
                let Config { symbol_size, block_symbols, .. } = self.config;
                let parameters = Parameters { transfer_len, symbol_size, block_symbols };
                self.offer(now, (client, session), parameters, self.config.peer_timeout)
            }
            Command::OfferCut { session, client, parameters, peer_timeout } => {
                self.offer(now, (client, session), parameters, peer_timeout)
            }
            Command::Request { session, server } => {
                self.request(now, (server, session), self.config.symbol_size)
            }
            Command::RequestCut { session, server, symbol_size } => {
                self.request(now, (server, session), symbol_size)
            }
            Command::Cancel { session } => self.cancel(session),
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &Frame<LttpHeader>) -> Verdict {
        if frame.destination != Destination::Host(self.config.host) || frame.trimmed {
            return Verdict::Drop(DropReason::Misdirected);
        }
        let key = (frame.source, frame.session);
        match frame.header {
            LttpHeader::Request => self.on_request(now, key),
            LttpHeader::Parameters(parameters) => self.on_parameters(now, key, parameters),
            LttpHeader::Symbol { stamp, sbn, esi } => self.on_symbol(now, key, stamp, (sbn, esi)),
            LttpHeader::Report(report) => self.on_report(now, key, &report),
            LttpHeader::Stop { next } => self.on_stop(now, key, next),
            LttpHeader::Stopped { next } => self.on_stopped(now, key, next),
            LttpHeader::Close => self.on_close(key),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(owner) = self.timers.pop_due(now) {
            if owner.is_multiple_of(2) {
                self.on_server_deadline(now, owner / 2);
            } else {
                self.on_client_deadline(now, owner / 2);
            }
        }
    }

    fn handle_work_done(&mut self, now: Time, done: WorkDone) {
        let (session, sbn, finished) = match done {
            WorkDone::Finished { session, sbn } => (session, sbn, true),
            // Its driver does not verify blocks one by one.
            WorkDone::NeedMore { session, sbn, .. } | WorkDone::Wrong { session, sbn, .. } => {
                (session, sbn, false)
            }
        };
        let place = self.fetched.get(&session).copied();
        let Some((place, client)) = place.and_then(|p| Some((p, self.clients.get(p)?))) else {
            return;
        };
        if client.works_on() != Some(sbn) {
            return;
        }
        if !finished {
            return client.on_need_more();
        }
        let complete = client.on_finished(now);
        let (server, stats, ready) = (client.server, client.stats, client.is_ready());
        self.events.push_back(Event::BlockComplete { session, sbn });
        if complete {
            self.events.push_back(Event::Received { session, server, stats });
        }
        if ready {
            self.ask_to_finish(place);
        }
        self.schedule_client(place);
    }

    fn poll_work(&mut self) -> Option<Work> {
        self.work.pop_front()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Frame<LttpHeader>> {
        if let Some((peer, session, header)) = self.control.pop_front() {
            let path = self.path(session);
            return Some(self.frame((peer, session), path, 0, header));
        }
        self.transmit_client(now).or_else(|| self.transmit_symbol(now))
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next_deadline()
    }
}
