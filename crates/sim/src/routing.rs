//! Equal-cost next hops, computed and not stored per path.

use crate::topology::{FatTree, Graph};
use std::collections::{BTreeMap, VecDeque};

/// Next hops as a range of a node's ports, or scattered ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NextHops {
    /// The destination cannot be reached.
    Unreachable,
    /// This egress.
    One(u32),
    /// Any of `count` egresses from `first` on; `stride` is the number of choices already made.
    Range { first: u32, count: u32, stride: u32 },
    /// Any of the `count` egresses that lead nearer; `stride` as before.
    Nearer { count: u32, stride: u32 },
}

const FAR: u8 = u8::MAX;
const NOWHERE: u32 = u32::MAX;

/// Routing by distance tables: works on any graph, with any links down.
///
/// Hosts with the same links share a row, so a row is per rack rather than per host.
#[derive(Debug)]
struct Distances {
    /// Row of each host.
    row: Vec<u32>,
    /// Hops from each node to the hosts of a row, `FAR` if none: row-major.
    hops: Vec<u8>,
}

/// The routes of a network.
#[derive(Debug)]
pub(crate) struct Routing {
    hosts: u32,
    nodes: u32,
    first: Vec<u32>,
    to: Vec<u32>,
    /// As `to`, but `NOWHERE` for egresses that are down.
    usable: Vec<u32>,
    tree: Option<(FatTree, Vec<(u32, u32)>)>,
    distances: Option<Distances>,
}

impl Routing {
    /// The longest path that the tables can hold \[hops\].
    pub const LONGEST: u8 = FAR - 2;

    /// Routes over all links. A Fat-Tree needs no tables as long as nothing fails.
    pub fn new(graph: &Graph, first: &[u32], to: &[u32]) -> Self {
        let tree = graph.fat_tree.map(|tree| {
            let place = (0..tree.hosts()).map(|host| (tree.rack(host), tree.pod(host))).collect();
            (tree, place)
        });
        let mut routing = Routing {
            hosts: graph.hosts(),
            nodes: graph.nodes(),
            first: first.to_vec(),
            to: to.to_vec(),
            usable: to.to_vec(),
            tree,
            distances: None,
        };
        if routing.tree.is_none() {
            routing.recompute(&|_| true);
        }
        routing
    }

    /// Routes anew over the egresses that are up.
    pub fn recompute(&mut self, up: &dyn Fn(u32) -> bool) {
        let usable = |(egress, to): (usize, &u32)| if up(egress as u32) { *to } else { NOWHERE };
        self.usable = self.to.iter().enumerate().map(usable).collect();
        let mut rows: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        let mut row = Vec::with_capacity(self.hosts as usize);
        for host in 0..self.hosts {
            let links = (self.first[host as usize]..self.first[host as usize + 1])
                .map(|egress| self.usable[egress as usize])
                .filter(|to| *to != NOWHERE);
            let next = rows.len() as u32;
            row.push(*rows.entry(links.collect()).or_insert(next));
        }
        let nodes = self.nodes as usize;
        let mut hops = vec![FAR; rows.len() * nodes];
        let incoming = self.incoming();
        let mut queue = VecDeque::new();
        for (attached, index) in &rows {
            let table = &mut hops[*index as usize * nodes..][..nodes];
            for &node in attached {
                table[node as usize] = 1;
                // Hosts do not forward for others.
                if node >= self.hosts {
                    queue.push_back(node);
                }
            }
            while let Some(node) = queue.pop_front() {
                let next = table[node as usize].saturating_add(1).min(FAR - 1);
                for &neighbour in &incoming[node as usize] {
                    if table[neighbour as usize] == FAR {
                        table[neighbour as usize] = next;
                        if neighbour >= self.hosts {
                            queue.push_back(neighbour);
                        }
                    }
                }
            }
        }
        self.distances = Some(Distances { row, hops });
    }

    fn incoming(&self) -> Vec<Vec<u32>> {
        let mut incoming = vec![Vec::new(); self.nodes as usize];
        for node in 0..self.nodes {
            for egress in self.first[node as usize]..self.first[node as usize + 1] {
                if let Some(neighbours) = incoming.get_mut(self.usable[egress as usize] as usize) {
                    neighbours.push(node);
                }
            }
        }
        incoming
    }

    /// Whether a neighbour of a host, switch or host, passes packets on to another host or is it.
    pub fn leads(&self, neighbour: u32, host: u32) -> bool {
        if neighbour < self.hosts {
            return neighbour == host;
        }
        // A Fat-Tree without failures leads everywhere.
        self.distances.as_ref().is_none_or(|Distances { row, hops }| {
            let row = row.get(host as usize).map(|row| *row as usize * self.nodes as usize);
            row.is_some_and(|row| hops[row + neighbour as usize] != FAR)
        })
    }

    /// Hops of the longest shortest path between a host and a switch, as tables know it.
    pub fn longest(&self) -> u8 {
        let hops = self.distances.iter().flat_map(|distances| &distances.hops);
        hops.copied().filter(|hops| *hops != FAR).max().unwrap_or(0)
    }

    /// The next hops from a switch towards a host.
    #[inline]
    pub fn next_hops(&self, switch: u32, host: u32) -> NextHops {
        match (&self.distances, &self.tree) {
            (None, Some((tree, place))) => self.tree_hops(tree, place, switch, host),
            (Some(distances), _) => self.nearer(distances, switch, host),
            (None, None) => NextHops::Unreachable,
        }
    }

    #[inline]
    fn tree_hops(&self, tree: &FatTree, place: &[(u32, u32)], switch: u32, host: u32) -> NextHops {
        let Some(&(rack, pod)) = place.get(host as usize) else { return NextHops::Unreachable };
        let first = self.first[switch as usize];
        let index = switch - self.hosts;
        if index < tree.tors() {
            if index == rack {
                return NextHops::One(first + host - rack * tree.hosts_per_tor);
            }
            let (first, count) = (first + tree.hosts_per_tor, tree.aggs_per_pod);
            return NextHops::Range { first, count, stride: 1 };
        }
        let index = index - tree.tors();
        if index < tree.aggs() {
            let low = pod * tree.aggs_per_pod;
            if (low..low + tree.aggs_per_pod).contains(&index) {
                return NextHops::One(first + rack - pod * tree.tors_per_pod);
            }
            let (first, count) = (first + tree.tors_per_pod, tree.cores_per_agg);
            return NextHops::Range { first, count, stride: tree.aggs_per_pod };
        }
        NextHops::One(first + pod)
    }

    fn nearer(&self, distances: &Distances, switch: u32, host: u32) -> NextHops {
        let Some(&row) = distances.row.get(host as usize) else { return NextHops::Unreachable };
        let hops = &distances.hops[row as usize * self.nodes as usize..][..self.nodes as usize];
        let here = hops[switch as usize];
        let egresses = self.first[switch as usize]..self.first[switch as usize + 1];
        match here {
            FAR => NextHops::Unreachable,
            1 => match egresses.clone().find(|egress| self.usable[*egress as usize] == host) {
                Some(egress) => NextHops::One(egress),
                None => NextHops::Unreachable,
            },
            _ => {
                let count = egresses.filter(|e| self.leads_nearer(hops, here, *e)).count() as u32;
                let stride = self.tree.as_ref().map_or(1, |(tree, _)| {
                    let is_tor = switch - self.hosts < tree.tors();
                    if is_tor { 1 } else { tree.aggs_per_pod }
                });
                NextHops::Nearer { count, stride }
            }
        }
    }

    fn leads_nearer(&self, hops: &[u8], here: u8, egress: u32) -> bool {
        let to = self.usable[egress as usize];
        to >= self.hosts && hops.get(to as usize).is_some_and(|there| *there < here)
    }

    /// The `index`th of the next hops of [`NextHops::Nearer`].
    pub fn nearer_hop(&self, switch: u32, host: u32, index: u32) -> Option<u32> {
        let distances = self.distances.as_ref()?;
        let row = distances.row[host as usize] as usize;
        let hops = &distances.hops[row * self.nodes as usize..][..self.nodes as usize];
        let here = hops[switch as usize];
        (self.first[switch as usize]..self.first[switch as usize + 1])
            .filter(|egress| self.leads_nearer(hops, here, *egress))
            .nth(index as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_core::{Duration, Rate};

    fn routing(tree: FatTree) -> (Graph, Routing) {
        let rate = Rate::from_mbps(1_000);
        let graph = tree.build(rate, rate, Duration::from_micros(1));
        let (first, directed) = graph.directed();
        let to: Vec<_> = directed.iter().map(|d| d.to.0).collect();
        let routing = Routing::new(&graph, &first, &to);
        (graph, routing)
    }

    fn listed(routing: &Routing, switch: u32, host: u32) -> Vec<u32> {
        match routing.next_hops(switch, host) {
            NextHops::Unreachable => Vec::new(),
            NextHops::One(egress) => vec![egress],
            NextHops::Range { first, count, .. } => (first..first + count).collect(),
            NextHops::Nearer { count, .. } => {
                (0..count).filter_map(|i| routing.nearer_hop(switch, host, i)).collect()
            }
        }
    }

    #[test]
    fn arithmetic_routes_are_the_shortest_ones() {
        let shapes = [
            FatTree::k_ary(4),
            FatTree {
                pods: 3,
                tors_per_pod: 2,
                hosts_per_tor: 4,
                aggs_per_pod: 3,
                cores_per_agg: 1,
            },
        ];
        for tree in shapes {
            let (graph, computed) = routing(tree);
            let (_, mut tabled) = routing(tree);
            tabled.recompute(&|_| true);
            for switch in graph.hosts()..graph.nodes() {
                for host in 0..graph.hosts() {
                    let (a, b) = (listed(&computed, switch, host), listed(&tabled, switch, host));
                    // Going down there is one way; a path through a peer is never shorter.
                    assert_eq!(a, b, "switch {switch} to host {host}");
                }
            }
        }
    }

    #[test]
    fn failed_links_are_avoided_and_lost_hosts_known() {
        let tree = FatTree::k_ary(4);
        let (graph, mut r) = routing(tree);
        let tor = graph.hosts();
        let up = r.first[tor as usize] + tree.hosts_per_tor;
        r.recompute(&|egress| egress != up);
        assert_eq!(listed(&r, tor, 15), [up + 1]);
        r.recompute(&|egress| egress != 0);
        assert_eq!(listed(&r, tor, 0), Vec::<u32>::new());
        assert_eq!(listed(&r, tor, 1).len(), 1);
    }
}
