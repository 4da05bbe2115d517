//! Ports, links and the switches between them.

use crate::counters::{Counters, PortCounters};
use crate::event_list::EventList;
use crate::parcel::{Frames, Parcel};
use crate::routing::{NextHops, Routing};
use crate::topology::{Directed, Graph};
use std::collections::{BTreeMap, VecDeque};
use wellspring_core::{Destination, Header, RandomStream, Rate};
use wellspring_fabric::{FlowKey, Packet, Port, PortConfig, Replication, Spraying};

/// A port and the link behind it.
#[derive(Debug)]
pub(crate) struct Egress {
    /// When the last packet started has left \[ps\].
    busy_until: u64,
    /// Picoseconds a byte, times 2^32, rounded up.
    scale: u64,
    delay: u64,
    pub to: u32,
    /// Reasons why it is down; 0 is up.
    down: u32,
    /// Packets on the link by time of arrival \[ps\]. While this is not empty, an event is
    /// pending for the first; while packets are queued, it is not empty.
    in_flight: VecDeque<(u64, Parcel)>,
    sent_packets: u64,
    sent_bytes: u64,
    port: Port<Parcel>,
}

impl Egress {
    fn new(directed: &Directed, seed: u32) -> Self {
        Egress {
            busy_until: 0,
            scale: scale(directed.rate),
            delay: directed.delay.as_picos(),
            to: directed.to.0,
            down: 0,
            in_flight: VecDeque::new(),
            sent_packets: 0,
            sent_bytes: 0,
            port: Port::new(seed),
        }
    }

    pub fn is_up(&self) -> bool {
        self.down == 0
    }

    pub fn busy_until(&self) -> u64 {
        self.busy_until
    }

    /// Starts to send a packet at `at`; true if an event must be scheduled for it.
    #[inline]
    fn start(&mut self, at: u64, parcel: Parcel) -> bool {
        let len = parcel.wire_len();
        let time = (u128::from(len) * u128::from(self.scale) + 0xffff_ffff) >> 32;
        self.busy_until = at + time as u64;
        self.sent_packets += 1;
        self.sent_bytes += u64::from(len);
        let first = self.in_flight.is_empty();
        self.in_flight.push_back((self.busy_until + self.delay, parcel));
        first
    }

    /// Works out, in arrears, which packets left the queue up to now.
    #[inline]
    fn catch_up(&mut self, now: u64, config: &PortConfig) -> u64 {
        let mut started = 0;
        while self.busy_until <= now {
            let Some(parcel) = self.port.dequeue(config) else { break };
            self.start(self.busy_until, parcel);
            started += 1;
        }
        started
    }
}

fn scale(rate: Rate) -> u64 {
    let picos_per_byte = (8_000_000_000_000_u128 << 32).div_ceil(rate.as_bits_per_second().into());
    picos_per_byte.min(u64::MAX.into()) as u64
}

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
    /// First egress of each node, and one past the last.
    pub first: Vec<u32>,
    pub egresses: Vec<Egress>,
    rare: Vec<PortCounters>,
    routing: Routing,
    replication: Vec<Replication>,
    groups: BTreeMap<u32, (u32, Vec<u32>)>,
    pub frames: Frames<H>,
    pub counters: Counters,
    random: RandomStream,
    loss: Option<(LossRule, RandomStream)>,
}

impl<H: Header> Network<H> {
    pub fn new(
        graph: &Graph,
        config: PortConfig,
        spraying: Spraying,
        loss: Option<LossRule>,
        seed: wellspring_core::Seed,
    ) -> Self {
        let (first, directed) = graph.directed();
        let to: Vec<_> = directed.iter().map(|d| d.to.0).collect();
        let mut coins = seed.stream("port coins");
        let egresses: Vec<_> =
            directed.iter().map(|d| Egress::new(d, coins.next_u64() as u32)).collect();
        Network {
            hosts: graph.hosts(),
            config,
            spraying,
            routing: Routing::new(graph, &first, &to),
            rare: vec![PortCounters::default(); egresses.len()],
            egresses,
            first,
            replication: vec![Replication::new(); graph.switches() as usize],
            groups: BTreeMap::new(),
            frames: Frames::new(),
            counters: Counters::default(),
            random: seed.stream("spraying"),
            loss: loss.map(|rule| (rule, seed.stream("loss"))),
        }
    }

    /// Puts a packet on a host's idle link.
    pub fn send(&mut self, now: u64, egress: u32, parcel: Parcel, events: &mut EventList) {
        self.counters.sent += 1;
        self.counters.packet_hops += 1;
        let this = &mut self.egresses[egress as usize];
        debug_assert!(this.busy_until <= now && this.port.is_empty());
        if this.start(now, parcel) {
            events.push(this.busy_until + this.delay, egress);
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
    ) -> Option<(u32, Parcel)> {
        let this = &mut self.egresses[egress as usize];
        let &(at, parcel) = this.in_flight.front()?;
        if at != now {
            return None;
        }
        this.in_flight.pop_front();
        self.counters.packet_hops += this.catch_up(now, &self.config);
        match this.in_flight.front() {
            Some(next) => events.push(next.0, egress),
            // Start at the beginning of the ring again, which is in the cache.
            None => this.in_flight.clear(),
        }
        let to = this.to;
        if self.loss.is_some() && self.is_lost(parcel) {
            self.counters.dropped_by_rule += 1;
            self.frames.release(parcel);
            return None;
        }
        Some((to, parcel))
    }

    fn is_lost(&mut self, parcel: Parcel) -> bool {
        let Some((rule, random)) = &mut self.loss else { return false };
        random.chance(if parcel.trimmable() { rule.data } else { rule.control })
    }

    /// A switch passes a packet on.
    #[inline]
    pub fn forward(&mut self, now: u64, switch: u32, parcel: Parcel, events: &mut EventList) {
        let Some(host) = parcel.host() else {
            return self.replicate(now, switch, parcel, events);
        };
        match self.next_egress(switch, host, parcel.key) {
            Some(egress) => self.enqueue(now, egress, parcel, events),
            None => {
                self.counters.dropped_unroutable += 1;
                self.frames.release(parcel);
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

    fn replicate(&mut self, now: u64, switch: u32, parcel: Parcel, events: &mut EventList) {
        let Destination::Group(group) = parcel.destination() else { return };
        let branches = self.replication[(switch - self.hosts) as usize].branches(group.0);
        let Some((&last, others)) = branches.split_last() else {
            self.counters.dropped_unroutable += 1;
            return self.frames.release(parcel);
        };
        let others = others.to_vec();
        let mut parcel = parcel;
        if !others.is_empty() {
            parcel = Frames::<H>::shared(parcel);
        }
        for egress in others {
            let copy = self.frames.replicate(parcel);
            self.counters.replicated += 1;
            self.enqueue(now, egress, copy, events);
        }
        self.enqueue(now, last, parcel, events);
    }

    #[inline]
    fn enqueue(&mut self, now: u64, egress: u32, parcel: Parcel, events: &mut EventList) {
        let this = &mut self.egresses[egress as usize];
        if this.down != 0 {
            return self.lose(egress, parcel);
        }
        self.counters.packet_hops += this.catch_up(now, &self.config);
        if this.busy_until <= now {
            // Idle, and so empty after catching up.
            self.counters.packet_hops += 1;
            if this.start(now, parcel) {
                events.push(this.busy_until + this.delay, egress);
            }
            return;
        }
        let admission = this.port.enqueue(&self.config, parcel);
        if admission.trimmed || admission.marked || admission.dropped.is_some() {
            let rare = &mut self.rare[egress as usize];
            rare.trimmed += u64::from(admission.trimmed);
            rare.marked += u64::from(admission.marked);
            self.counters.trimmed += u64::from(admission.trimmed);
            self.counters.marked += u64::from(admission.marked);
            if let Some(dropped) = admission.dropped {
                rare.dropped += 1;
                self.counters.dropped_full += 1;
                self.frames.release(dropped);
            }
        }
    }

    fn lose(&mut self, egress: u32, parcel: Parcel) {
        self.rare[egress as usize].dropped += 1;
        self.counters.dropped_down += 1;
        self.frames.release(parcel);
    }

    /// The egresses from `node` to `to`.
    pub fn egresses_between(&self, node: u32, to: u32) -> Vec<u32> {
        (self.first[node as usize]..self.first[node as usize + 1])
            .filter(|egress| self.egresses[*egress as usize].to == to)
            .collect()
    }

    /// Takes an egress down (once more) or up again (once).
    pub fn set_down(&mut self, egress: u32, down: bool) {
        let this = &mut self.egresses[egress as usize];
        if !down {
            this.down = this.down.saturating_sub(1);
            return;
        }
        this.down += 1;
        let lost = core::mem::take(&mut this.in_flight);
        let mut lost: Vec<_> = lost.into_iter().map(|(_, parcel)| parcel).collect();
        lost.extend(core::iter::from_fn(|| this.port.dequeue(&self.config)));
        for parcel in lost {
            self.lose(egress, parcel);
        }
    }

    /// Routes, and multicast trees, avoid what is down from now on.
    pub fn reroute(&mut self) {
        let egresses = &self.egresses;
        self.routing.recompute(&|egress| egresses[egress as usize].down == 0);
        let groups: Vec<_> = self.groups.keys().copied().collect();
        for group in groups {
            self.plant_tree(group);
        }
    }

    pub fn create_group(&mut self, group: u32, source: u32, members: Vec<u32>) {
        self.groups.insert(group, (source, members));
        self.plant_tree(group);
    }

    pub fn remove_group(&mut self, group: u32) {
        if let Some((source, members)) = self.groups.remove(&group) {
            for switch in self.tree_branches(group, source, &members).into_iter().map(|b| b.0) {
                self.replication[(switch - self.hosts) as usize].remove(group);
            }
            // A tree planted before a failure may have had other switches.
            self.replication.iter_mut().for_each(|table| table.remove(group));
        }
    }

    fn plant_tree(&mut self, group: u32) {
        let Some((source, members)) = self.groups.get(&group).cloned() else { return };
        self.replication.iter_mut().for_each(|table| table.remove(group));
        for (switch, egress) in self.tree_branches(group, source, &members) {
            self.replication[(switch - self.hosts) as usize].add_branch(group, egress);
        }
    }

    /// Shortest paths to all members that choose alike at every switch, so that they part late.
    fn tree_branches(&mut self, group: u32, source: u32, members: &[u32]) -> Vec<(u32, u32)> {
        let key = FlowKey { flow: FlowKey::hash_flow(source, group, 0), label: 0 };
        let mut branches = Vec::new();
        let spraying = core::mem::replace(&mut self.spraying, Spraying::Flow);
        let nics = self.first[source as usize]..self.first[source as usize + 1];
        let nic = nics.into_iter().find(|nic| self.egresses[*nic as usize].is_up());
        for &member in members.iter().filter(|member| **member != source) {
            let mut node = nic.map_or(source, |nic| self.egresses[nic as usize].to);
            while node >= self.hosts {
                let Some(egress) = self.next_egress(node, member, key) else { break };
                branches.push((node, egress));
                node = self.egresses[egress as usize].to;
            }
        }
        self.spraying = spraying;
        branches
    }

    /// Data packets and bytes, and control packets, that wait at a port now.
    pub fn depth(&mut self, now: u64, egress: u32) -> (u32, u64, u32) {
        let this = &mut self.egresses[egress as usize];
        self.counters.packet_hops += this.catch_up(now, &self.config);
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
        self.egresses.iter().map(|e| u64::from(e.port.len()) + e.in_flight.len() as u64).sum()
    }
}
