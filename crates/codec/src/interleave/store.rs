//! The packets a receiver remembers: the newest, found by name.

use super::PacketName;

/// No packet.
const EMPTY: u32 = u32::MAX;

/// What is known of a packet: together, because it is asked for together.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    name: PacketName,
    stamp: u64,
    len: u16,
}

/// A ring of packets of bounded length, with a hash table over their names.
#[derive(Debug)]
pub(super) struct PacketStore {
    longest: usize,
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    /// Slots by name: open addressing, linear probing, at most half full.
    table: Vec<u32>,
    /// Slot of the next packet, which is that of the oldest once the ring is full.
    next: usize,
    full: bool,
}

impl PacketStore {
    pub(super) fn new(packets: usize, longest: usize) -> Self {
        PacketStore {
            longest,
            bytes: vec![0; packets * longest],
            slots: vec![Slot::default(); packets],
            table: vec![EMPTY; (packets * 2).next_power_of_two()],
            next: 0,
            full: false,
        }
    }

    /// Remembers a packet and its stamp in place of the oldest. False if it is there already.
    pub(super) fn insert(&mut self, name: PacketName, stamp: u64, packet: &[u8]) -> bool {
        if self.slot(name).is_some() {
            return false;
        }
        let slot = self.next;
        if self.full {
            self.forget(self.slots[slot].name);
        }
        self.next += 1;
        if self.next == self.slots.len() {
            self.next = 0;
            self.full = true;
        }
        self.slots[slot] = Slot { name, stamp, len: packet.len() as u16 };
        let start = slot * self.longest;
        self.bytes[start..start + packet.len()].copy_from_slice(packet);
        let mut at = self.home(name);
        while self.table[at] != EMPTY {
            at = (at + 1) & (self.table.len() - 1);
        }
        self.table[at] = slot as u32;
        true
    }

    pub(super) fn get(&self, name: PacketName) -> Option<&[u8]> {
        let slot = self.slot(name)?;
        let start = slot * self.longest;
        Some(&self.bytes[start..start + usize::from(self.slots[slot].len)])
    }

    pub(super) fn stamp(&self, name: PacketName) -> Option<u64> {
        self.slot(name).map(|slot| self.slots[slot].stamp)
    }

    pub(super) fn contains(&self, name: PacketName) -> bool {
        self.slot(name).is_some()
    }

    fn home(&self, name: PacketName) -> usize {
        // Names may be small numbers: spread them (Fibonacci hashing).
        (name.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.table.len() - 1)
    }

    fn slot(&self, name: PacketName) -> Option<usize> {
        let mut at = self.home(name);
        while self.table[at] != EMPTY {
            let slot = self.table[at] as usize;
            if self.slots[slot].name == name {
                return Some(slot);
            }
            at = (at + 1) & (self.table.len() - 1);
        }
        None
    }

    /// Takes a name out of the table; those that were pushed on by it move up.
    fn forget(&mut self, name: PacketName) {
        let mask = self.table.len() - 1;
        let mut hole = self.home(name);
        while self.table[hole] == EMPTY || self.slots[self.table[hole] as usize].name != name {
            debug_assert_ne!(self.table[hole], EMPTY, "the name is in the table");
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            self.table[hole] = EMPTY;
            loop {
                at = (at + 1) & mask;
                let slot = self.table[at];
                if slot == EMPTY {
                    return;
                }
                // It may move if its home does not lie behind the hole.
                let home = self.home(self.slots[slot as usize].name);
                if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                    self.table[hole] = slot;
                    hole = at;
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn remembers_just_the_newest(
            packets in 1_usize..20,
            names in proptest::collection::vec(0_u64..40, 0..200),
            stride in prop_oneof![Just(1_u64), Just(1 << 32), Just(0x9e37_79b9)],
        ) {
            let mut store = PacketStore::new(packets, 8);
            let mut model: VecDeque<(PacketName, Vec<u8>)> = VecDeque::new();
            for (step, name) in names.into_iter().enumerate() {
                let name = PacketName(name.wrapping_mul(stride));
                let packet = vec![step as u8; step % 9];
                let new = !model.iter().any(|(n, _)| *n == name);
                prop_assert_eq!(store.insert(name, step as u64, &packet), new);
                if new {
                    model.push_back((name, packet));
                    if model.len() > packets {
                        let (old, _) = model.pop_front().expect("just pushed");
                        prop_assert!(!store.contains(old));
                    }
                }
                for (name, packet) in &model {
                    prop_assert_eq!(store.get(*name), Some(packet.as_slice()));
                    let stamp = store.stamp(*name).map(|stamp| stamp as usize % 9);
                    prop_assert_eq!(stamp, Some(packet.len()));
                }
            }
        }
    }
}
