//! Main loop of the simulator.

mod host;
mod look;
mod rare_events;
mod state;

use crate::application::{Actions, Application};
use crate::config::Config;
use crate::event_list::EventList;
use crate::network::Network;
use crate::topology::Graph;
pub use look::OnLink;
use state::{Host, NEVER, RareEvent};
pub use state::{Simulator, TapPoint};
use wellspring_core::{Endpoint, HostId, Time};

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
            let nics = network.links.of(host);
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
            rare_events: Vec::new(),
            free_rare_events: Vec::new(),
            alarm_at: NEVER,
            stopped: false,
            tap: None,
        };
        for (at, fault) in &config.faults {
            simulator.schedule(at.as_picos(), RareEvent::Fault(*fault));
        }
        simulator.application.on_start(&mut simulator.actions);
        simulator.act();
        simulator
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
            let links = self.network.links.egresses.len() as u32;
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
                self.rare_event(target - links - self.hosts.len() as u32);
            }
        }
        Status::Stopped
    }

    /// Reads what the events of a bucket just opened will need, one after another without waiting:
    /// the processor fetches it all from memory at the same time instead of event by event.
    #[inline]
    fn touch(&mut self) {
        let Some(targets) = self.events.opened() else { return };
        let links = self.network.links.egresses.len() as u32;
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
}
