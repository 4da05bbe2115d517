//! Three-tier Fat-Trees.

use super::graph::{Graph, Link, NodeId};
use wellspring_core::{Duration, Rate};

/// The shape of a Fat-Tree: pods of ToR (edge) and aggregation switches, every ToR linked to
/// every aggregation switch of its pod, and core switches, each linked to one aggregation switch
/// of every pod.
///
/// Hosts are numbered through ToRs and pods; switches: ToRs, aggregation switches, cores. Ports:
/// downward first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FatTree {
    /// Pods.
    pub pods: u32,
    /// ToR switches a pod.
    pub tors_per_pod: u32,
    /// Hosts a ToR switch.
    pub hosts_per_tor: u32,
    /// Aggregation switches a pod: uplinks of a ToR.
    pub aggs_per_pod: u32,
    /// Core switches above an aggregation switch: its uplinks.
    pub cores_per_agg: u32,
}

impl FatTree {
    /// The k-ary Fat-Tree: k^3/4 hosts, full bisection bandwidth. `k` counts as even.
    pub const fn k_ary(k: u32) -> Self {
        let half = k / 2;
        FatTree {
            pods: k,
            tors_per_pod: half,
            hosts_per_tor: half,
            aggs_per_pod: half,
            cores_per_agg: half,
        }
    }

    /// The SCDP paper's (§V): 250 servers, 50 ToRs, 50 aggregation and 25 core switches.
    pub const PAPER: FatTree = FatTree::k_ary(10);

    /// Number of hosts.
    pub const fn hosts(&self) -> u32 {
        self.pods * self.tors_per_pod * self.hosts_per_tor
    }

    /// Number of ToR switches.
    pub const fn tors(&self) -> u32 {
        self.pods * self.tors_per_pod
    }

    /// Number of aggregation switches.
    pub const fn aggs(&self) -> u32 {
        self.pods * self.aggs_per_pod
    }

    /// Number of core switches.
    pub const fn cores(&self) -> u32 {
        self.aggs_per_pod * self.cores_per_agg
    }

    /// Equal-cost paths between hosts of different pods.
    pub const fn paths(&self) -> u32 {
        self.cores()
    }

    /// The rack (ToR) of a host.
    pub const fn rack(&self, host: u32) -> u32 {
        host / self.hosts_per_tor
    }

    /// The pod of a host.
    pub const fn pod(&self, host: u32) -> u32 {
        self.rack(host) / self.tors_per_pod
    }

    /// The network, all links alike but those above ToRs, which have their own rate: with a
    /// lower one (or fewer uplinks) the tree is over-subscribed.
    pub fn build(&self, host_rate: Rate, uplink_rate: Rate, delay: Duration) -> Graph {
        let mut graph = Graph::new(self.hosts(), self.tors() + self.aggs() + self.cores());
        let tor = |graph: &Graph, index| graph.switch(index);
        let agg = |graph: &Graph, index: u32| graph.switch(self.tors() + index);
        let core = |graph: &Graph, index: u32| graph.switch(self.tors() + self.aggs() + index);
        let add = |graph: &mut Graph, a, b, rate| {
            graph.add_link(Link::new(a, b, rate, delay));
        };
        for host in 0..self.hosts() {
            let up = tor(&graph, self.rack(host));
            add(&mut graph, NodeId(host), up, host_rate);
        }
        for t in 0..self.tors() {
            for a in 0..self.aggs_per_pod {
                let pod = t / self.tors_per_pod;
                let (low, high) = (tor(&graph, t), agg(&graph, pod * self.aggs_per_pod + a));
                add(&mut graph, low, high, uplink_rate);
            }
        }
        for a in 0..self.aggs() {
            for c in 0..self.cores_per_agg {
                let number = (a % self.aggs_per_pod) * self.cores_per_agg + c;
                let (low, high) = (agg(&graph, a), core(&graph, number));
                add(&mut graph, low, high, uplink_rate);
            }
        }
        graph.fat_tree = Some(*self);
        graph
    }
}
