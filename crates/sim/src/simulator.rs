//! The main loop, and the hosts.

use crate::application::{Actions, Application};
use crate::counters::{Counters, Imbalance, PortCounters};
use crate::event_list::EventList;
use crate::faults::Fault;
use crate::network::{LossRule, Network};
use crate::parcel::WireModel;
use crate::topology::{EgressId, Graph, NodeId};
use wellspring_core::{
    Destination, Duration, Endpoint, Frame, HostId, Seed, Time, Verdict, WorkDone,
};
use wellspring_fabric::{Handle, PortConfig, Spraying};

const NEVER: u64 = u64::MAX;
/// How often a host whose links are all down, and who has something due, is asked: 1 ms \[ps\].
const OFFLINE_POLL: u64 = 1_000_000_000;

/// How a network behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// The queues of every switch port.
    pub port: PortConfig,
    /// How switches choose among equal paths.
    pub spraying: Spraying,
    /// How groups' packets travel.
    pub multicast: Multicast,
    /// Lengths on the wire.
    pub wire: WireModel,
    /// Seed of everything random in the network.
    pub seed: Seed,
    /// Events of one instant in a random order instead of that of scheduling.
    pub shuffle_ties: Option<u32>,
    /// How long routing takes to notice a failure or repair. Until then packets are sent into
    /// what is down, and lost.
    pub convergence: Duration,
    /// Failures and repairs.
    pub faults: Vec<(Time, Fault)>,
    /// Random loss on every hop, for tests of endpoints.
    pub loss: Option<LossRule>,
}

impl Config {
    /// That port on every switch; packets sprayed at random; nothing fails.
    pub fn new(port: PortConfig, seed: Seed) -> Self {
        Config {
            port,
            spraying: Spraying::Random,
            multicast: Multicast::Sprayed,
            wire: WireModel::default(),
            seed,
            shuffle_ties: None,
            convergence: Duration::ZERO,
            faults: Vec::new(),
            loss: None,
        }
    }
}

/// How the packets of a multicast group travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Multicast {
    /// Each packet along one of several trees of shortest paths, which together take every equal
    /// path: chosen as [`Config::spraying`] chooses for other packets (SCDP §IV-B: packets are
    /// sprayed, in one-to-many sessions to several destinations).
    Sprayed,
    /// All along one tree (the SCDP authors' published models).
    OneTree,
}

/// Why [`Simulator::run_until`] came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The time is up, or the events asked for are done; more wait.
    Paused,
    /// Nothing is left to happen.
    Idle,
    /// The application stopped the run.
    Stopped,
}

/// Where a tap sees a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapPoint {
    /// A host begins to send it.
    Sent(HostId),
    /// A host has received it.
    Received(HostId),
}

type Tap<H> = Box<dyn FnMut(Time, TapPoint, &Frame<H>) + Send>;

struct Host<E: Endpoint> {
    endpoint: E,
    /// When this host is to be woken.
    wake_at: u64,
    /// Times of this host's pending events, earliest last. A new one is pushed only if it comes
    /// before all others, so there are few, and none is ever searched for or cancelled.
    pending: Vec<u64>,
    first_nic: u32,
    nics: u32,
    next_nic: u32,
    /// A frame of a host with several links: those that lead to its destination were busy.
    held: Option<Box<Frame<E::Header>>>,
}

impl<E: Endpoint> Host<E> {
    /// Sees to it that an event is pending at or before `wake_at`.
    #[inline]
    fn expect(&mut self, target: u32, events: &mut EventList) {
        if self.wake_at < self.pending.last().copied().unwrap_or(NEVER) {
            self.pending.push(self.wake_at);
            events.push(self.wake_at, target);
        }
    }
}

/// Something rare that is to happen.
#[derive(Clone, Copy, Debug)]
enum Special {
    Alarm,
    Work(HostId, WorkDone),
    Fault(Fault),
    Reroute,
}

/// A network of hosts that run one protocol.
pub struct Simulator<E: Endpoint, A> {
    now: u64,
    events: EventList,
    network: Network<E::Header>,
    hosts: Vec<Host<E>>,
    application: A,
    actions: Actions<E::Command>,
    wire: WireModel,
    convergence: Duration,
    specials: Vec<Special>,
    free_specials: Vec<u32>,
    alarm_at: u64,
    stopped: bool,
    tap: Option<Tap<E::Header>>,
}

impl<E: Endpoint, A: Application<E>> Simulator<E, A> {
    /// A network at time zero; `endpoint` makes each host's.
    pub fn new(
        graph: &Graph,
        config: &Config,
        mut endpoint: impl FnMut(HostId) -> E,
        application: A,
    ) -> Self {
        let network = Network::new(graph, config);
        let hosts = (0..graph.hosts()).map(|host| {
            let first_nic = network.first[host as usize];
            Host {
                endpoint: endpoint(HostId(host)),
                wake_at: NEVER,
                pending: Vec::new(),
                first_nic,
                nics: network.first[host as usize + 1] - first_nic,
                next_nic: 0,
                held: None,
            }
        });
        let hosts = hosts.collect();
        let mut simulator = Simulator {
            now: 0,
            events: EventList::new(config.shuffle_ties),
            network,
            hosts,
            application,
            actions: Actions::new(),
            wire: config.wire,
            convergence: config.convergence,
            specials: Vec::new(),
            free_specials: Vec::new(),
            alarm_at: NEVER,
            stopped: false,
            tap: None,
        };
        for (at, fault) in &config.faults {
            simulator.schedule(at.as_picos(), Special::Fault(*fault));
        }
        simulator.application.on_start(&mut simulator.actions);
        simulator.act();
        simulator
    }

    /// Shows every frame to `tap` as it leaves and reaches hosts.
    pub fn set_tap(&mut self, tap: impl FnMut(Time, TapPoint, &Frame<E::Header>) + Send + 'static) {
        self.tap = Some(Box::new(tap));
    }

    /// Runs up to and including `limit`, or for about `max_events` events.
    pub fn run_until(&mut self, limit: Time, max_events: u64) -> Status {
        let limit = limit.as_picos();
        let last_event = self.network.counters.events.saturating_add(max_events);
        while !self.stopped {
            if self.network.counters.events >= last_event {
                return Status::Paused;
            }
            let Some((time, target)) = self.events.pop_until(limit) else {
                if self.events.len() == 0 {
                    return Status::Idle;
                }
                self.now = limit;
                return Status::Paused;
            };
            debug_assert!(time >= self.now, "time goes forward");
            self.touch();
            self.now = time;
            self.network.counters.events += 1;
            let links = self.network.egresses.len() as u32;
            if target < links {
                self.arrive(target);
            } else if let Some(host) = self.hosts.get_mut((target - links) as usize) {
                host.pending.pop();
                if host.wake_at <= time {
                    host.wake_at = NEVER;
                    self.wake(target - links);
                } else {
                    host.expect(target, &mut self.events);
                }
            } else {
                self.special(target - links - self.hosts.len() as u32);
            }
        }
        Status::Stopped
    }

    /// The time of the last event, or the limit last run up to.
    pub fn now(&self) -> Time {
        Time::from_picos(self.now)
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        Counters { peak_pending: self.events.peak() as u64, ..self.network.counters }
    }

    /// Events that wait.
    pub fn pending_events(&self) -> usize {
        self.events.len()
    }

    /// The ports of a node, in the order of its links.
    pub fn ports(&self, node: NodeId) -> impl Iterator<Item = EgressId> + use<E, A> {
        (self.network.first[node.0 as usize]..self.network.first[node.0 as usize + 1]).map(EgressId)
    }

    /// Whether no path is too long for routing: one of more than 253 hops is not taken.
    pub fn paths_fit(&self) -> bool {
        self.network.paths_fit()
    }

    /// The node a port's link leads to.
    pub fn peer(&self, port: EgressId) -> NodeId {
        NodeId(self.network.egresses[port.0 as usize].to)
    }

    /// What a port has sent, cut and dropped.
    pub fn port_counters(&self, port: EgressId) -> PortCounters {
        self.network.port_counters(port.0)
    }

    /// Data packets, data bytes and control packets that wait at a port now.
    pub fn queue_depth(&mut self, port: EgressId) -> (u32, u64, u32) {
        self.network.depth(self.now, port.0)
    }

    /// A host's endpoint.
    pub fn endpoint(&self, host: HostId) -> &E {
        &self.hosts[host.0 as usize].endpoint
    }

    /// The application.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// Ends the run.
    pub fn into_application(self) -> A {
        self.application
    }

    /// Checks that every packet is delivered, dropped, queued or on a link.
    ///
    /// # Errors
    /// The counts, if they do not balance: a bug of the simulator.
    pub fn check_conservation(&self) -> Result<(), Imbalance> {
        let counters = &self.network.counters;
        let balance = Imbalance {
            entered: counters.sent + counters.replicated,
            left: counters.delivered + counters.dropped(),
            live: self.network.frames.live(),
            found: self.network.found(),
        };
        let fits = balance.live == balance.found;
        if fits && balance.entered == balance.left + balance.live { Ok(()) } else { Err(balance) }
    }

    /// Reads what the events of a bucket just opened will need, one after another without waiting:
    /// the processor fetches it all from memory at the same time instead of event by event.
    #[inline]
    fn touch(&mut self) {
        let Some(targets) = self.events.opened() else { return };
        let links = self.network.egresses.len() as u32;
        let mut read = 0;
        for target in targets {
            read ^= match target.checked_sub(links) {
                None => self.network.touch(target),
                Some(host) => self.hosts.get(host as usize).map_or(0, |host| host.wake_at as u32),
            };
        }
        core::hint::black_box(read);
    }

    #[inline]
    fn arrive(&mut self, egress: u32) {
        let Some((node, handle)) = self.network.arrival(self.now, egress, &mut self.events) else {
            return;
        };
        if (node as usize) < self.hosts.len() {
            self.deliver(node, handle);
        } else {
            self.network.forward(self.now, node, handle, &mut self.events);
        }
    }

    fn deliver(&mut self, host: u32, handle: Handle) {
        let now = Time::from_picos(self.now);
        let parcel = self.network.pool.remove(handle);
        let frame = self.network.frames.take(parcel);
        let counters = &mut self.network.counters;
        counters.delivered += 1;
        let ends = (u64::from(host) << 32) | u64::from(frame.session.0);
        let lens = (u64::from(frame.payload_len) << 1) | u64::from(frame.trimmed);
        counters.fold([self.now ^ (lens << 40), ends]);
        if let Some(tap) = &mut self.tap {
            tap(now, TapPoint::Received(HostId(host)), &frame);
        }
        let verdict = self.hosts[host as usize].endpoint.handle_frame(now, &frame);
        match verdict {
            Verdict::Drop(_) => self.network.counters.refused += 1,
            Verdict::Keep(_) => self.application.on_kept(now, frame.session),
            Verdict::Consumed => {}
        }
        self.drain(host, false);
        self.act();
    }

    fn wake(&mut self, host: u32) {
        let now = Time::from_picos(self.now);
        let endpoint = &mut self.hosts[host as usize].endpoint;
        if endpoint.poll_timeout().is_some_and(|due| due <= now) {
            endpoint.handle_timeout(now);
        }
        self.drain(host, true);
        self.act();
    }

    /// Drains an endpoint after an input, in the order of its contract. `woken` says that the
    /// input was a call at its own deadline.
    #[inline]
    fn drain(&mut self, index: u32, woken: bool) {
        let now = Time::from_picos(self.now);
        let id = HostId(index);
        while let Some(work) = self.hosts[index as usize].endpoint.poll_work() {
            if let Some((takes, done)) = self.application.on_work(now, id, work) {
                self.schedule(self.after(takes), Special::Work(id, done));
            }
        }
        while let Some(event) = self.hosts[index as usize].endpoint.poll_event() {
            self.application.on_event(now, id, event, &mut self.actions);
        }
        let free = self.transmit(index);
        let host = &mut self.hosts[index as usize];
        let due = match host.endpoint.poll_timeout().map(Time::as_picos) {
            // Its time has come, and it has been told already: it waits for the interface.
            Some(due) if woken && due <= self.now => match free {
                NEVER => self.now + OFFLINE_POLL,
                free => free,
            },
            Some(due) => due.max(self.now),
            None => NEVER,
        };
        host.wake_at = due.min(free);
        host.expect(self.network.egresses.len() as u32 + index, &mut self.events);
    }

    fn after(&self, span: Duration) -> u64 {
        self.now.saturating_add(span.as_picos())
    }

    /// A host's link that is idle, taking turns, among those that lead to `destination`; or when
    /// the first of them is, `NEVER` if none is up.
    #[inline]
    fn idle_nic(&self, host: &Host<E>, destination: Option<Destination>) -> Result<u32, u64> {
        let mut free = NEVER;
        for turn in 0..host.nics {
            let mut nic = host.next_nic + turn;
            if nic >= host.nics {
                nic -= host.nics;
            }
            let number = host.first_nic + nic;
            let egress = &self.network.egresses[number as usize];
            if !egress.is_up() || destination.is_some_and(|to| !self.network.leads(number, to)) {
                continue;
            }
            if egress.busy_until() <= self.now {
                return Ok(nic);
            }
            free = free.min(egress.busy_until());
        }
        Err(free)
    }

    /// Sends while an interface is idle; tells when one falls free, if there may be more to send.
    #[inline]
    fn transmit(&mut self, index: u32) -> u64 {
        let now = Time::from_picos(self.now);
        loop {
            let mut nic = match self.idle_nic(&self.hosts[index as usize], None) {
                Ok(nic) => nic,
                Err(free) => return free,
            };
            let host = &mut self.hosts[index as usize];
            let held = host.held.take().map(|frame| *frame);
            let Some(frame) = held.or_else(|| host.endpoint.poll_transmit(now)) else {
                return NEVER;
            };
            if host.nics > 1 {
                match self.idle_nic(&self.hosts[index as usize], Some(frame.destination)) {
                    Ok(leading) => nic = leading,
                    // No link leads there: the first switch counts it as unroutable.
                    Err(NEVER) => {}
                    Err(free) => {
                        self.hosts[index as usize].held = Some(Box::new(frame));
                        return free;
                    }
                }
            }
            let host = &mut self.hosts[index as usize];
            host.next_nic = if nic + 1 == host.nics { 0 } else { nic + 1 };
            let egress = host.first_nic + nic;
            if let Some(tap) = &mut self.tap {
                tap(now, TapPoint::Sent(HostId(index)), &frame);
            }
            let parcel = self.network.frames.insert(frame, self.wire);
            let counters = &mut self.network.counters;
            counters.peak_packets = counters.peak_packets.max(self.network.frames.live());
            self.network.send(self.now, (index, egress), parcel, &mut self.events);
        }
    }

    /// Does what the application asked for, which may make it ask for more.
    #[inline]
    fn act(&mut self) {
        while !(self.actions.commands.is_empty() && self.actions.groups.is_empty()) {
            for (group, tree) in core::mem::take(&mut self.actions.groups) {
                match tree {
                    Some((source, members)) => {
                        let members = members.into_iter().map(|member| member.0).collect();
                        self.network.create_group(group.0, source.0, members);
                    }
                    None => self.network.remove_group(group.0),
                }
            }
            for (host, command) in core::mem::take(&mut self.actions.commands) {
                let now = Time::from_picos(self.now);
                let endpoint = &mut self.hosts[host.0 as usize].endpoint;
                if let Err(error) = endpoint.handle_command(now, command) {
                    self.application.on_refused(now, host, error);
                }
                self.drain(host.0, false);
            }
        }
        if let Some(at) = self.actions.alarm.take() {
            self.alarm_at = at.as_picos().max(self.now);
            self.schedule(self.alarm_at, Special::Alarm);
        }
        self.stopped |= self.actions.stop;
    }

    fn schedule(&mut self, at: u64, special: Special) {
        let slot = match self.free_specials.pop() {
            Some(slot) => {
                self.specials[slot as usize] = special;
                slot
            }
            None => {
                self.specials.push(special);
                (self.specials.len() - 1) as u32
            }
        };
        let base = (self.network.egresses.len() + self.hosts.len()) as u32;
        self.events.push(at, base + slot);
    }

    fn special(&mut self, slot: u32) {
        self.free_specials.push(slot);
        let now = Time::from_picos(self.now);
        match self.specials[slot as usize] {
            Special::Alarm => {
                if self.alarm_at == self.now {
                    self.alarm_at = NEVER;
                    self.application.on_alarm(now, &mut self.actions);
                    self.act();
                }
            }
            Special::Work(host, done) => {
                self.hosts[host.0 as usize].endpoint.handle_work_done(now, done);
                self.drain(host.0, false);
                self.act();
            }
            Special::Fault(fault) => {
                self.fail(fault);
                self.schedule(self.after(self.convergence), Special::Reroute);
            }
            Special::Reroute => {
                self.network.reroute();
                // Hosts whose link came back may have something to send.
                for host in 0..self.hosts.len() as u32 {
                    self.drain(host, false);
                }
                self.act();
            }
        }
    }

    fn fail(&mut self, fault: Fault) {
        let between = |network: &Network<E::Header>, a: NodeId, b: NodeId| {
            let mut links = network.egresses_between(a.0, b.0);
            links.extend(network.egresses_between(b.0, a.0));
            links
        };
        let around = |network: &Network<E::Header>, node: NodeId| -> Vec<u32> {
            let own = network.first[node.0 as usize]..network.first[node.0 as usize + 1];
            let towards = (0..network.egresses.len() as u32)
                .filter(|egress| network.egresses[*egress as usize].to == node.0);
            own.chain(towards).collect()
        };
        let (links, down) = match fault {
            Fault::LinkDown(a, b) => (between(&self.network, a, b), true),
            Fault::LinkUp(a, b) => (between(&self.network, a, b), false),
            Fault::NodeDown(node) => (around(&self.network, node), true),
            Fault::NodeUp(node) => (around(&self.network, node), false),
        };
        for egress in links {
            self.network.set_down(egress, down);
        }
    }
}
