//! Symbols of a block assigned to senders: each source symbol once, as long as no sender is given up.

use alloc::vec::Vec;

/// Which symbols of a block are somebody's task.
#[derive(Debug, Default)]
pub(super) struct Assigned {
    /// Bit map of the source symbols.
    source: Vec<u64>,
    source_symbols: u32,
    /// All source symbols below are assigned.
    from: u32,
    /// Repair symbols assigned.
    repair: u32,
}

impl Assigned {
    pub(super) fn reset(&mut self, source_symbols: u32) {
        self.source.clear();
        self.source.resize(source_symbols.div_ceil(64) as usize, 0);
        (self.source_symbols, self.from, self.repair) = (source_symbols, 0, 0);
    }

    /// The first ESI of what is nobody's task, and how many follow each other, at most `most`: source symbols
    /// first, then repair symbols that were never asked for.
    pub(super) fn next(&self, most: u32) -> (u32, u32) {
        let Some(first) = (self.from..self.source_symbols).find(|&esi| !self.is_assigned(esi))
        else {
            return (self.source_symbols.saturating_add(self.repair), most);
        };
        let end = self.source_symbols.min(first.saturating_add(most));
        let last = (first..end).find(|&esi| self.is_assigned(esi)).unwrap_or(end);
        (first, last - first)
    }

    /// Those symbols are a sender's task.
    pub(super) fn assign(&mut self, first: u32, count: u32) {
        for esi in first..first.saturating_add(count) {
            if esi < self.source_symbols {
                self.source[esi as usize / 64] |= 1 << (esi % 64);
            } else {
                self.repair = self.repair.max(esi - self.source_symbols + 1);
            }
        }
        while self.from < self.source_symbols && self.is_assigned(self.from) {
            self.from += 1;
        }
    }

    /// That symbol is nobody's task any more.
    pub(super) fn give_back(&mut self, esi: u32) {
        if esi < self.source_symbols {
            self.source[esi as usize / 64] &= !(1 << (esi % 64));
            self.from = self.from.min(esi);
        }
    }

    fn is_assigned(&self, esi: u32) -> bool {
        self.source[esi as usize / 64] & (1 << (esi % 64)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_symbols_are_assigned_once_and_again_when_given_back() {
        let mut assigned = Assigned::default();
        assigned.reset(100);
        assigned.assign(1, 1);
        assert_eq!(assigned.next(32), (0, 1));
        assigned.assign(0, 1);
        assert_eq!(assigned.next(32), (2, 32));
        assigned.assign(2, 96);
        assert_eq!(assigned.next(32), (98, 2));
        assigned.assign(98, 2);
        assert_eq!(assigned.next(5), (100, 5));
        assigned.assign(100, 5);
        assigned.give_back(40);
        assigned.give_back(102);
        assert_eq!(assigned.next(5), (40, 1));
        assigned.assign(40, 1);
        assert_eq!(assigned.next(3), (105, 3), "repair symbols are never asked for twice");
    }
}
