//! Set of the received symbols of a block.

use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;

use super::capacity;

/// Source symbols as bits, repair symbols as an open-addressed set of their IDs.
///
/// No allocation once it has grown to a block's size; a set of 24-bit IDs needs no more than
/// multiplication for a hash, and its size is bounded by the number of symbols stored. Senders choose the IDs: the
/// multiplier is each set's own, so that nobody can choose IDs that all stand in one place. Nothing but the time of a look
/// depends on it.
#[derive(Debug, Default)]
pub(crate) struct Received {
    source: Vec<u64>,
    sources: u32,
    slots: Vec<u32>,
    repairs: Vec<u32>,
    multiplier: Multiplier,
}

/// An odd number that nobody else knows.
#[derive(Debug)]
struct Multiplier(u64);

impl Default for Multiplier {
    fn default() -> Self {
        Multiplier(RandomState::new().build_hasher().finish() | 1)
    }
}

const EMPTY: u32 = u32::MAX;

/// Slots of the smallest set.
const LEAST: usize = 64;

/// Slots of a set that has grown to so many symbols: half of them stay empty.
fn slots_for(repairs: usize) -> usize {
    if repairs == 0 { 0 } else { (2 * repairs).next_power_of_two().max(LEAST) }
}

impl Received {
    pub(crate) fn reset(&mut self, k: u32) {
        self.source.clear();
        capacity::reserve(&mut self.source, (k as usize).div_ceil(64));
        self.source.resize((k as usize).div_ceil(64), 0);
        self.sources = 0;
        self.slots.fill(EMPTY);
        self.repairs.clear();
    }

    pub(crate) fn has_source(&self, esi: u32) -> bool {
        self.source.get(esi as usize / 64).is_some_and(|word| word >> (esi % 64) & 1 == 1)
    }

    /// Notes a source symbol; false if it was there.
    pub(crate) fn add_source(&mut self, esi: u32) -> bool {
        let new = !self.has_source(esi);
        if new {
            self.source[esi as usize / 64] |= 1 << (esi % 64);
            self.sources += 1;
        }
        new
    }

    pub(crate) fn sources(&self) -> u32 {
        self.sources
    }

    /// IDs of the repair symbols, in order of arrival.
    pub(crate) fn repairs(&self) -> &[u32] {
        &self.repairs
    }

    pub(crate) fn has_repair(&self, esi: u32) -> bool {
        !self.slots.is_empty() && self.slots[self.slot_of(esi)] == esi
    }

    /// Notes a repair symbol; false if it was there.
    pub(crate) fn add_repair(&mut self, esi: u32) -> bool {
        if 2 * (self.repairs.len() + 1) > self.slots.len() {
            self.grow();
        }
        let slot = self.slot_of(esi);
        if self.slots[slot] == esi {
            return false;
        }
        self.slots[slot] = esi;
        self.repairs.push(esi);
        true
    }

    /// Where `esi` stands or would stand.
    fn slot_of(&self, esi: u32) -> usize {
        let mask = self.slots.len() - 1;
        // The upper bits of the product: any two IDs are unlikely to have the same.
        let hash = u64::from(esi).wrapping_mul(self.multiplier.0);
        let mut slot = (hash >> (64 - self.slots.len().trailing_zeros())) as usize;
        while self.slots[slot] != esi && self.slots[slot] != EMPTY {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Reserves memory for exactly so many repair symbols.
    pub(crate) fn reserve(&mut self, repairs: usize) {
        capacity::reserve(&mut self.slots, slots_for(repairs));
        capacity::reserve(&mut self.repairs, repairs);
    }

    /// Memory once there is room for exactly so many repair symbols.
    pub(crate) fn memory_with(&self, repairs: usize) -> usize {
        8 * self.source.capacity() + 4 * (slots_for(repairs) + repairs)
    }

    fn grow(&mut self) {
        let size = (2 * self.slots.len()).max(LEAST);
        self.slots.clear();
        self.slots.resize(size, EMPTY);
        for i in 0..self.repairs.len() {
            let slot = self.slot_of(self.repairs[i]);
            self.slots[slot] = self.repairs[i];
        }
    }

    /// Notes all `k` source symbols.
    pub(crate) fn add_all_sources(&mut self, k: u32) {
        self.source.fill(u64::MAX);
        self.sources = k;
        if let Some(last) = self.source.last_mut().filter(|_| !k.is_multiple_of(64)) {
            *last = (1 << (k % 64)) - 1;
        }
    }

    /// Source symbols not received, ascending.
    pub(crate) fn missing(&self, k: u32) -> impl Iterator<Item = u32> {
        let last = k.saturating_sub(1) / 64;
        (0..).zip(&self.source).flat_map(move |(word, &there)| {
            let beyond = if word == last { u64::MAX << ((k - 1) % 64) << 1 } else { 0 };
            Ones(!there & !beyond).map(move |bit| 64 * word + bit)
        })
    }

    pub(crate) fn memory(&self) -> usize {
        8 * self.source.capacity() + 4 * (self.slots.capacity() + self.repairs.capacity())
    }
}

/// The places of the ones in a word, lowest first.
struct Ones(u64);

impl Iterator for Ones {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let place = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (place < 64).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_chosen_for_one_multiplier_are_spread_by_another() {
        let upper = |esi: u32, by: u64| u64::from(esi).wrapping_mul(by) >> (64 - 12);
        let [known, own] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];
        let chosen = (100..1 << 24).filter(|&esi| upper(esi, known) == 7).take(1_024);
        let mut set = Received { multiplier: Multiplier(own), ..Received::default() };
        set.reset(100);
        for esi in chosen {
            assert!(set.add_repair(esi) && set.has_repair(esi) && !set.add_repair(esi));
        }
        assert_eq!((set.repairs().len(), set.slots.len()), (1_024, 4_096));
        // The longest way from where a search begins to a free place.
        let runs = set.slots.split(|&slot| slot == EMPTY).map(<[u32]>::len);
        assert!(runs.max().is_some_and(|longest| longest < 100));
        // What is in it is the same by any multiplier.
        let mut other = Received::default();
        other.reset(100);
        let added: Vec<bool> = set.repairs().iter().map(|&esi| other.add_repair(esi)).collect();
        assert!(added.iter().all(|new| *new) && other.repairs() == set.repairs());
    }

    #[test]
    fn every_set_has_a_multiplier_of_its_own() {
        assert_ne!(Multiplier::default().0, Multiplier::default().0);
    }
}
