//! A small network in virtual time: every host hangs on one switch by a link of its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt::Debug;

use wellspring_core::{
    Destination, Duration, Ecn, Endpoint, Frame, GroupId, HostId, RandomStream, Seed, SessionId,
    Time, Verdict, Work,
};

use crate::{Checked, HostConfig, Payloads};

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Nothing is in flight and no deadline is set.
    Quiet,
    /// The time given is up.
    TimeUp,
}

#[derive(Debug)]
struct Host<E: Endpoint> {
    endpoint: Checked<E>,
    config: HostConfig,
    uplink_free: Time,
    /// The switch port towards this host: control first, then payload.
    control: VecDeque<Frame<E::Header>>,
    data: VecDeque<Frame<E::Header>>,
    port_busy: bool,
    alive: bool,
    /// While it has no processor: what its socket holds, and at most.
    stalled: Option<(usize, VecDeque<Frame<E::Header>>)>,
    /// What waits while it is late.
    waiting: Vec<Frame<E::Header>>,
    wake: Option<Time>,
}

#[derive(Debug)]
enum Action<H> {
    /// A frame reaches the switch port of a host.
    AtPort(HostId, Frame<H>),
    /// The port has sent a frame.
    PortFree(HostId),
    /// A frame reaches a host.
    Deliver(HostId, Frame<H>),
    /// A host takes what has reached it.
    TakeAll(HostId),
    /// A host's uplink is free again, or its deadline has come.
    Wake(HostId),
    Done(HostId, Work, u32),
}

/// The network.
#[derive(Debug)]
pub struct Network<E: Endpoint> {
    now: Time,
    hosts: Vec<Host<E>>,
    groups: BTreeMap<GroupId, Vec<HostId>>,
    /// By picoseconds since the start, which unlike [`Time`] never come round.
    events: BinaryHeap<Reverse<(u128, u64)>>,
    /// Picoseconds from the start to `now`.
    elapsed: u128,
    actions: BTreeMap<u64, Action<E::Header>>,
    sequence: u64,
    rng: RandomStream,
    /// What hosts keep.
    pub payloads: Payloads,
    /// Source symbols K of a block, for finishing it.
    source_symbols: fn(&E, SessionId, u32) -> u32,
    /// Events of the endpoints, in order.
    pub log: Vec<(Time, HostId, E::Event)>,
    /// Frames with payload sent, by host (copies made by multicast count once).
    pub sent: BTreeMap<HostId, u64>,
    /// Frames that arrived, by verdict of the endpoint.
    pub dropped: BTreeMap<wellspring_core::DropReason, u64>,
}

impl<E: Endpoint<Event: Debug, CommandError: Debug>> Network<E> {
    /// A network of hosts 0, 1, ... with these endpoints. `start` is the time it begins at.
    pub fn new(
        seed: Seed,
        start: Time,
        hosts: impl IntoIterator<Item = (E, HostConfig)>,
        source_symbols: fn(&E, SessionId, u32) -> u32,
    ) -> Self {
        let hosts = hosts
            .into_iter()
            .map(|(endpoint, config)| Host {
                endpoint: Checked::new(endpoint),
                config,
                uplink_free: start,
                control: VecDeque::new(),
                data: VecDeque::new(),
                port_busy: false,
                alive: true,
                stalled: None,
                waiting: Vec::new(),
                wake: None,
            })
            .collect();
        Network {
            now: start,
            hosts,
            groups: BTreeMap::new(),
            events: BinaryHeap::new(),
            elapsed: 0,
            actions: BTreeMap::new(),
            sequence: 0,
            rng: seed.stream("testkit network"),
            payloads: Payloads::default(),
            source_symbols,
            log: Vec::new(),
            sent: BTreeMap::new(),
            dropped: BTreeMap::new(),
        }
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// An endpoint.
    pub fn endpoint(&self, host: HostId) -> &E {
        self.hosts[host.0 as usize].endpoint.inner()
    }

    /// Changes a host's link.
    pub fn config_mut(&mut self, host: HostId) -> &mut HostConfig {
        &mut self.hosts[host.0 as usize].config
    }

    /// Names the members of a group.
    pub fn set_group(&mut self, group: GroupId, members: Vec<HostId>) {
        self.groups.insert(group, members);
    }

    /// Gives a host a command.
    ///
    /// # Panics
    /// If the endpoint refuses it.
    pub fn command(&mut self, host: HostId, command: E::Command) {
        let now = self.now;
        let endpoint = &mut self.hosts[host.0 as usize].endpoint;
        endpoint.handle_command(now, command).expect("the command fits");
        self.drain(host);
    }

    /// Gives a host a command that it may refuse; whether it took it.
    pub fn try_command(&mut self, host: HostId, command: E::Command) -> bool {
        let now = self.now;
        let taken = self.hosts[host.0 as usize].endpoint.handle_command(now, command).is_ok();
        self.drain(host);
        taken
    }

    /// Hands a host a frame out of nowhere.
    pub fn inject(&mut self, host: HostId, frame: Frame<E::Header>) {
        self.deliver(host, &frame);
    }

    /// Cuts a host off, or lets it back (it keeps its state).
    pub fn set_alive(&mut self, host: HostId, alive: bool) {
        self.hosts[host.0 as usize].alive = alive;
        self.drain(host);
    }

    /// Takes a host's processor away, or gives it back: meanwhile what arrives waits in its socket, up to so many
    /// frames, and the rest is lost.
    pub fn set_stalled(&mut self, host: HostId, socket: Option<usize>) {
        let state = &mut self.hosts[host.0 as usize];
        let waiting =
            std::mem::replace(&mut state.stalled, socket.map(|most| (most, VecDeque::new())));
        for frame in waiting.into_iter().flat_map(|(_, frames)| frames) {
            self.deliver(host, &frame);
        }
        self.drain(host);
    }

    /// Runs until nothing is left to happen, or for `span`.
    pub fn run(&mut self, span: Duration) -> Stop {
        let end = self.elapsed + u128::from(span.as_picos());
        while let Some(&Reverse((at, sequence))) = self.events.peek() {
            if at > end {
                self.advance_to(end);
                return Stop::TimeUp;
            }
            self.events.pop();
            self.advance_to(at);
            let action = self.actions.remove(&sequence).expect("every event has an action");
            self.act(action);
        }
        Stop::Quiet
    }

    fn advance_to(&mut self, elapsed: u128) {
        let picos = self.now.as_picos().wrapping_add((elapsed - self.elapsed) as u64);
        self.now = Time::from_picos(picos);
        self.elapsed = elapsed;
    }

    fn schedule(&mut self, at: Time, action: Action<E::Header>) {
        self.sequence += 1;
        let at = self.elapsed + u128::from(at.since(self.now).as_picos());
        self.events.push(Reverse((at, self.sequence)));
        self.actions.insert(self.sequence, action);
    }

    fn act(&mut self, action: Action<E::Header>) {
        match action {
            Action::AtPort(host, frame) => self.at_port(host, frame),
            Action::PortFree(host) => {
                self.hosts[host.0 as usize].port_busy = false;
                self.serve_port(host);
            }
            Action::Deliver(host, frame) => self.arrive(host, frame),
            Action::TakeAll(host) => {
                let frames = std::mem::take(&mut self.hosts[host.0 as usize].waiting);
                frames.iter().for_each(|frame| self.take(host, frame));
                self.drain(host);
            }
            Action::Wake(host) => {
                let now = self.now;
                let state = &mut self.hosts[host.0 as usize];
                if state.wake.is_some_and(|at| now.has_reached(at)) {
                    state.wake = None;
                }
                if state.alive
                    && state.stalled.is_none()
                    && state.endpoint.poll_timeout().is_some_and(|at| now.has_reached(at))
                {
                    state.endpoint.handle_timeout(now);
                }
                self.drain(host);
            }
            Action::Done(host, work, life) => {
                let Work::Finish { session, sbn, .. } = work;
                let state = &mut self.hosts[host.0 as usize];
                let k = (self.source_symbols)(state.endpoint.inner(), session, sbn);
                if k > 0 && life == self.payloads.life(host, session) {
                    let done = self.payloads.finish(host, work, k, &mut self.rng);
                    state.endpoint.handle_work_done(self.now, done);
                    self.drain(host);
                }
            }
        }
    }

    /// A frame arrives at the switch port towards `host`: queue it, trim it or drop it.
    fn at_port(&mut self, host: HostId, mut frame: Frame<E::Header>) {
        let state = &mut self.hosts[host.0 as usize];
        if frame.class == 0 {
            state.control.push_back(frame);
        } else if state.data.len() < state.config.queue {
            let long = state.data.len() * 2 > state.config.queue;
            if state.config.marks && frame.ecn == Ecn::Capable && long {
                frame.ecn = Ecn::Marked;
            }
            state.data.push_back(frame);
        } else if state.config.trims {
            state.control.push_back(frame.trim());
        }
        self.serve_port(host);
    }

    fn serve_port(&mut self, host: HostId) {
        let state = &mut self.hosts[host.0 as usize];
        if state.port_busy {
            return;
        }
        let Some(frame) = state.control.pop_front().or_else(|| state.data.pop_front()) else {
            return;
        };
        state.port_busy = true;
        let sent = self.now + state.config.rate.time_for(u64::from(frame.transport_len()) + 20);
        let arrival = sent + state.config.delay;
        self.schedule(sent, Action::PortFree(host));
        self.schedule(arrival, Action::Deliver(host, frame));
    }

    /// Sends a frame towards the port of `host`, through the faults on the way.
    fn travel(&mut self, host: HostId, mut frame: Frame<E::Header>, sent: Time) {
        let config = self.hosts[host.0 as usize].config;
        let faults = config.faults;
        if self.rng.chance(faults.loss) {
            return;
        }
        if frame.payload_len > 0 && self.rng.chance(faults.trim) {
            frame = frame.trim();
        }
        if frame.ecn == Ecn::Capable && self.rng.chance(faults.mark) {
            frame.ecn = Ecn::Marked;
        }
        let copies = 1 + u32::from(self.rng.chance(faults.duplicate));
        for _ in 0..copies {
            let mut at = sent;
            if self.rng.chance(faults.reorder) {
                let by = self.rng.below(faults.reorder_by.as_picos().max(1));
                at = at + Duration::from_picos(by);
            }
            self.schedule(at, Action::AtPort(host, frame));
        }
    }

    /// A frame has reached a host: it is handed over with others, or at once.
    fn arrive(&mut self, host: HostId, frame: Frame<E::Header>) {
        let state = &mut self.hosts[host.0 as usize];
        let most = state.config.late;
        if most == Duration::ZERO {
            return self.deliver(host, &frame);
        }
        state.waiting.push(frame);
        if state.waiting.len() == 1 {
            let part = self.rng.unit().powi(4);
            let at = self.now + Duration::from_picos((most.as_picos() as f64 * part) as u64);
            self.schedule(at, Action::TakeAll(host));
        }
    }

    fn deliver(&mut self, host: HostId, frame: &Frame<E::Header>) {
        self.take(host, frame);
        self.drain(host);
    }

    fn take(&mut self, host: HostId, frame: &Frame<E::Header>) {
        let state = &mut self.hosts[host.0 as usize];
        if !state.alive {
            return;
        }
        if let Some((most, waiting)) = &mut state.stalled {
            if waiting.len() < *most {
                waiting.push_back(*frame);
            }
            return;
        }
        match state.endpoint.handle_frame(self.now, frame) {
            Verdict::Keep(identity) => self.payloads.keep(host, identity),
            Verdict::Drop(reason) => *self.dropped.entry(reason).or_default() += 1,
            Verdict::Consumed => {}
        }
    }

    /// Drains a host's outputs as the contract says, frames only while its uplink is free.
    fn drain(&mut self, host: HostId) {
        let now = self.now;
        loop {
            let state = &mut self.hosts[host.0 as usize];
            if let Some(work) = state.endpoint.poll_work() {
                let at = now + state.config.work;
                let Work::Finish { session, .. } = work;
                let life = self.payloads.life(host, session);
                self.schedule(at, Action::Done(host, work, life));
            } else if let Some(event) = state.endpoint.poll_event() {
                self.log.push((now, host, event));
            } else {
                break;
            }
        }
        let state = &mut self.hosts[host.0 as usize];
        let endpoint = state.endpoint.inner();
        let knows = |session, sbn| (self.source_symbols)(endpoint, session, sbn) > 0;
        self.payloads.forget_ended(host, knows);
        if !state.alive || state.stalled.is_some() {
            return;
        }
        if now.has_reached(state.uplink_free)
            && let Some(frame) = state.endpoint.poll_transmit(now)
        {
            self.send(host, frame);
        }
        self.plan_wake(host);
    }

    fn send(&mut self, host: HostId, frame: Frame<E::Header>) {
        let state = &mut self.hosts[host.0 as usize];
        let sent = self.now + state.config.rate.time_for(u64::from(frame.transport_len()) + 20);
        state.uplink_free = sent;
        let at_switch = sent + state.config.delay;
        if frame.payload_len > 0 {
            *self.sent.entry(host).or_default() += 1;
        }
        match frame.destination {
            Destination::Host(to) => {
                assert!((to.0 as usize) < self.hosts.len(), "a frame to nowhere: {frame:?}");
                self.travel(to, frame, at_switch);
            }
            Destination::Group(group) => {
                for to in self.groups.get(&group).cloned().unwrap_or_default() {
                    self.travel(to, frame, at_switch);
                }
            }
        }
        self.schedule(sent, Action::Wake(host));
    }

    /// One wake-up a host: its deadline.
    fn plan_wake(&mut self, host: HostId) {
        let now = self.now;
        let state = &mut self.hosts[host.0 as usize];
        let Some(deadline) = state.endpoint.poll_timeout() else { return };
        let at = deadline.later_of(now);
        if state.wake.is_none_or(|planned| at.is_before(planned))
            && (at.is_after(now) || now.has_reached(state.uplink_free))
        {
            // At `now` itself only if something can be done about it.
            let at = if at == now { now + Duration::from_picos(1) } else { at };
            state.wake = Some(at);
            self.schedule(at, Action::Wake(host));
        }
    }
}
