//! The application behind all hosts: opens sessions as requests come, keeps account of them.

mod operation;
mod progress;
mod session_events;
mod start;
mod watch;

use crate::adapter::{ActionsOf, Adapter};
use crate::code_needs::CodeNeeds;
use crate::decode::DecodeModel;
use crate::record::{Arrival, FlowRecord, Timeout};
use crate::scenario::Scenario;
use crate::workload::{Population, Request, Requests};
use anyhow::Result;
use operation::{Endless, Operation, Session};
use slab::Slab;
use std::collections::BTreeMap;
use wellspring_core::{
    Duration, Endpoint, HostId, RandomStream, Seed, SessionId, Time, Work, WorkDone,
};
use wellspring_sim::Application;

/// Size of an "endless" flow, which is followed by another: so that no protocol keeps account of
/// more than this \[bytes\].
const ENDLESS: u64 = 2_000_000_000;

/// The most requests under way at once: as many as a network may have hosts.
const MAX_OPEN: u32 = 1 << 20;
/// Arrivals are looked at anew after this part of the patience: an arrival costs nothing before.
const LOOKS_IN_PATIENCE: u64 = 1_024;

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
    /// By picoseconds since the start and the order of scheduling.
    agenda: BTreeMap<(u64, u32), Due>,
    agenda_sequence: u32,
    operations: Slab<Operation>,
    sessions: BTreeMap<SessionId, Session>,
    next_session: u32,
    /// Requests of the foreground made so far.
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
    /// Requests of a trace that start now.
    triggered: Vec<Request>,
    /// When a request last heard anything, the background not counted.
    heard_at: Time,
    /// Requests under way.
    open_requests: u32,
    /// Why an endpoint refused a command, or the run another request: a scenario that asks for
    /// the impossible.
    pub refused: Option<String>,
}

impl<A: Adapter> Driver<A> {
    /// For one run.
    ///
    /// # Errors
    /// Those of [`Requests::new`].
    pub fn new(adapter: A, scenario: &Scenario, hosts: u32, seed: Seed) -> Result<Self> {
        let population = Population::new(scenario, hosts, seed);
        let requests = Requests::new(&scenario.workload, population.clone(), seed)?;
        let idle = population.background.is_empty();
        Ok(Driver {
            adapter,
            scenario: scenario.clone(),
            outstanding: requests.total(),
            total: requests.total(),
            requests,
            population,
            agenda: BTreeMap::new(),
            agenda_sequence: 0,
            operations: Slab::new(),
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
            triggered: Vec::new(),
            heard_at: Time::ZERO,
            open_requests: 0,
            refused: None,
        })
    }

    fn schedule(&mut self, at: Time, due: Due) {
        self.agenda_sequence += 1;
        self.agenda.insert((at.picos_after(Time::ZERO), self.agenda_sequence), due);
    }

    fn schedule_next(&mut self) {
        match self.requests.next() {
            Some((at, request)) => {
                self.schedule(self.round_start + at, Due::Next(request));
            }
            None if self.requests.has_round() => self.round_made = true,
            None if self.requests.awaits() || !self.triggered.is_empty() => {}
            // Fewer than announced: hosts to choose from ran out.
            None => self.outstanding = self.outstanding.min(self.open_requests),
        }
    }

    fn next_due(&self) -> Option<Time> {
        self.agenda.keys().next().map(|(picos, _)| Time::from_picos(*picos))
    }

    fn run_agenda(&mut self, now: Time, actions: &mut ActionsOf<A>) {
        while let Some(entry) = self.agenda.first_entry() {
            if entry.key().0 > now.picos_after(Time::ZERO) {
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
        if let Some(at) = self.next_due() {
            actions.set_alarm(at);
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
        record.beside = !endless.is_background() && self.takes_tcp_beside();
        if let (true, Some(tcp)) = (record.beside, &self.scenario.beside) {
            record.protocol = tcp.protocol.name;
        }
        let operation = Operation {
            record,
            pending,
            receivers: pending,
            arrived: 0,
            chain: Vec::new(),
            unasked: (0, 0),
            endless,
            traced: None,
        };
        self.operations.insert(operation) as u32
    }

    /// Whether the request that is made now is one of those over the TCP beside the scenario's
    /// protocol: they are spread evenly among all.
    fn takes_tcp_beside(&mut self) -> bool {
        let takes = self.beside_among(self.made, 1) > 0;
        self.made += 1;
        takes
    }

    /// How many of the next requests behind `made` others these are.
    fn beside_among(&self, made: u32, next: u32) -> u32 {
        let share = self.scenario.beside.as_ref().map_or(0.0, |beside| beside.share);
        let of = |requests: u32| (f64::from(requests) * share).floor() as u32;
        of(made + next) - of(made)
    }

    fn cancel(&mut self, now: Time, session: SessionId, actions: &mut ActionsOf<A>) {
        let Some(entry) = self.sessions.remove(&session) else { return };
        self.adapter.cancel(entry.leg, actions);
        self.finish(now, entry.operation);
    }

    fn finish(&mut self, now: Time, place: u32) {
        if let Some(mut operation) = self.operations.try_remove(place as usize) {
            operation.record.end = Some(now.as_secs_f64());
            if operation.record.failed && operation.endless == Endless::No {
                operation.record.end = None;
            }
            self.records.push(operation.record);
            self.outstanding -= 1;
            self.open_requests -= 1;
            if let Some(flow) = operation.traced {
                self.triggered.extend(self.requests.triggered(flow));
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
        if let Some(event) = self.adapter.session_event(event) {
            self.on_session_event(now, host.0, event, actions);
            self.begin_round(now, actions);
            for request in core::mem::take(&mut self.triggered) {
                self.start(now, &request, actions);
            }
            if self.outstanding == 0 {
                actions.stop();
            }
        }
    }

    fn on_kept(&mut self, now: Time, session: SessionId) {
        let grain = self.scenario.run.patience.0 / LOOKS_IN_PATIENCE;
        if now.since(self.heard_at) <= grain {
            return;
        }
        let place = self.sessions.get(&session).map(|session| session.operation as usize);
        let operation = place.and_then(|place| self.operations.get(place));
        if operation.is_some_and(|operation| !operation.endless.is_background()) {
            self.heard_at = now;
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
                false => (Duration::ZERO, WorkDone::NeedMore { session, sbn, more: 1 }),
            });
        }
        let done = if DecodeModel::fails(&mut self.random) {
            WorkDone::NeedMore { session, sbn, more: 1 }
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
