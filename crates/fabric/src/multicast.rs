//! Copies of multicast packets.

use alloc::vec::Vec;

/// For each group the egress ports that a switch copies its packets to: one switch's part of a
/// multicast tree.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    /// Sorted by group.
    groups: Vec<(u32, Vec<u32>)>,
}

impl Replication {
    /// No groups.
    pub const fn new() -> Self {
        Replication { groups: Vec::new() }
    }

    /// Adds an egress port to a group's branches here; twice is once.
    pub fn add_branch(&mut self, group: u32, egress: u32) {
        let place = match self.groups.binary_search_by_key(&group, |entry| entry.0) {
            Ok(place) => place,
            Err(place) => {
                self.groups.insert(place, (group, Vec::new()));
                place
            }
        };
        let branches = &mut self.groups[place].1;
        if !branches.contains(&egress) {
            branches.push(egress);
        }
    }

    /// Forgets a group.
    pub fn remove(&mut self, group: u32) {
        if let Ok(place) = self.groups.binary_search_by_key(&group, |entry| entry.0) {
            self.groups.remove(place);
        }
    }

    /// Where to copy a packet of that group; nowhere if the group has no branch here.
    pub fn branches(&self, group: u32) -> &[u32] {
        match self.groups.binary_search_by_key(&group, |entry| entry.0) {
            Ok(place) => &self.groups[place].1,
            Err(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_kept_by_group() {
        let mut table = Replication::new();
        for (group, egress) in [(7, 1), (3, 2), (7, 4), (7, 1)] {
            table.add_branch(group, egress);
        }
        assert_eq!(table.branches(7), [1, 4]);
        assert_eq!(table.branches(3), [2]);
        assert_eq!(table.branches(5), [0_u32; 0]);
        table.remove(7);
        assert_eq!(table.branches(7), [0_u32; 0]);
    }
}
