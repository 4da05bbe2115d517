//! Copies of multicast packets.

use alloc::vec::Vec;

/// For each multicast tree the egress ports that a switch copies its packets to: one switch's part
/// of the tree. A group may have several trees, over which its packets are sprayed.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    /// Sorted by tree.
    trees: Vec<(u64, Vec<u32>)>,
}

impl Replication {
    /// No trees.
    pub const fn new() -> Self {
        Replication { trees: Vec::new() }
    }

    /// Adds an egress port to a tree's branches here; twice is once.
    pub fn add_branch(&mut self, tree: u64, egress: u32) {
        let place = match self.trees.binary_search_by_key(&tree, |entry| entry.0) {
            Ok(place) => place,
            Err(place) => {
                self.trees.insert(place, (tree, Vec::new()));
                place
            }
        };
        let branches = &mut self.trees[place].1;
        if !branches.contains(&egress) {
            branches.push(egress);
        }
    }

    /// Forgets a tree.
    pub fn remove(&mut self, tree: u64) {
        if let Ok(place) = self.trees.binary_search_by_key(&tree, |entry| entry.0) {
            self.trees.remove(place);
        }
    }

    /// Where to copy a packet of that tree; nowhere if it has no branch here.
    pub fn branches(&self, tree: u64) -> &[u32] {
        match self.trees.binary_search_by_key(&tree, |entry| entry.0) {
            Ok(place) => &self.trees[place].1,
            Err(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_kept_by_tree() {
        let mut table = Replication::new();
        for (tree, egress) in [(7, 1), (3, 2), (7, 4), (7, 1)] {
            table.add_branch(tree, egress);
        }
        assert_eq!(table.branches(7), [1, 4]);
        assert_eq!(table.branches(3), [2]);
        assert_eq!(table.branches(5), [0_u32; 0]);
        table.remove(7);
        assert_eq!(table.branches(7), [0_u32; 0]);
    }
}
