//! Assignment of a site's partitions to its appliances, and its balance by load (§4.6's future work).

use crate::partitions::MAX_PARTITIONS;

/// Most appliances of a site.
pub const MAX_APPLIANCES: u8 = 16;

/// Loads below this \[packets a second\] are not worth a move: a hand-over costs the code's memory of the partition.
const LEAST_LOAD: u64 = 100;
/// A move must lower the highest load to this part of it \[percent\], so that loads that waver move nothing.
const WORTH: u64 = 85;

/// Which assignment: of two the greater holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Edition {
    pub version: u64,
    /// The appliance that made it: two may make one version while they do not hear each other.
    pub author: u8,
}

/// Which appliance is to protect which partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Assignment {
    pub edition: Edition,
    owners: Vec<u8>,
}

impl Assignment {
    /// All partitions at home: dealt out in turn.
    pub(crate) fn at_home(partitions: u8, appliances: u8) -> Self {
        let owners = (0..partitions).map(|partition| home(partition, appliances)).collect();
        Assignment { edition: Edition::default(), owners }
    }

    /// As somebody else has made it.
    pub(crate) fn made(edition: Edition, owners: &[u8]) -> Self {
        Assignment { edition, owners: owners.to_vec() }
    }

    pub(crate) fn owner(&self, partition: u8) -> u8 {
        self.owners[usize::from(partition)]
    }

    /// By partition.
    pub(crate) fn owners(&self) -> &[u8] {
        &self.owners
    }

    /// Gives an appliance the partitions that it has at home. Whether that changes anything.
    pub(crate) fn bring_home(&mut self, appliance: u8, appliances: u8) -> bool {
        let before = self.owners.clone();
        for (owner, partition) in self.owners.iter_mut().zip(0..MAX_PARTITIONS) {
            if home(partition, appliances) == appliance {
                *owner = appliance;
            }
        }
        self.owners != before
    }

    /// Gives partitions of appliances that are not `live` to others, the one of the highest load first, each to the
    /// appliance of the least load then. Whether that changes anything.
    pub(crate) fn take_from_dead(&mut self, live: &[bool], loads: &[u32]) -> bool {
        let is_dead = |owner: u8| !live[usize::from(owner)];
        let mut orphans: Vec<usize> =
            (0..self.owners.len()).filter(|&at| is_dead(self.owners[at])).collect();
        orphans.sort_by_key(|&at| core::cmp::Reverse(loads[at]));
        for &at in &orphans {
            let sums = self.sums(loads);
            let has = |member: u8| self.owners.iter().filter(|&&owner| owner == member).count();
            let heirs = (0..live.len() as u8).filter(|&member| !is_dead(member));
            let Some(heir) = heirs.min_by_key(|&member| (sums[usize::from(member)], has(member)))
            else {
                return false;
            };
            self.owners[at] = heir;
        }
        !orphans.is_empty()
    }

    /// Moves the one partition from the appliance of the highest load to the one of the least that lowers the highest load
    /// most, if that is worth it. Whether one was moved.
    pub(crate) fn balance(&mut self, live: &[bool], loads: &[u32]) -> bool {
        let sums = self.sums(loads);
        let members = || (0..live.len()).filter(|&member| live[member]);
        let from = members().max_by_key(|&member| (sums[member], core::cmp::Reverse(member)));
        let to = members().min_by_key(|&member| (sums[member], member));
        let (Some(from), Some(to)) = (from, to) else { return false };
        let after = |&at: &usize| {
            let load = u64::from(loads[at]);
            (sums[from] - load).max(sums[to] + load)
        };
        let mine = (0..self.owners.len()).filter(|&at| usize::from(self.owners[at]) == from);
        let best = mine.filter(|&at| loads[at] > 0).min_by_key(after);
        let worth = |at: &usize| {
            sums[from] >= LEAST_LOAD && after(at) * 100 <= sums[from] * WORTH && from != to
        };
        match best.filter(worth) {
            Some(at) => {
                self.owners[at] = to as u8;
                true
            }
            None => false,
        }
    }

    /// Loads by appliance.
    fn sums(&self, loads: &[u32]) -> [u64; MAX_APPLIANCES as usize] {
        let mut sums = [0; MAX_APPLIANCES as usize];
        for (&owner, &load) in self.owners.iter().zip(loads) {
            sums[usize::from(owner)] += u64::from(load);
        }
        sums
    }
}

/// Where a partition is while nothing calls for another place.
fn home(partition: u8, appliances: u8) -> u8 {
    partition % appliances
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn highest(assignment: &Assignment, live: &[bool], loads: &[u32]) -> u64 {
        let sums = assignment.sums(loads);
        (0..live.len()).filter(|&n| live[n]).map(|n| sums[n]).max().unwrap_or(0)
    }

    #[test]
    fn one_partition_moves_from_the_busiest_to_the_idlest() {
        let mut assignment = Assignment::at_home(6, 3);
        assert_eq!(assignment.owners(), [0, 1, 2, 0, 1, 2]);
        let loads = [5_000, 100, 900, 4_000, 0, 0];
        assert!(assignment.balance(&[true; 3], &loads));
        assert_eq!(assignment.owners(), [0, 1, 2, 1, 1, 2], "5,000, 4,100 and 900 are then had");
        assert!(!assignment.balance(&[true; 3], &loads), "no single move is worth it");
    }

    #[test]
    fn what_is_idle_or_alone_stays() {
        let mut assignment = Assignment::at_home(4, 2);
        assert!(!assignment.balance(&[true; 2], &[40, 0, 40, 0]), "hardly any load");
        assert!(!assignment.balance(&[true; 2], &[9_000, 10, 0, 0]), "one partition has it all");
        assert!(!assignment.balance(&[true, false], &[9_000, 0, 9_000, 0]), "nobody else is there");
    }

    #[test]
    fn the_dead_leave_to_the_least_loaded() {
        let mut assignment = Assignment::at_home(6, 3);
        let loads = [50, 3_000, 200, 50, 400, 100];
        assert!(assignment.take_from_dead(&[true, false, true], &loads));
        assert_eq!(assignment.owners(), [0, 0, 2, 0, 2, 2]);
        assert!(!assignment.take_from_dead(&[true, false, true], &loads));
        assert!(assignment.bring_home(1, 3));
        assert_eq!(assignment, Assignment::at_home(6, 3));
        // Without any load they are dealt out evenly.
        assignment.take_from_dead(&[true, false, true], &[0; 6]);
        assert_eq!(assignment.owners(), [0, 0, 2, 0, 2, 2]);
    }

    proptest! {
        #[test]
        fn moves_end_and_each_lowers_the_highest_load(
            loads in proptest::collection::vec(0_u32..100_000, 1..64),
            appliances in 2_u8..16,
            dead in 0_u8..16,
        ) {
            let live: Vec<bool> = (0..appliances).map(|n| n != dead % appliances).collect();
            let mut assignment = Assignment::at_home(loads.len() as u8, appliances);
            assignment.take_from_dead(&live, &loads);
            prop_assert!(assignment.owners().iter().all(|&owner| live[usize::from(owner)]));
            let mut before = highest(&assignment, &live, &loads);
            let mut moves = 0;
            while assignment.balance(&live, &loads) {
                let after = highest(&assignment, &live, &loads);
                // Another appliance may have had as much.
                prop_assert!(after <= before);
                before = after;
                moves += 1;
                prop_assert!(moves <= 64 * 16, "moves do not end");
            }
            prop_assert!(assignment.owners().iter().all(|&owner| live[usize::from(owner)]));
        }
    }
}
