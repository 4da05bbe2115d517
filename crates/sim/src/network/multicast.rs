//! Multicast groups: the trees that their packets travel along, and copies at the branches.

use super::Network;
use crate::event_list::EventList;
use crate::parcel::Frames;
use wellspring_core::{Destination, Header};
use wellspring_fabric::{FlowKey, Handle, Spraying};

/// A multicast group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    source: u32,
    members: Vec<u32>,
    /// Switches that hold branches of its trees.
    switches: Vec<u32>,
    /// Links of the source from which most members are reached.
    pub(super) nics: Vec<u32>,
}

/// One of a group's trees, as switches know it.
fn tree_id(group: u32, tree: u16) -> u64 {
    (u64::from(group) << 16) | u64::from(tree)
}

impl<H: Header> Network<H> {
    /// A switch passes a group's packet on: a copy along each branch of its tree.
    pub(super) fn replicate(
        &mut self,
        now: u64,
        switch: u32,
        handle: Handle,
        events: &mut EventList,
    ) {
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

    pub fn create_group(&mut self, group: u32, source: u32, members: Vec<u32>) {
        let (switches, nics) = (Vec::new(), Vec::new());
        self.groups.insert(group, Group { source, members, switches, nics });
        self.plant_trees(group);
    }

    pub fn remove_group(&mut self, group: u32) {
        self.cut_trees(group);
        self.groups.remove(&group);
    }

    /// What switches know a tree by: every link of its source has its own, because one tree
    /// planted from two ends would lead packets twice to the same place, or round in circles.
    pub(super) fn tree_label(&self, tree: u16, source: u32, egress: u32) -> u16 {
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

    /// Plants a group's trees along links that are up, instead of those it has.
    pub(super) fn plant_trees(&mut self, group: u32) {
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
}
