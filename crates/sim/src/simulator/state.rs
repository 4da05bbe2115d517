//! State of a simulation, and what can be asked of it.

use crate::application::Actions;
use crate::counters::{Counters, Imbalance, PortCounters};
use crate::event_list::EventList;
use crate::faults::Fault;
use crate::network::Network;
use crate::parcel::WireModel;
use crate::topology::{EgressId, NodeId};
use core::ops::Range;
use wellspring_core::{Duration, Endpoint, Frame, HostId, Time, WorkDone};

/// A time that does not come \[ps\].
pub(super) const NEVER: u64 = u64::MAX;

/// Where a tap sees a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapPoint {
    /// A host begins to send it.
    Sent(HostId),
    /// A host has received it.
    Received(HostId),
}

type Tap<H> = Box<dyn FnMut(Time, TapPoint, &Frame<H>) + Send>;

/// A rare event.
#[derive(Clone, Copy, Debug)]
pub(super) enum RareEvent {
    Alarm,
    Work(HostId, WorkDone),
    Fault(Fault),
    Reroute,
}

/// A host: its endpoint, its links, and when it is to be woken.
pub(super) struct Host<E: Endpoint> {
    pub(super) endpoint: E,
    /// When this host is to be woken.
    pub(super) wake_at: u64,
    /// Times of this host's pending events, earliest last. A new one is pushed only if it comes
    /// before all others, so there are few, and none is ever searched for or cancelled.
    pub(super) pending: Vec<u64>,
    pub(super) first_nic: u32,
    pub(super) nics: u32,
    pub(super) next_nic: u32,
    /// A frame of a host with several links: those that lead to its destination were busy.
    pub(super) held: Option<Box<Frame<E::Header>>>,
}

impl<E: Endpoint> Host<E> {
    /// A host with those links.
    pub(super) fn new(endpoint: E, nics: Range<u32>) -> Self {
        Host {
            endpoint,
            wake_at: NEVER,
            pending: Vec::new(),
            first_nic: nics.start,
            nics: nics.end - nics.start,
            next_nic: 0,
            held: None,
        }
    }

    /// Makes sure that an event is pending at or before `wake_at`.
    #[inline]
    pub(super) fn expect(&mut self, target: u32, events: &mut EventList) {
        if self.wake_at < self.pending.last().copied().unwrap_or(NEVER) {
            self.pending.push(self.wake_at);
            events.push(self.wake_at, target);
        }
    }
}

/// A network of hosts that run one protocol.
pub struct Simulator<E: Endpoint, A> {
    pub(super) now: u64,
    pub(super) events: EventList,
    pub(super) network: Network<E::Header>,
    pub(super) hosts: Vec<Host<E>>,
    pub(super) application: A,
    pub(super) actions: Actions<E::Command>,
    pub(super) wire: WireModel,
    pub(super) convergence: Duration,
    pub(super) rare_events: Vec<RareEvent>,
    pub(super) free_rare_events: Vec<u32>,
    pub(super) alarm_at: u64,
    pub(super) stopped: bool,
    pub(super) tap: Option<Tap<E::Header>>,
}

impl<E: Endpoint, A> Simulator<E, A> {
    /// Shows every frame to `tap` as it leaves and reaches hosts.
    pub fn set_tap(&mut self, tap: impl FnMut(Time, TapPoint, &Frame<E::Header>) + Send + 'static) {
        self.tap = Some(Box::new(tap));
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
        self.network.links.of(node.0).map(EgressId)
    }

    /// Whether no path is too long for routing: one of more than 253 hops is not taken.
    pub fn paths_fit(&self) -> bool {
        self.network.paths_fit()
    }

    /// The node a port's link leads to.
    pub fn peer(&self, port: EgressId) -> NodeId {
        NodeId(self.network.links.egresses[port.0 as usize].to)
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

    pub(super) fn after(&self, span: Duration) -> u64 {
        self.now.saturating_add(span.as_picos())
    }

    pub(super) fn schedule(&mut self, at: u64, event: RareEvent) {
        let slot = match self.free_rare_events.pop() {
            Some(slot) => {
                self.rare_events[slot as usize] = event;
                slot
            }
            None => {
                self.rare_events.push(event);
                (self.rare_events.len() - 1) as u32
            }
        };
        let base = (self.network.links.egresses.len() + self.hosts.len()) as u32;
        self.events.push(at, base + slot);
    }
}
