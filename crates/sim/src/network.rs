//! Ports, links and the switches between them.

use crate::counters::{Counters, PortCounters};
use crate::event_list::EventList;
use crate::parcel::{Frames, Parcel};
use crate::routing::{NextHops, Routing};
use crate::simulator::{Config, Multicast};
use crate::topology::{Directed, Graph};
use std::collections::BTreeMap;
use wellspring_core::{Destination, Header, RandomStream, Rate};
use wellspring_fabric::{
    Fifo, FlowKey, Handle, Packet, Pool, Port, PortConfig, Replication, Spraying,
};

/// A port and the link behind it. What every packet touches lies in the first cache line; the
/// queues follow, the shorter a queue's number the nearer.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Egress {
    /// When the last packet started has left \[ps\].
    busy_until: u64,
    /// Picoseconds a byte, times 2^32, rounded up.
    scale: u64,
    delay: u64,
    sent_packets: u64,
    sent_bytes: u64,
    pub to: u32,
    /// Packets on the link by time of arrival. While this is not empty, an event is pending for
    /// the first; while packets are queued, it is not empty.
    in_flight: Fifo,
    /// Reasons why it is down; 0 is up.
    down: u32,
    port: Port,
}

// A port's first word tells whether anything waits.
const _: () = assert!(core::mem::offset_of!(Egress, port) == 60);

impl Egress {
    fn new(directed: &Directed, seed: u32) -> Self {
        Egress {
            busy_until: 0,
            scale: scale(directed.rate),
            delay: directed.delay.as_picos(),
            sent_packets: 0,
            sent_bytes: 0,
            to: directed.to.0,
            in_flight: Fifo::EMPTY,
            down: 0,
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
    fn start(&mut self, pool: &mut Pool<Parcel>, at: u64, handle: Handle) -> bool {
        let parcel = &mut pool[handle];
        let len = parcel.wire_len();
        let time = (u128::from(len) * u128::from(self.scale) + 0xffff_ffff) >> 32;
        self.busy_until = at + time as u64;
        self.sent_packets += 1;
        self.sent_bytes += u64::from(len);
        parcel.arrives = self.busy_until + self.delay;
        let first = self.in_flight.is_empty();
        self.in_flight.push_back(pool, handle);
        first
    }

    /// Works out, in arrears, which packets left the queue up to now: how many.
    #[inline]
    fn catch_up(&mut self, pool: &mut Pool<Parcel>, now: u64, config: &PortConfig) -> u64 {
        let mut started = 0;
        while self.busy_until <= now && !self.port.is_empty() {
            let Some(handle) = self.port.dequeue(config, pool) else { break };
            self.start(pool, self.busy_until, handle);
            started += 1;
        }
        started
    }
}

/// A multicast group.
#[derive(Clone, Debug)]
struct Group {
    source: u32,
    members: Vec<u32>,
    /// Switches that hold branches of its trees.
    switches: Vec<u32>,
    /// Links of the source from which most members are reached.
    nics: Vec<u32>,
}

/// One of a group's trees, as switches know it.
fn tree_id(group: u32, tree: u16) -> u64 {
    (u64::from(group) << 16) | u64::from(tree)
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

    fn replicate(&mut self, now: u64, switch: u32, handle: Handle, events: &mut EventList) {
        let parcel = &self.pool[handle];
        let Destination::Group(group) = parcel.destination() else { return };
        let tree = tree_id(group.0, parcel.key.label);
        let branches = self.replication[(switch - self.hosts) as usize].branches(tree);
        let Some((&last, others)) = branches.split_last() else {
            self.counters.dropped_unroutable += 1;
            return self.release(handle);
        };
        let others = others.to_vec();
        if !others.is_empty() {
            self.pool[handle] = Frames::<H>::shared(self.pool[handle]);
        }
        for egress in others {
            let copy = self.frames.replicate(self.pool[handle]);
            let copy = self.pool.insert(copy);
            self.counters.replicated += 1;
            self.enqueue(now, egress, copy, events);
        }
        self.enqueue(now, last, handle, events);
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

    pub fn create_group(&mut self, group: u32, source: u32, members: Vec<u32>) {
        let (switches, nics) = (Vec::new(), Vec::new());
        self.groups.insert(group, Group { source, members, switches, nics });
        self.plant_trees(group);
    }

    pub fn remove_group(&mut self, group: u32) {
        self.cut_trees(group);
        self.groups.remove(&group);
    }

    /// The links of a node.
    fn links(&self, node: u32) -> core::ops::Range<u32> {
        self.first[node as usize]..self.first[node as usize + 1]
    }

    /// What switches know a tree by: every link of its source has its own, because one tree
    /// planted from two ends would lead packets twice to the same place, or round in circles.
    fn tree_label(&self, tree: u16, source: u32, egress: u32) -> u16 {
        let links = self.links(source);
        tree.wrapping_mul(links.len() as u16).wrapping_add((egress - links.start) as u16)
    }

    fn cut_trees(&mut self, group: u32) {
        let Some(Group { source, switches, .. }) = self.groups.get_mut(&group) else { return };
        let (source, switches) = (*source, core::mem::take(switches));
        let labels = self.trees.saturating_mul(self.links(source).len() as u16);
        for switch in switches {
            for label in 0..labels {
                self.replication[switch as usize].remove(tree_id(group, label));
            }
        }
    }

    fn plant_trees(&mut self, group: u32) {
        self.cut_trees(group);
        let Some(Group { source, members, .. }) = self.groups.get(&group).cloned() else { return };
        let (mut switches, mut nics, mut most) = (Vec::new(), Vec::new(), 1);
        for nic in self.links(source) {
            if !self.egresses[nic as usize].is_up() {
                continue;
            }
            let mut reached = 0;
            for tree in 0..self.trees {
                let label = tree_id(group, self.tree_label(tree, source, nic));
                let (branches, members) = self.tree_branches((group, tree), source, nic, &members);
                for (switch, egress) in branches {
                    let switch = switch - self.hosts;
                    self.replication[switch as usize].add_branch(label, egress);
                    switches.push(switch);
                }
                reached = members;
            }
            if reached > most {
                (most, nics) = (reached, Vec::new());
            }
            if reached == most {
                nics.push(nic);
            }
        }
        switches.sort_unstable();
        switches.dedup();
        if let Some(entry) = self.groups.get_mut(&group) {
            (entry.switches, entry.nics) = (switches, nics);
        }
    }

    /// Shortest paths from one link of the source to all members that choose alike at every
    /// switch, so that they part late; and how many members they reach.
    fn tree_branches(
        &mut self,
        (group, tree): (u32, u16),
        source: u32,
        nic: u32,
        members: &[u32],
    ) -> (Vec<(u32, u32)>, usize) {
        // The only tree is by chance another for each group; several take the paths in turn.
        let flow = FlowKey::hash_flow(source, group, 0);
        let rule = if self.trees == 1 { Spraying::Flow } else { Spraying::Label };
        let key = FlowKey { flow, label: tree };
        let (mut branches, mut reached) = (Vec::new(), 0);
        let spraying = core::mem::replace(&mut self.spraying, rule);
        for &member in members.iter().filter(|member| **member != source) {
            let mut node = self.egresses[nic as usize].to;
            while node >= self.hosts {
                let Some(egress) = self.next_egress(node, member, key) else { break };
                branches.push((node, egress));
                node = self.egresses[egress as usize].to;
            }
            reached += usize::from(node == member);
        }
        self.spraying = spraying;
        (branches, reached)
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
