//! Networks of regular shape: Fat-Trees, a single switch, a dumbbell.

use super::fat_tree::FatTree;
use super::graph::{Graph, Link, NodeId};
use wellspring_core::{Duration, Rate};

impl FatTree {
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

/// One switch with all hosts on it.
pub fn single_switch(hosts: u32, rate: Rate, delay: Duration) -> Graph {
    let mut graph = Graph::new(hosts, 1);
    for host in 0..hosts {
        let link = Link::new(NodeId(host), graph.switch(0), rate, delay);
        graph.add_link(link);
    }
    graph
}

/// Two switches joined by `bottleneck`, half of the hosts on each: hosts 0 to `pairs` - 1 on the
/// left, the others on the right.
pub fn dumbbell(
    pairs: u32,
    access: Rate,
    access_delay: Duration,
    bottleneck: Rate,
    bottleneck_delay: Duration,
) -> Graph {
    let mut graph = Graph::new(pairs * 2, 2);
    for host in 0..pairs * 2 {
        let side = graph.switch(u32::from(host >= pairs));
        graph.add_link(Link::new(NodeId(host), side, access, access_delay));
    }
    let (left, right) = (graph.switch(0), graph.switch(1));
    graph.add_link(Link::new(left, right, bottleneck, bottleneck_delay));
    graph
}
