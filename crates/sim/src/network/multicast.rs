//! Multicast groups: the trees that their packets travel along, and the branches at switches.

use super::links::Links;
use crate::config::Multicast;
use crate::parcel::Parcel;
use crate::topology::Graph;
use std::collections::BTreeMap;
use wellspring_core::Destination;
use wellspring_fabric::{FlowKey, Replication, Spraying};

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

/// All groups, and the replication table of every switch.
#[derive(Debug)]
pub(super) struct Groups {
    groups: BTreeMap<u32, Group>,
    replication: Vec<Replication>,
    /// Trees a group and link of its source.
    trees: u16,
}

/// One of a group's trees, as switches know it.
fn tree_id(group: u32, tree: u16) -> u64 {
    (u64::from(group) << 16) | u64::from(tree)
}

impl Groups {
    pub(super) fn new(graph: &Graph, multicast: Multicast) -> Self {
        let paths = graph.fat_tree.map_or(16, |tree| tree.paths().min(256)) as u16;
        Groups {
            groups: BTreeMap::new(),
            replication: vec![Replication::new(); graph.switches() as usize],
            trees: match multicast {
                Multicast::OneTree => 1,
                Multicast::Sprayed => paths,
            },
        }
    }

    /// Trees a group and link of its source.
    pub(super) fn trees(&self) -> u16 {
        self.trees
    }

    /// Whether a group's trees start at that link of its source.
    pub(super) fn starts_at(&self, group: u32, egress: u32) -> bool {
        self.groups.get(&group).is_some_and(|group| group.nics.contains(&egress))
    }

    /// The egresses by which a packet of a group leaves the switch of that index.
    pub(super) fn branches(&self, switch: u32, parcel: &Parcel) -> &[u32] {
        let Destination::Group(group) = parcel.destination() else { return &[] };
        self.replication[switch as usize].branches(tree_id(group.0, parcel.key.label))
    }

    pub(super) fn create(&mut self, group: u32, source: u32, members: Vec<u32>, links: &mut Links) {
        let (switches, nics) = (Vec::new(), Vec::new());
        self.groups.insert(group, Group { source, members, switches, nics });
        self.plant(group, links);
    }

    pub(super) fn remove(&mut self, group: u32, links: &Links) {
        self.cut(group, links);
        self.groups.remove(&group);
    }

    /// Plants the trees of all groups anew, along links that are up.
    pub(super) fn replant(&mut self, links: &mut Links) {
        let groups: Vec<_> = self.groups.keys().copied().collect();
        for group in groups {
            self.plant(group, links);
        }
    }

    fn cut(&mut self, group: u32, links: &Links) {
        let Some(Group { source, switches, .. }) = self.groups.get_mut(&group) else { return };
        let (source, switches) = (*source, core::mem::take(switches));
        let labels = self.trees.saturating_mul(links.of(source).len() as u16);
        for switch in switches {
            for label in 0..labels {
                self.replication[switch as usize].remove(tree_id(group, label));
            }
        }
    }

    /// Plants a group's trees along links that are up, instead of those it has.
    fn plant(&mut self, group: u32, links: &mut Links) {
        self.cut(group, links);
        let Some(Group { source, members, .. }) = self.groups.get(&group).cloned() else { return };
        let (mut switches, mut nics, mut most) = (Vec::new(), Vec::new(), 1);
        for nic in links.of(source) {
            if !links.egresses[nic as usize].is_up() {
                continue;
            }
            let mut reached = 0;
            for tree in 0..self.trees {
                let label = tree_id(group, links.tree_label(tree, source, nic));
                let (branches, members) =
                    self.tree_branches((group, tree), source, nic, &members, links);
                for (switch, egress) in branches {
                    let switch = switch - links.hosts;
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
        &self,
        (group, tree): (u32, u16),
        source: u32,
        nic: u32,
        members: &[u32],
        links: &mut Links,
    ) -> (Vec<(u32, u32)>, usize) {
        // The only tree is by chance another for each group; several take the paths in turn.
        let flow = FlowKey::hash_flow(source, group, 0);
        let spraying = if self.trees == 1 { Spraying::Flow } else { Spraying::Label };
        let key = FlowKey { flow, label: tree };
        let (mut branches, mut reached) = (Vec::new(), 0);
        for &member in members.iter().filter(|member| **member != source) {
            let mut node = links.egresses[nic as usize].to;
            while node >= links.hosts {
                let Some(egress) = links.next_egress(node, member, key, spraying) else { break };
                branches.push((node, egress));
                node = links.egresses[egress as usize].to;
            }
            reached += usize::from(node == member);
        }
        (branches, reached)
    }
}
