//! Ports, links and switches: forwarding of packets from host to host.

mod egress;
mod failures;
mod links;
mod multicast;

use crate::config::{Config, LossRule};
use crate::counters::{Counters, PortCounters};
use crate::event_list::EventList;
use crate::faults::Fault;
use crate::parcel::{Frames, Parcel};
use crate::topology::Graph;
use failures::Failures;
pub(crate) use links::Links;
use multicast::Groups;
use wellspring_core::{Destination, Frame, Header, RandomStream};
use wellspring_fabric::{Handle, Packet, Pool, PortConfig, Spraying};

/// All ports, links and switches, and the packets in them.
#[derive(Debug)]
pub(crate) struct Network<H> {
    config: PortConfig,
    spraying: Spraying,
    pub links: Links,
    failures: Failures,
    rare: Vec<PortCounters>,
    groups: Groups,
    pub frames: Frames<H>,
    /// All packets in queues and on links.
    pub pool: Pool<Parcel>,
    pub counters: Counters,
    loss: Option<(LossRule, RandomStream)>,
}

impl<H: Header> Network<H> {
    pub fn new(graph: &Graph, config: &Config) -> Self {
        let seed = config.seed;
        let links = Links::new(graph, seed);
        Network {
            config: config.port,
            spraying: config.spraying,
            rare: vec![PortCounters::default(); links.egresses.len()],
            groups: Groups::new(graph, config.multicast),
            links,
            failures: Failures::default(),
            frames: Frames::new(),
            pool: Pool::new(),
            counters: Counters::default(),
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
            let trees = self.groups.trees().into();
            let random = &mut self.links.random;
            let tree = self.spraying.choose(parcel.key, egress, trees, 1, random);
            parcel.key.label = self.links.tree_label(tree as u16, host, egress);
        }
        self.counters.sent += 1;
        self.counters.packet_hops += 1;
        let this = &mut self.links.egresses[egress as usize];
        debug_assert!(this.busy_until <= now && this.port.is_empty());
        let handle = self.pool.insert(parcel);
        if this.start(&mut self.pool, now, handle) {
            events.push(this.busy_until + this.delay, egress);
        }
    }

    /// Whether a host's link leads to where a packet is to go.
    pub fn leads(&self, egress: u32, destination: Destination) -> bool {
        match destination {
            Destination::Host(host) => self.links.leads(egress, host.0),
            Destination::Group(group) => self.groups.starts_at(group.0, egress),
        }
    }

    /// Whether no path is too long for the routing tables.
    pub fn paths_fit(&self) -> bool {
        self.links.paths_fit()
    }

    /// Reads the packet that arrives next, and its frame if a host gets it.
    #[inline]
    pub fn touch(&self, egress: u32) -> u32 {
        let this = &self.links.egresses[egress as usize];
        match this.in_flight.front().map(|handle| self.pool[handle]) {
            Some(parcel) if this.to < self.links.hosts => self.frames.touch(parcel),
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
        let this = &mut self.links.egresses[egress as usize];
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
        if to < self.links.hosts && self.pool[handle].host().is_some_and(|host| host != to) {
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
        random.chance(if self.pool[handle].has_payload() { rule.data } else { rule.control })
    }

    /// A switch passes a packet on.
    #[inline]
    pub fn forward(&mut self, now: u64, switch: u32, handle: Handle, events: &mut EventList) {
        let parcel = &self.pool[handle];
        let Some(host) = parcel.host() else {
            return self.replicate(now, switch, handle, events);
        };
        match self.links.next_egress(switch, host, parcel.key, self.spraying) {
            Some(egress) => self.enqueue(now, egress, handle, events),
            None => {
                self.counters.dropped_unroutable += 1;
                self.release(handle);
            }
        }
    }

    /// A switch passes a group's packet on: a copy along each branch of its tree.
    fn replicate(&mut self, now: u64, switch: u32, handle: Handle, events: &mut EventList) {
        let branches = self.groups.branches(switch - self.links.hosts, &self.pool[handle]);
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

    pub fn create_group(&mut self, group: u32, source: u32, members: Vec<u32>) {
        self.groups.create(group, source, members, &mut self.links);
    }

    pub fn remove_group(&mut self, group: u32) {
        self.groups.remove(group, &self.links);
    }

    #[inline]
    fn enqueue(&mut self, now: u64, egress: u32, handle: Handle, events: &mut EventList) {
        let this = &mut self.links.egresses[egress as usize];
        if this.is_down {
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

    /// Something fails or is repaired: every egress goes down or up that is to be so from now on.
    pub fn apply(&mut self, fault: Fault) {
        self.failures.note(fault);
        for node in 0..self.links.nodes() {
            for egress in self.links.of(node) {
                let this = &mut self.links.egresses[egress as usize];
                let was_down = this.is_down;
                this.is_down = self.failures.hit(node, this.to);
                if this.is_down && !was_down {
                    self.empty(egress);
                }
            }
        }
    }

    /// Loses the packets at an egress and on its link.
    fn empty(&mut self, egress: u32) {
        let this = &mut self.links.egresses[egress as usize];
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
        self.links.reroute();
        self.groups.replant(&mut self.links);
    }

    /// Works out which packets have left a port up to now.
    pub fn catch_up(&mut self, now: u64, egress: u32) {
        let this = &mut self.links.egresses[egress as usize];
        self.counters.packet_hops += this.catch_up(&mut self.pool, now, &self.config);
    }

    /// The packets on a link, and which part of their way is behind them.
    pub fn on_link(&self, now: u64, egress: u32) -> impl Iterator<Item = (Frame<H>, f32)> {
        let this = &self.links.egresses[egress as usize];
        this.in_flight.iter(&self.pool).map(move |handle| {
            let parcel = self.pool[handle];
            let takes = this.time_on_link(parcel.wire_len()).max(1);
            let left = parcel.arrives.saturating_sub(now).min(takes);
            (self.frames.see(parcel), 1.0 - (left as f64 / takes as f64) as f32)
        })
    }

    /// Data packets and bytes, and control packets, that wait at a port now.
    pub fn depth(&mut self, now: u64, egress: u32) -> (u32, u64, u32) {
        self.catch_up(now, egress);
        let this = &self.links.egresses[egress as usize];
        (this.port.data_packets(), this.port.data_bytes(), this.port.control_packets())
    }

    pub fn port_counters(&self, egress: u32) -> PortCounters {
        let this = &self.links.egresses[egress as usize];
        PortCounters {
            packets: this.sent_packets,
            bytes: this.sent_bytes,
            ..self.rare[egress as usize]
        }
    }

    /// Packets in queues and on links.
    pub fn found(&self) -> u64 {
        self.links.egresses.iter().map(|e| u64::from(e.port.len() + e.in_flight.len())).sum()
    }
}
