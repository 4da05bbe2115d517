//! A network as a graph.

use super::fat_tree::FatTree;
use std::collections::{BTreeMap, BTreeSet};
use wellspring_core::{Duration, HostId, Rate};

/// A host or a switch: hosts come first, numbered as their [`HostId`]s, then switches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl From<HostId> for NodeId {
    fn from(host: HostId) -> Self {
        NodeId(host.0)
    }
}

/// One direction of a link: the port that sends into it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EgressId(pub u32);

/// A link between two nodes. The two directions may have different rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// One end.
    pub a: NodeId,
    /// The other end.
    pub b: NodeId,
    /// Rate from `a` to `b`.
    pub rate: Rate,
    /// Rate from `b` to `a`.
    pub reverse_rate: Rate,
    /// Propagation delay, each way.
    pub delay: Duration,
}

impl Link {
    /// A link with the same rate both ways.
    pub const fn new(a: NodeId, b: NodeId, rate: Rate, delay: Duration) -> Self {
        Link { a, b, rate, reverse_rate: rate, delay }
    }
}

/// A network: so many hosts, so many switches, and links.
///
/// The ports of a node are numbered in the order its links were added.
#[derive(Clone, Debug)]
pub struct Graph {
    hosts: u32,
    switches: u32,
    links: Vec<Link>,
    pub(crate) names: BTreeMap<String, NodeId>,
    pub(crate) fat_tree: Option<FatTree>,
}

impl Graph {
    /// A network without links.
    pub const fn new(hosts: u32, switches: u32) -> Self {
        Graph { hosts, switches, links: Vec::new(), names: BTreeMap::new(), fat_tree: None }
    }

    /// Adds a link.
    ///
    /// # Panics
    /// An end does not exist, or both ends are the same.
    pub fn add_link(&mut self, link: Link) {
        assert!(link.a.0 < self.nodes() && link.b.0 < self.nodes(), "a link to nowhere");
        assert!(link.a != link.b, "a link from a node to itself");
        self.links.push(link);
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Number of switches.
    pub fn switches(&self) -> u32 {
        self.switches
    }

    /// Number of hosts and switches.
    pub fn nodes(&self) -> u32 {
        self.hosts + self.switches
    }

    /// The switch of that number.
    pub fn switch(&self, index: u32) -> NodeId {
        NodeId(self.hosts + index)
    }

    /// All links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The node of that name: as in the text that the network was read from, or `host3` and
    /// `switch7` by number, or `tor3`, `agg0` and `core9` in a Fat-Tree.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        if let Some(node) = self.names.get(name) {
            return Some(*node);
        }
        let digits = name.find(|c: char| c.is_ascii_digit())?;
        let (kind, number) = (&name[..digits], name[digits..].parse::<u32>().ok()?);
        let (first, count) = match (kind, self.fat_tree) {
            ("host", _) => (0, self.hosts),
            ("switch", _) => (self.hosts, self.switches),
            ("tor", Some(tree)) => (self.hosts, tree.tors()),
            ("agg", Some(tree)) => (self.hosts + tree.tors(), tree.aggs()),
            ("core", Some(tree)) => (self.hosts + tree.tors() + tree.aggs(), tree.cores()),
            _ => return None,
        };
        (number < count).then(|| NodeId(first + number))
    }

    /// Changes the rates of all links between two nodes (asymmetric or degraded links): from `a`
    /// to `b`, and back. False if there is none.
    pub fn set_rate(&mut self, a: NodeId, b: NodeId, rate: Rate, reverse_rate: Rate) -> bool {
        let mut found = false;
        for link in &mut self.links {
            if (link.a, link.b) == (a, b) {
                (link.rate, link.reverse_rate) = (rate, reverse_rate);
                found = true;
            } else if (link.b, link.a) == (a, b) {
                (link.reverse_rate, link.rate) = (rate, reverse_rate);
                found = true;
            }
        }
        found
    }

    /// Whether there is a link between two nodes.
    pub fn has_link(&self, a: NodeId, b: NodeId) -> bool {
        self.links.iter().any(|link| (link.a, link.b) == (a, b) || (link.b, link.a) == (a, b))
    }

    /// What tables of distances take while the network is as it is: a byte for every node and
    /// every set of neighbours that hosts have \[bytes\]. A Fat-Tree needs none until something
    /// fails.
    pub fn table_len(&self) -> u64 {
        let (first, directed) = self.directed();
        let neighbours = (0..self.hosts as usize).map(|host| {
            let links = &directed[first[host] as usize..first[host + 1] as usize];
            links.iter().map(|link| link.to).collect::<Vec<_>>()
        });
        neighbours.collect::<BTreeSet<_>>().len() as u64 * u64::from(self.nodes())
    }

    /// The rate at which each host can be sent to, over all of its links \[bit/s\]; 0 without.
    pub fn downlinks(&self) -> Vec<u64> {
        let mut rates = vec![0_u64; self.hosts as usize];
        for link in &self.links {
            for (to, rate) in [(link.b, link.rate), (link.a, link.reverse_rate)] {
                if let Some(sum) = rates.get_mut(to.0 as usize) {
                    *sum = sum.saturating_add(rate.as_bits_per_second());
                }
            }
        }
        rates
    }

    /// The directed links in port order: for each node the first egress, and all egresses.
    pub(crate) fn directed(&self) -> (Vec<u32>, Vec<Directed>) {
        let mut degree = vec![0_u32; self.nodes() as usize + 1];
        for link in &self.links {
            degree[link.a.0 as usize + 1] += 1;
            degree[link.b.0 as usize + 1] += 1;
        }
        for node in 1..degree.len() {
            degree[node] += degree[node - 1];
        }
        let first = degree.clone();
        let mut next = degree;
        let blank = Directed { to: NodeId(0), rate: Rate::from_mbps(0), delay: Duration::ZERO };
        let mut directed = vec![blank; self.links.len() * 2];
        for link in &self.links {
            for (from, to, rate) in
                [(link.a, link.b, link.rate), (link.b, link.a, link.reverse_rate)]
            {
                let place = &mut next[from.0 as usize];
                directed[*place as usize] = Directed { to, rate, delay: link.delay };
                *place += 1;
            }
        }
        (first, directed)
    }
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directed {
    pub to: NodeId,
    pub rate: Rate,
    pub delay: Duration,
}
