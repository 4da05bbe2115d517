//! Links of all nodes, and the routes over them.

use super::egress::Egress;
use crate::routing::{NextHops, Routing};
use crate::topology::Graph;
use core::ops::Range;
use wellspring_core::{RandomStream, Seed};
use wellspring_fabric::{FlowKey, Spraying};

/// All egresses in the order of their nodes, and routing tables.
#[derive(Debug)]
pub(crate) struct Links {
    pub(super) hosts: u32,
    /// First egress of each node, and one past the last.
    first: Vec<u32>,
    pub egresses: Vec<Egress>,
    routing: Routing,
    /// Choices among equal paths.
    pub(super) random: RandomStream,
}

impl Links {
    pub(super) fn new(graph: &Graph, seed: Seed) -> Self {
        let (first, directed) = graph.directed();
        let to: Vec<_> = directed.iter().map(|d| d.to.0).collect();
        let mut coins = seed.stream("port coins");
        let egresses = directed.iter().map(|d| Egress::new(d, coins.next_u64() as u32)).collect();
        Links {
            hosts: graph.hosts(),
            routing: Routing::new(graph, &first, &to),
            egresses,
            first,
            random: seed.stream("spraying"),
        }
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// The egresses of a node.
    pub fn of(&self, node: u32) -> Range<u32> {
        self.first[node as usize]..self.first[node as usize + 1]
    }

    /// The label of a tree in its packets: every link of its source has its own, because one tree
    /// planted from two ends would lead packets twice to the same place, or round in circles.
    pub(super) fn tree_label(&self, tree: u16, source: u32, egress: u32) -> u16 {
        let links = self.of(source);
        tree.wrapping_mul(links.len() as u16).wrapping_add((egress - links.start) as u16)
    }

    /// Whether an egress leads to a host.
    pub(super) fn leads(&self, egress: u32, host: u32) -> bool {
        self.routing.leads(self.egresses[egress as usize].to, host)
    }

    /// Whether no path is too long for the routing tables.
    pub(super) fn paths_fit(&self) -> bool {
        self.routing.longest() <= Routing::LONGEST
    }

    /// Routes avoid links that are down from now on.
    pub(super) fn reroute(&mut self) {
        let egresses = &self.egresses;
        self.routing.recompute(&|egress| egresses[egress as usize].is_up());
    }

    /// The egress of a switch that a packet to `host` leaves by.
    #[inline]
    pub(super) fn next_egress(
        &mut self,
        switch: u32,
        host: u32,
        key: FlowKey,
        spraying: Spraying,
    ) -> Option<u32> {
        match self.routing.next_hops(switch, host) {
            NextHops::One(egress) => Some(egress),
            NextHops::Range { first, count, stride } => {
                let random = &mut self.random;
                Some(first + spraying.choose(key, switch, count, stride, random))
            }
            NextHops::Nearer { count: 0, .. } | NextHops::Unreachable => None,
            NextHops::Nearer { count, stride } => {
                let random = &mut self.random;
                let index = spraying.choose(key, switch, count, stride, random);
                self.routing.nearer_hop(switch, host, index)
            }
        }
    }
}
