//! The application behind all hosts: opens sessions as requests come, keeps account of them.

mod start;

use crate::adapter::{ActionsOf, Adapter, Leg, News};
use crate::decode::DecodeModel;
use crate::record::FlowRecord;
use crate::scenario::Scenario;
use crate::workload::{Population, Request, Requests};
use std::collections::BTreeMap;
use wellspring_core::{
    Duration, Endpoint, GroupId, HostId, RandomStream, Seed, SessionId, Time, Work, WorkDone,
};
use wellspring_sim::Application;

/// Size of an "endless" flow, which is followed by another: so that no protocol keeps account of
/// more than this \[bytes\].
const ENDLESS: u64 = 2_000_000_000;

/// A request under way.
#[derive(Debug)]
struct Operation {
    record: FlowRecord,
    /// Receivers that do not have everything yet.
    pending: u32,
    /// Rest of a daisy chain: hosts still to be reached.
    chain: Vec<u32>,
    endless: Endless,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Endless {
    No,
    /// Renewed when complete; ends with the run.
    Flow,
    /// Storage requests one after another.
    Storage,
    /// Cancelled at some time.
    Timed,
}

impl Endless {
    fn is_background(self) -> bool {
        matches!(self, Endless::Flow | Endless::Storage)
    }
}

/// A session of the protocol.
#[derive(Clone, Copy, Debug)]
struct Session {
    operation: u32,
    leg: Leg,
    group: bool,
}

#[derive(Debug)]
enum Due {
    Background,
    Next(Request),
    Cancel(SessionId),
}

/// The application of a run.
pub struct Driver<A: Adapter> {
    adapter: A,
    scenario: Scenario,
    requests: Requests,
    population: Population,
    agenda: BTreeMap<(Time, u32), Due>,
    agenda_sequence: u32,
    operations: Vec<Option<Operation>>,
    free: Vec<u32>,
    sessions: BTreeMap<SessionId, Session>,
    next_session: u32,
    decode: DecodeModel,
    random: RandomStream,
    warmup: Duration,
    /// Requests still to finish, those not made yet included.
    pub outstanding: u32,
    /// All requests of the foreground.
    pub total: u32,
    /// Finished requests, in the order they finished.
    pub records: Vec<FlowRecord>,
    /// (session, when \[s\], bytes) of endless timed flows.
    pub timeline: Vec<(u32, f64, u64)>,
    /// News of requests, the background's not counted.
    pub news_count: u64,
    /// Requests under way.
    open_requests: u32,
    /// Why an endpoint refused a command, if any did: a scenario that asks for the impossible.
    pub refused: Option<String>,
}

impl<A: Adapter> Driver<A> {
    /// For one run.
    pub fn new(adapter: A, scenario: &Scenario, hosts: u32, seed: Seed) -> Self {
        let population = Population::new(scenario, hosts, seed);
        let requests = Requests::new(&scenario.workload, population.clone(), seed);
        let idle = population.background.is_empty();
        Driver {
            adapter,
            scenario: scenario.clone(),
            outstanding: requests.total(),
            total: requests.total(),
            requests,
            population,
            agenda: BTreeMap::new(),
            agenda_sequence: 0,
            operations: Vec::new(),
            free: Vec::new(),
            sessions: BTreeMap::new(),
            next_session: 0,
            decode: DecodeModel::new(&scenario.protocol),
            random: seed.stream("driver"),
            warmup: if idle { Duration::ZERO } else { scenario.background.warmup.0 },
            records: Vec::new(),
            timeline: Vec::new(),
            news_count: 0,
            open_requests: 0,
            refused: None,
        }
    }

    /// The state of every request under way, for whoever finds the run stuck.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        for (session, entry) in &self.sessions {
            let Some(operation) = &self.operations[entry.operation as usize] else { continue };
            if operation.endless == Endless::No {
                let FlowRecord { kind, host, peer, bytes, start, failed, .. } = &operation.record;
                text += &format!(
                    "{session:?}: {kind} {host} - {peer}, {bytes} B, since {start:.6} s, \
                     {} receivers pending, failed: {failed}\n",
                    operation.pending
                );
            }
        }
        text
    }

    /// The hosts at both ends of the request that has been under way for longest.
    pub fn first_stuck(&self) -> Option<[u32; 2]> {
        let open = self.operations.iter().flatten().filter(|o| o.endless == Endless::No);
        let first = open.min_by(|a, b| a.record.start.total_cmp(&b.record.start))?;
        Some([first.record.host, first.record.peer])
    }

    /// Whether all requests made so far are finished and the next is not due yet: then silence is
    /// no sign of trouble.
    pub fn requests_wait(&self) -> bool {
        self.open_requests == 0
    }

    /// Moves the endless flows that still run into the records.
    pub fn close_endless(&mut self, now: Time) {
        for operation in self.operations.iter_mut().filter_map(Option::take) {
            if operation.endless != Endless::No {
                let end = Some(now.as_secs_f64());
                self.records.push(FlowRecord { end, ..operation.record });
            } else {
                self.records.push(operation.record);
            }
        }
    }

    fn schedule(&mut self, at: Time, due: Due) {
        self.agenda_sequence += 1;
        self.agenda.insert((at, self.agenda_sequence), due);
    }

    fn schedule_next(&mut self) {
        match self.requests.next() {
            Some((at, request)) => {
                self.schedule(Time::ZERO + self.warmup + at, Due::Next(request));
            }
            // Fewer than announced: hosts to choose from ran out.
            None => self.outstanding = self.outstanding.min(self.open_requests),
        }
    }

    fn run_agenda(&mut self, now: Time, actions: &mut ActionsOf<A>) {
        while let Some(entry) = self.agenda.first_entry() {
            if entry.key().0 > now {
                break;
            }
            match entry.remove() {
                Due::Background => self.start_background(actions),
                Due::Next(request) => {
                    self.start(now, &request, actions);
                    self.schedule_next();
                }
                Due::Cancel(session) => self.cancel(now, session, actions),
            }
        }
        if let Some((at, _)) = self.agenda.keys().next() {
            actions.set_alarm(*at);
        }
        if self.outstanding == 0 {
            actions.stop();
        }
    }

    fn open(&mut self, record: FlowRecord, pending: u32, endless: Endless) -> u32 {
        let is_background = endless.is_background();
        self.open_requests += u32::from(!is_background);
        let operation = Operation { record, pending, chain: Vec::new(), endless };
        match self.free.pop() {
            Some(place) => {
                self.operations[place as usize] = Some(operation);
                place
            }
            None => {
                self.operations.push(Some(operation));
                (self.operations.len() - 1) as u32
            }
        }
    }

    fn cancel(&mut self, now: Time, session: SessionId, actions: &mut ActionsOf<A>) {
        let Some(entry) = self.sessions.remove(&session) else { return };
        self.adapter.cancel(session, entry.leg.from, actions);
        self.finish(now, entry.operation);
    }

    fn finish(&mut self, now: Time, place: u32) {
        if let Some(mut operation) = self.operations[place as usize].take() {
            operation.record.end = Some(now.as_secs_f64());
            if operation.record.failed && operation.endless == Endless::No {
                operation.record.end = None;
            }
            self.records.push(operation.record);
            self.free.push(place);
            self.outstanding -= 1;
            self.open_requests -= 1;
        }
    }

    fn on_news(&mut self, now: Time, id: SessionId, news: News, actions: &mut ActionsOf<A>) {
        let Some(&Session { operation: place, leg, group }) = self.sessions.get(&id) else {
            return;
        };
        let Some(operation) = &mut self.operations[place as usize] else { return };
        let is_background = operation.endless.is_background();
        self.news_count += u64::from(!is_background);
        match news {
            News::Accepted => {
                if !operation.chain.is_empty() {
                    let next = operation.chain.remove(0);
                    let bytes = operation.record.bytes;
                    self.unicast(place, (leg.to, next), bytes, actions);
                }
            }
            News::Progress(bytes) => {
                let measured = now.as_secs_f64() >= operation.record.start;
                match operation.endless {
                    Endless::Flow | Endless::Timed if measured => operation.record.bytes += bytes,
                    _ => {}
                }
                if operation.endless == Endless::Timed {
                    self.timeline.push((id.0, now.as_secs_f64(), bytes));
                }
            }
            News::Received(account) => {
                let sum = &mut operation.record.account;
                sum.trimmed += account.trimmed;
                sum.needless += account.needless;
                sum.decoded_blocks += account.decoded_blocks;
                self.received(now, place, id, group, actions);
            }
            News::Failed => {
                operation.record.failed = true;
                self.received(now, place, id, group, actions);
            }
        }
    }

    /// One receiver of an operation is done (or lost).
    fn received(
        &mut self,
        now: Time,
        place: u32,
        id: SessionId,
        group: bool,
        actions: &mut ActionsOf<A>,
    ) {
        let Some(operation) = &mut self.operations[place as usize] else { return };
        operation.pending = operation.pending.saturating_sub(1);
        let done = operation.pending == 0;
        let endless = operation.endless;
        if !group || done {
            self.sessions.remove(&id);
            if group {
                actions.remove_group(GroupId(id.0 & 0x7fff_ffff));
            }
        }
        if !done {
            return;
        }
        match endless {
            Endless::No | Endless::Timed => self.finish(now, place),
            Endless::Storage => {
                if now.as_secs_f64() >= operation.record.start {
                    operation.record.bytes += self.scenario.background.storage.map_or(0, |s| s.0);
                }
                self.storage_turn(place, actions);
            }
            Endless::Flow => {
                let (from, to) = (operation.record.host, operation.record.peer);
                operation.pending = 1;
                self.unicast(place, (from, to), ENDLESS, actions);
            }
        }
    }
}

impl<A: Adapter> Application<A::Endpoint> for Driver<A> {
    fn on_start(&mut self, actions: &mut ActionsOf<A>) {
        if !self.population.background.is_empty() {
            self.schedule(Time::ZERO, Due::Background);
        }
        // Requests known from the start are all due at their times; streams go one by one.
        self.schedule_next();
        self.run_agenda(Time::ZERO, actions);
    }

    fn on_event(
        &mut self,
        now: Time,
        _host: HostId,
        event: <A::Endpoint as Endpoint>::Event,
        actions: &mut ActionsOf<A>,
    ) {
        if let Some((session, news)) = self.adapter.news(event) {
            self.on_news(now, session, news, actions);
            if self.outstanding == 0 {
                actions.stop();
            }
        }
    }

    fn on_alarm(&mut self, now: Time, actions: &mut ActionsOf<A>) {
        self.run_agenda(now, actions);
    }

    fn on_work(&mut self, _now: Time, _host: HostId, work: Work) -> Option<(Duration, WorkDone)> {
        let Work::Finish { session, sbn, decode } = work;
        if !decode {
            return Some((Duration::ZERO, WorkDone::Finished { session, sbn }));
        }
        let bytes = self.sessions.get(&session).map_or(1, |entry| entry.leg.bytes);
        let symbols = self.adapter.block_symbols(bytes, sbn);
        let latency = self.decode.latency(symbols, self.scenario.protocol.payload());
        let done = if DecodeModel::fails(&mut self.random) {
            WorkDone::NeedMore { session, sbn }
        } else {
            WorkDone::Finished { session, sbn }
        };
        Some((latency, done))
    }

    fn on_refused(
        &mut self,
        _now: Time,
        _host: HostId,
        error: <A::Endpoint as Endpoint>::CommandError,
    ) {
        // A cancelled session may have ended by itself at that moment; others must open.
        self.refused.get_or_insert_with(|| A::describe(&error));
    }
}
