//! Small networks for closed forms.

use super::graph::{Graph, Link, NodeId};
use wellspring_core::{Duration, Rate};

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
