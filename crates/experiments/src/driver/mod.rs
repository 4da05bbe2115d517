//! The application behind all hosts: opens sessions as requests come, keeps account of them.

mod start;

use crate::adapter::{ActionsOf, Adapter, Leg, News};
use crate::code_needs::CodeNeeds;
use crate::decode::DecodeModel;
use crate::record::{Arrival, FlowRecord, Reason, Timeout};
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

/// The most requests under way at once: as many as a network may have hosts.
const MAX_OPEN: u32 = 1 << 20;
/// The most timeouts that are kept.
const MAX_TIMEOUTS: usize = 1 << 20;
/// Arrivals are looked at anew after this part of the patience: an arrival costs nothing before.
const NEWS_IN_PATIENCE: u64 = 1_024;

/// A request under way.
#[derive(Debug)]
struct Operation {
    record: FlowRecord,
    /// Receivers that do not have everything yet.
    pending: u32,
    /// All receivers.
    receivers: u32,
    /// What has arrived of it, as far as is told before its end \[bytes\].
    arrived: u64,
    /// Rest of a daisy chain: hosts still to be reached.
    chain: Vec<u32>,
    endless: Endless,
    /// Whether its protocol is the TCP beside the scenario's.
    beside: bool,
}

impl Operation {
    /// What is to arrive, at all receivers \[bytes\].
    fn expected(&self) -> u64 {
        self.record.bytes.saturating_mul(self.receivers.into())
    }

    fn fail(&mut self, reason: Reason) {
        self.record.failed = true;
        self.record.reason.get_or_insert(reason);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Endless {
    No,
    /// Renewed when complete; ends with the run.
    Flow,
    /// Storage requests one after another.
    Storage,
    /// Renewed when complete, and cancelled at that time.
    Timed(Time),
}

impl Endless {
    fn is_background(self) -> bool {
        matches!(self, Endless::Flow | Endless::Storage)
    }
}

/// A session of the protocol.
#[derive(Debug)]
struct Session {
    operation: u32,
    leg: Leg,
    group: bool,
    /// Senders that have not given up.
    senders: u32,
    /// Receivers that have neither everything nor failed.
    receivers: Vec<u32>,
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
    /// Requests of the foreground made so far, where there is a TCP beside the protocol.
    made: u32,
    decode: DecodeModel,
    /// What LTTP's decoder is at, if that is the protocol.
    code_needs: Option<CodeNeeds>,
    random: RandomStream,
    /// When the round under way began: the first, or the only one, behind the warm-up.
    round_start: Time,
    /// Whether all its requests are made, and another round follows.
    round_made: bool,
    /// Requests still to finish, those not made yet included.
    pub outstanding: u32,
    /// All requests of the foreground.
    pub total: u32,
    /// Finished requests, in the order they finished.
    pub records: Vec<FlowRecord>,
    /// What arrived of timed flows.
    pub timeline: Vec<Arrival>,
    /// Retransmission timeouts of the foreground, by time; no more than a million of them.
    pub timeouts: Vec<Timeout>,
    /// When a request last had news, the background not counted.
    news_at: Time,
    /// Requests under way.
    open_requests: u32,
    /// Why an endpoint refused a command, or the run another request: a scenario that asks for
    /// the impossible.
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
            made: 0,
            decode: DecodeModel::new(&scenario.protocol),
            code_needs: CodeNeeds::new(&scenario.protocol, seed),
            random: seed.stream("driver"),
            round_start: Time::ZERO
                + if idle { Duration::ZERO } else { scenario.background.warmup.0 },
            round_made: false,
            records: Vec::new(),
            timeline: Vec::new(),
            timeouts: Vec::new(),
            news_at: Time::ZERO,
            open_requests: 0,
            refused: None,
        }
    }

    /// Requests of the foreground under way that are to end, and the first of their sessions.
    fn under_way(&self) -> impl Iterator<Item = (SessionId, &Operation)> {
        let mut sessions: BTreeMap<u32, SessionId> = BTreeMap::new();
        for (session, entry) in &self.sessions {
            sessions.entry(entry.operation).or_insert(*session);
        }
        sessions.into_iter().filter_map(|(place, session)| {
            let operation = self.operations[place as usize].as_ref()?;
            (operation.endless == Endless::No).then_some((session, operation))
        })
    }

    /// How much of the requests under way has arrived, in requests.
    pub fn parts(&self) -> f64 {
        let open = self.operations.iter().flatten().filter(|o| o.endless == Endless::No);
        open.map(|o| (o.arrived as f64 / o.expected().max(1) as f64).min(1.0)).sum()
    }

    /// Requests under way, oldest first and a line each, for whoever finds the run stuck; and the
    /// session and both ends of the oldest.
    pub fn stuck(&self) -> (Vec<String>, Option<(SessionId, [u32; 2])>) {
        let mut open: Vec<_> = self.under_way().collect();
        open.sort_by(|(_, a), (_, b)| a.record.start.total_cmp(&b.record.start));
        let line = |(session, operation): &(SessionId, &Operation)| {
            let FlowRecord { kind, host, peer, start, .. } = &operation.record;
            let (all, arrived) = (operation.expected(), operation.arrived);
            format!(
                "{kind} {host} - {peer}, session {}, since {start:.6} s: {} of {all} bytes left, at {} \
                 of {} receivers",
                session.0,
                all.saturating_sub(arrived),
                operation.pending,
                operation.receivers,
            )
        };
        let ends = open.first().map(|(session, o)| (*session, [o.record.host, o.record.peer]));
        (open.iter().map(line).collect(), ends)
    }

    /// Until when the requests under way, or the next where there are none, may be silent before
    /// they count as stuck; `None` if there is no next.
    pub fn patient_until(&self) -> Option<Time> {
        let patience = self.scenario.run.patience.0;
        let waits = || self.agenda.keys().next().map(|due| due.0);
        let since = if self.open_requests > 0 { Some(self.news_at) } else { waits() };
        since.map(|since| since + patience + patience / NEWS_IN_PATIENCE)
    }

    /// Requests not made yet.
    pub fn not_made(&self) -> u32 {
        self.outstanding - self.open_requests
    }

    /// Moves what still runs into the records: endless flows end now, requests for `reason`.
    pub fn close(&mut self, now: Time, reason: Reason) {
        for operation in self.operations.iter_mut().filter_map(Option::take) {
            let mut record = operation.record;
            match operation.endless {
                Endless::No => record.reason = record.reason.or(Some(reason)),
                _ => record.end = Some(now.as_secs_f64()),
            }
            self.records.push(record);
        }
    }

    fn schedule(&mut self, at: Time, due: Due) {
        self.agenda_sequence += 1;
        self.agenda.insert((at, self.agenda_sequence), due);
    }

    fn schedule_next(&mut self) {
        match self.requests.next() {
            Some((at, request)) => {
                self.schedule(self.round_start + at, Due::Next(request));
            }
            None if self.requests.has_round() => self.round_made = true,
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
                Due::Next(_) if self.open_requests >= MAX_OPEN => {
                    let why = format!(
                        "{MAX_OPEN} requests are under way at once, the most that a run may hold: \
                         choose a lower workload.lambda, or fewer of them"
                    );
                    self.refused.get_or_insert(why);
                    actions.stop();
                }
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

    /// Begins the next round once nothing of the last is under way.
    fn begin_round(&mut self, now: Time, actions: &mut ActionsOf<A>) {
        if self.round_made && self.open_requests == 0 {
            (self.round_made, self.round_start) = (false, now);
            self.requests.next_round();
            self.schedule_next();
            self.run_agenda(now, actions);
        }
    }

    fn open(&mut self, mut record: FlowRecord, pending: u32, endless: Endless) -> u32 {
        self.open_requests += u32::from(!endless.is_background());
        let beside = !endless.is_background() && self.takes_tcp_beside();
        if let (true, Some(tcp)) = (beside, &self.scenario.beside) {
            record.protocol = tcp.protocol.name;
        }
        let (receivers, arrived, chain) = (pending, 0, Vec::new());
        let operation = Operation { record, pending, receivers, arrived, chain, endless, beside };
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

    /// Whether the request that is made now is one of those over the TCP beside the scenario's
    /// protocol: they are spread evenly among all.
    fn takes_tcp_beside(&mut self) -> bool {
        let Some(beside) = &self.scenario.beside else { return false };
        let before = (f64::from(self.made) * beside.share).floor();
        self.made += 1;
        (f64::from(self.made) * beside.share).floor() > before
    }

    fn cancel(&mut self, now: Time, session: SessionId, actions: &mut ActionsOf<A>) {
        let Some(entry) = self.sessions.remove(&session) else { return };
        self.adapter.cancel(entry.leg, actions);
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

    fn on_news(
        &mut self,
        now: Time,
        host: u32,
        (id, news): (SessionId, News),
        actions: &mut ActionsOf<A>,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let (place, to) = (session.operation, session.leg.to);
        let Some(operation) = &mut self.operations[place as usize] else { return };
        if !operation.endless.is_background() {
            self.news_at = now;
        }
        match news {
            News::Accepted => {
                if !operation.chain.is_empty() {
                    let next = operation.chain.remove(0);
                    let bytes = operation.record.bytes;
                    self.unicast(place, (to, next), bytes, actions);
                }
            }
            News::Progress(bytes) => {
                operation.arrived = operation.arrived.saturating_add(bytes);
                let measured = now.as_secs_f64() >= operation.record.start;
                match operation.endless {
                    Endless::Flow | Endless::Timed(_) if measured => {
                        operation.record.bytes += bytes
                    }
                    _ => {}
                }
                if let Endless::Timed(_) = operation.endless {
                    let protocol = operation.record.protocol;
                    let (session, at) = (id.0, now.as_secs_f64());
                    self.timeline.push(Arrival { session, protocol, at, bytes });
                }
            }
            News::TimedOut { window, in_flight } => {
                let at = now.as_secs_f64();
                if self.timeouts.len() < MAX_TIMEOUTS {
                    self.timeouts.push(Timeout { at, session: id.0, window, in_flight });
                }
            }
            News::Received(account) => {
                let sum = &mut operation.record.account;
                sum.trimmed += account.trimmed;
                sum.needless += account.needless;
                sum.decoded_blocks += account.decoded_blocks;
                self.settle(now, id, &[host], actions);
            }
            News::Failed(reason) if session.receivers.contains(&host) => {
                operation.fail(reason);
                self.settle(now, id, &[host], actions);
            }
            News::Failed(reason) => {
                // A receiver goes on with the other senders.
                session.senders = session.senders.saturating_sub(1);
                if session.senders == 0 {
                    operation.fail(reason);
                    let receivers = session.receivers.clone();
                    self.settle(now, id, &receivers, actions);
                }
            }
            News::Lost(receiver, reason) => {
                // A sender alone tells the same of itself.
                if session.group && session.receivers.contains(&receiver.0) {
                    operation.fail(reason);
                    self.settle(now, id, &[receiver.0], actions);
                }
            }
        }
    }

    /// Receivers of a session are done (or lost).
    fn settle(&mut self, now: Time, id: SessionId, receivers: &[u32], actions: &mut ActionsOf<A>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let before = session.receivers.len();
        session.receivers.retain(|receiver| !receivers.contains(receiver));
        let settled = (before - session.receivers.len()) as u32;
        let (place, group) = (session.operation, session.group);
        if session.receivers.is_empty() {
            self.sessions.remove(&id);
            if group {
                actions.remove_group(GroupId(id.0 & 0x7fff_ffff));
            }
        }
        let Some(operation) = &mut self.operations[place as usize] else { return };
        operation.pending = operation.pending.saturating_sub(settled);
        if operation.pending > 0 {
            return;
        }
        match operation.endless {
            Endless::No => self.finish(now, place),
            Endless::Timed(_) if operation.record.failed => self.finish(now, place),
            Endless::Timed(end) => {
                let (from, to) = (operation.record.host, operation.record.peer);
                operation.pending = 1;
                let session = self.unicast(place, (from, to), ENDLESS, actions);
                self.schedule(end, Due::Cancel(session));
            }
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
        host: HostId,
        event: <A::Endpoint as Endpoint>::Event,
        actions: &mut ActionsOf<A>,
    ) {
        if let Some(news) = self.adapter.news(event) {
            self.on_news(now, host.0, news, actions);
            self.begin_round(now, actions);
            if self.outstanding == 0 {
                actions.stop();
            }
        }
    }

    fn on_kept(&mut self, now: Time, session: SessionId) {
        let grain = self.scenario.run.patience.0 / NEWS_IN_PATIENCE;
        if now.since(self.news_at) <= grain {
            return;
        }
        let place = self.sessions.get(&session).map(|session| session.operation as usize);
        let operation = place.and_then(|place| self.operations[place].as_ref());
        if operation.is_some_and(|operation| !operation.endless.is_background()) {
            self.news_at = now;
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
        if let Some(needs) = &mut self.code_needs {
            return Some(match needs.attempt(session, sbn, symbols) {
                true => (latency, WorkDone::Finished { session, sbn }),
                // The decoder works on what comes as it comes: only its last step is waited for.
                false => (Duration::ZERO, WorkDone::NeedMore { session, sbn }),
            });
        }
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
        self.refused.get_or_insert_with(|| format!("an endpoint refused a command: {error}"));
    }
}
