//! Main loop of the simulator.

mod host;
mod special;

use crate::application::{Actions, Application};
use crate::config::Config;
use crate::counters::{Counters, Imbalance, PortCounters};
use crate::event_list::EventList;
use crate::network::Network;
use crate::parcel::WireModel;
use crate::topology::{EgressId, Graph, NodeId};
use host::Host;
use special::Special;
use wellspring_core::{Duration, Endpoint, Frame, HostId, Time};

const NEVER: u64 = u64::MAX;

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
            let nics = network.first[host as usize]..network.first[host as usize + 1];
            Host::new(endpoint(HostId(host)), nics)
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
}
