//! Failures that are not repaired.

use crate::faults::Fault;
use std::collections::BTreeSet;

/// Failed nodes, and failed pairs of nodes: of each that failed more than once, one repair is enough, and a repair of what
/// has not failed repairs nothing.
#[derive(Debug, Default)]
pub(super) struct Failures {
    nodes: BTreeSet<u32>,
    links: BTreeSet<[u32; 2]>,
}

impl Failures {
    pub(super) fn note(&mut self, fault: Fault) {
        match fault {
            Fault::LinkDown(a, b) => self.links.insert(pair(a.0, b.0)),
            Fault::LinkUp(a, b) => self.links.remove(&pair(a.0, b.0)),
            Fault::NodeDown(node) => self.nodes.insert(node.0),
            Fault::NodeUp(node) => self.nodes.remove(&node.0),
        };
    }

    /// Whether a link from a node to another is down.
    pub(super) fn hit(&self, from: u32, to: u32) -> bool {
        self.nodes.contains(&from)
            || self.nodes.contains(&to)
            || self.links.contains(&pair(from, to))
    }
}

/// Two nodes in either order.
fn pair(a: u32, b: u32) -> [u32; 2] {
    [a.min(b), a.max(b)]
}
