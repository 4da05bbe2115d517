//! Ports, links and switches: forwarding of packets from host to host.

mod egress;
mod multicast;

use crate::config::{Config, Multicast};
use crate::counters::{Counters, PortCounters};
use crate::event_list::EventList;
use crate::parcel::{Frames, Parcel};
use crate::routing::{NextHops, Routing};
use crate::topology::Graph;
use egress::Egress;
use multicast::Group;
use std::collections::BTreeMap;
use wellspring_core::{Destination, Header, RandomStream};
use wellspring_fabric::{FlowKey, Handle, Packet, Pool, PortConfig, Replication, Spraying};

/// Loses packets at random on every link, for tests of endpoints.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LossRule {
    /// Probability that a packet with payload is lost on a hop.
    pub data: f64,
    /// Probability that a packet without payload is lost on a hop.
    pub control: f64,
}

/// All ports, links and switches, and the packets in them.
#[derive(Debug)]
pub(crate) struct Network<H> {
    hosts: u32,
    config: PortConfig,
    spraying: Spraying,
    /// Trees a group and link of its source.
    trees: u16,
    /// First egress of each node, and one past the last.
    pub first: Vec<u32>,
    pub egresses: Vec<Egress>,
    rare: Vec<PortCounters>,
    routing: Routing,
    replication: Vec<Replication>,
    groups: BTreeMap<u32, Group>,
    pub frames: Frames<H>,
    /// All packets in queues and on links.
    pub pool: Pool<Parcel>,
    pub counters: Counters,
    random: RandomStream,
    loss: Option<(LossRule, RandomStream)>,
}

impl<H: Header> Network<H> {
    pub fn new(graph: &Graph, config: &Config) -> Self {
        let seed = config.seed;
        let (first, directed) = graph.directed();
        let to: Vec<_> = directed.iter().map(|d| d.to.0).collect();
        let mut coins = seed.stream("port coins");
        let egresses: Vec<_> =
            directed.iter().map(|d| Egress::new(d, coins.next_u64() as u32)).collect();
        Network {
            hosts: graph.hosts(),
            config: config.port,
            spraying: config.spraying,
            trees: match config.multicast {
                Multicast::OneTree => 1,
                Multicast::Sprayed => {
                    graph.fat_tree.map_or(16, |tree| tree.paths().min(256)) as u16
                }
            },
            routing: Routing::new(graph, &first, &to),
            rare: vec![PortCounters::default(); egresses.len()],
            egresses,
            first,
            replication: vec![Replication::new(); graph.switches() as usize],
            groups: BTreeMap::new(),
            frames: Frames::new(),
            pool: Pool::new(),
            counters: Counters::default(),
            random: seed.stream("spraying"),
            loss: config.loss.map(|rule| (rule, seed.stream("loss"))),
        }
    }

    /// Puts a packet of `host` on a link of its, which is idle.
    pub fn send(
        &mut self,
        now: u64,
        (host, egress): (u32, u32),
        mut parcel: Parcel,
        events: &mut EventList,
    ) {
        if parcel.host().is_none() {
            let (spraying, trees) = (self.spraying, self.trees.into());
            let tree = spraying.choose(parcel.key, egress, trees, 1, &mut self.random);
            parcel.key.label = self.tree_label(tree as u16, host, egress);
        }
        self.counters.sent += 1;
        self.counters.packet_hops += 1;
        let this = &mut self.egresses[egress as usize];
        debug_assert!(this.busy_until <= now && this.port.is_empty());
        let handle = self.pool.insert(parcel);
        if this.start(&mut self.pool, now, handle) {
            events.push(this.busy_until + this.delay, egress);
        }
    }

    /// Whether a host's link leads to where a packet is to go.
    pub fn leads(&self, egress: u32, destination: Destination) -> bool {
        match destination {
            Destination::Host(host) => {
                self.routing.leads(self.egresses[egress as usize].to, host.0)
            }
            Destination::Group(group) => {
                self.groups.get(&group.0).is_some_and(|group| group.nics.contains(&egress))
            }
        }
    }

    /// Whether no path is too long for the routing tables.
    pub fn paths_fit(&self) -> bool {
        self.routing.longest() <= Routing::LONGEST
    }

    /// Reads the packet that arrives next, and its frame if a host gets it.
    #[inline]
    pub fn touch(&self, egress: u32) -> u32 {
        let this = &self.egresses[egress as usize];
        match this.in_flight.front().map(|handle| self.pool[handle]) {
            Some(parcel) if this.to < self.hosts => self.frames.touch(parcel),
            Some(parcel) => u32::from(parcel.key.label),
            None => 0,
        }
    }

    /// The packet that now reaches the other end of a link, if the event is not stale, and the
    /// node there.
    #[inline]
    pub fn arrival(
        &mut self,
        now: u64,
        egress: u32,
        events: &mut EventList,
    ) -> Option<(u32, Handle)> {
        let this = &mut self.egresses[egress as usize];
        if self.pool[this.in_flight.front()?].arrives != now {
            return None;
        }
        let handle = this.in_flight.pop_front(&self.pool)?;
        self.counters.packet_hops += this.catch_up(&mut self.pool, now, &self.config);
        if let Some(next) = this.in_flight.front() {
            events.push(self.pool[next].arrives, egress);
        }
        let to = this.to;
        if self.loss.is_some() && self.is_lost(handle) {
            self.counters.dropped_by_rule += 1;
            self.release(handle);
            return None;
        }
        // Hosts do not forward for others.
        if to < self.hosts && self.pool[handle].host().is_some_and(|host| host != to) {
            self.counters.dropped_unroutable += 1;
            self.release(handle);
            return None;
        }
        Some((to, handle))
    }

    /// Takes a packet out of the network unseen.
    fn release(&mut self, handle: Handle) {
        let parcel = self.pool.remove(handle);
        self.frames.release(parcel);
    }

    fn is_lost(&mut self, handle: Handle) -> bool {
        let Some((rule, random)) = &mut self.loss else { return false };
        random.chance(if self.pool[handle].trimmable() { rule.data } else { rule.control })
    }

    /// A switch passes a packet on.
    #[inline]
    pub fn forward(&mut self, now: u64, switch: u32, handle: Handle, events: &mut EventList) {
        let parcel = &self.pool[handle];
        let Some(host) = parcel.host() else {
            return self.replicate(now, switch, handle, events);
        };
        match self.next_egress(switch, host, parcel.key) {
            Some(egress) => self.enqueue(now, egress, handle, events),
            None => {
                self.counters.dropped_unroutable += 1;
                self.release(handle);
            }
        }
    }

    #[inline]
    fn next_egress(&mut self, switch: u32, host: u32, key: FlowKey) -> Option<u32> {
        match self.routing.next_hops(switch, host) {
            NextHops::One(egress) => Some(egress),
            NextHops::Range { first, count, stride } => {
                let random = &mut self.random;
                Some(first + self.spraying.choose(key, switch, count, stride, random))
            }
            NextHops::Nearer { count: 0, .. } | NextHops::Unreachable => None,
            NextHops::Nearer { count, stride } => {
                let random = &mut self.random;
                let index = self.spraying.choose(key, switch, count, stride, random);
                self.routing.nearer_hop(switch, host, index)
            }
        }
    }

    #[inline]
    fn enqueue(&mut self, now: u64, egress: u32, handle: Handle, events: &mut EventList) {
        let this = &mut self.egresses[egress as usize];
        if this.down != 0 {
            return self.lose(egress, handle);
        }
        self.counters.packet_hops += this.catch_up(&mut self.pool, now, &self.config);
        if this.busy_until <= now {
            // Idle, and so empty after catching up.
            self.counters.packet_hops += 1;
            if this.start(&mut self.pool, now, handle) {
                events.push(this.busy_until + this.delay, egress);
            }
            return;
        }
        let admission = this.port.enqueue(&self.config, &mut self.pool, handle);
        if admission.trimmed || admission.marked || admission.dropped.is_some() {
            let rare = &mut self.rare[egress as usize];
            rare.trimmed += u64::from(admission.trimmed);
            rare.marked += u64::from(admission.marked);
            self.counters.trimmed += u64::from(admission.trimmed);
            self.counters.marked += u64::from(admission.marked);
            if let Some(dropped) = admission.dropped {
                rare.dropped += 1;
                self.counters.dropped_full += 1;
                self.release(dropped);
            }
        }
    }

    fn lose(&mut self, egress: u32, handle: Handle) {
        self.rare[egress as usize].dropped += 1;
        self.counters.dropped_down += 1;
        self.release(handle);
    }

    /// The egresses from `node` to `to`.
    pub fn egresses_between(&self, node: u32, to: u32) -> Vec<u32> {
        self.links(node).filter(|egress| self.egresses[*egress as usize].to == to).collect()
    }

    /// Takes an egress down (once more) or up again (once).
    pub fn set_down(&mut self, egress: u32, down: bool) {
        let this = &mut self.egresses[egress as usize];
        if !down {
            this.down = this.down.saturating_sub(1);
            return;
        }
        this.down += 1;
        let mut lost = Vec::new();
        while let Some(handle) = this.in_flight.pop_front(&self.pool) {
            lost.push(handle);
        }
        while let Some(handle) = this.port.dequeue(&self.config, &self.pool) {
            lost.push(handle);
        }
        for handle in lost {
            self.lose(egress, handle);
        }
    }

    /// Routes, and multicast trees, avoid what is down from now on.
    pub fn reroute(&mut self) {
        let egresses = &self.egresses;
        self.routing.recompute(&|egress| egresses[egress as usize].down == 0);
        let groups: Vec<_> = self.groups.keys().copied().collect();
        for group in groups {
            self.plant_trees(group);
        }
    }

    /// The links of a node.
    fn links(&self, node: u32) -> core::ops::Range<u32> {
        self.first[node as usize]..self.first[node as usize + 1]
    }

    /// Data packets and bytes, and control packets, that wait at a port now.
    pub fn depth(&mut self, now: u64, egress: u32) -> (u32, u64, u32) {
        let this = &mut self.egresses[egress as usize];
        self.counters.packet_hops += this.catch_up(&mut self.pool, now, &self.config);
        (this.port.data_packets(), this.port.data_bytes(), this.port.control_packets())
    }

    pub fn port_counters(&self, egress: u32) -> PortCounters {
        let this = &self.egresses[egress as usize];
        PortCounters {
            packets: this.sent_packets,
            bytes: this.sent_bytes,
            ..self.rare[egress as usize]
        }
    }

    /// Packets in queues and on links.
    pub fn found(&self) -> u64 {
        self.egresses.iter().map(|e| u64::from(e.port.len() + e.in_flight.len())).sum()
    }
}
