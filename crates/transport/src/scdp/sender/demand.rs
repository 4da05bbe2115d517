//! The outstanding demand of a group: K symbols of every block, and those asked for beyond.
//!
//! Credits of a group say how many packets may go out, not of which block: the members' credits
//! fall out of step as soon as one of them stalls, and a block named by one member's credit would
//! be sent in place of what another member's credit was for.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use super::symbols::{MAX_BLOCKS_AHEAD, SymbolStream};
use crate::scdp::ObjectInfo;

/// Symbols that a receiver may lack beyond a block's K: the overhead it aims at, and attempts to decode that
/// failed.
const MAX_BEYOND: u32 = 64;

/// Symbols wanted of each block, and which block is next.
#[derive(Debug)]
pub(super) struct Demand {
    object: ObjectInfo,
    /// Blocks below may have been served by an earlier sender: of them nothing is sent unasked.
    fresh_from: u32,
    /// Blocks that all receivers have, ascending: of them nothing is sent unasked.
    held: Vec<Range<u32>>,
    floor: u32,
    /// Symbols of block `floor + i` wanted in all; beyond its end, what every block starts with.
    wanted: VecDeque<u32>,
    /// Lowest block of which more is wanted than was sent; Z when there is none.
    next: u32,
}

impl Demand {
    pub(super) fn new(object: ObjectInfo, symbols: &SymbolStream, held: Vec<Range<u32>>) -> Self {
        let (fresh_from, floor) = (symbols.horizon(), symbols.floor());
        let wanted = VecDeque::new();
        let mut demand = Demand { object, fresh_from, held, floor, wanted, next: floor };
        demand.advance(symbols);
        demand
    }

    /// Lowest block of which more is wanted than was sent.
    pub(super) fn next(&self) -> Option<u32> {
        (self.next < self.object.source_blocks).then_some(self.next)
    }

    /// A receiver wants `count` symbols of a block in all, those already sent included. It can lack no more
    /// than the block's K and [`MAX_BEYOND`] of them. Returns how many more will be sent for its sake.
    pub(super) fn ask(&mut self, sbn: u32, count: u32, symbols: &SymbolStream) -> u32 {
        let Some(index) = sbn.checked_sub(self.floor).filter(|&i| i < MAX_BLOCKS_AHEAD) else {
            return 0;
        };
        let lacks = self.object.symbols_in_block(sbn) + MAX_BEYOND;
        let count = count.min(symbols.sent(sbn).saturating_add(lacks));
        let before = self.wanted(sbn);
        if count <= before {
            return 0;
        }
        while self.wanted.len() <= index as usize {
            let sbn = self.floor + self.wanted.len() as u32;
            self.wanted.push_back(self.unasked(sbn));
        }
        self.wanted[index as usize] = count;
        self.next = self.next.min(sbn);
        self.advance(symbols);
        count - before
    }

    /// One more symbol of the lowest block, whatever was sent of it.
    pub(super) fn ask_one_more(&mut self, symbols: &SymbolStream) {
        self.ask(self.floor, symbols.sent(self.floor) + 1, symbols);
    }

    /// The receivers have all blocks below.
    pub(super) fn raise_floor(&mut self, symbols: &SymbolStream) {
        let floor = symbols.floor();
        while self.floor < floor && self.wanted.pop_front().is_some() {
            self.floor += 1;
        }
        self.floor = floor.max(self.floor);
        self.next = self.next.max(self.floor);
        self.advance(symbols);
    }

    /// Finds the next block again, after one was sent of.
    pub(super) fn advance(&mut self, symbols: &SymbolStream) {
        while self.next < self.object.source_blocks
            && symbols.sent(self.next) >= self.wanted(self.next)
        {
            self.next += 1;
        }
    }

    fn wanted(&self, sbn: u32) -> u32 {
        let asked = sbn.checked_sub(self.floor).and_then(|i| self.wanted.get(i as usize));
        asked.copied().unwrap_or_else(|| self.unasked(sbn))
    }

    fn unasked(&self, sbn: u32) -> u32 {
        let from = self.held.partition_point(|range| range.end <= sbn);
        let is_held = self.held.get(from).is_some_and(|range| range.contains(&sbn));
        let is_served = sbn < self.fresh_from || is_held;
        if is_served { 0 } else { self.object.symbols_in_block(sbn) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scdp::{Resume, Share};
    use alloc::vec::Vec;

    /// What goes out if nothing keeps it: `(sbn, esi)`.
    fn drain(demand: &mut Demand, symbols: &mut SymbolStream) -> Vec<(u32, u32)> {
        let mut sent = Vec::new();
        while let Some(sbn) = demand.next() {
            sent.push((sbn, symbols.next_esi(sbn).expect("plenty")));
            demand.advance(symbols);
        }
        sent
    }

    #[test]
    fn every_block_gets_its_source_symbols_and_what_is_asked_for_once() {
        let object = ObjectInfo::new(5 * 10, 10, 3, 0);
        let mut symbols = SymbolStream::new(Share::WHOLE, None);
        let mut demand = Demand::new(object, &symbols, Vec::new());
        assert_eq!(drain(&mut demand, &mut symbols), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]);
        demand.ask(1, 3, &symbols);
        demand.ask(0, 4, &symbols);
        demand.ask(0, 5, &symbols);
        demand.ask(0, 4, &symbols);
        demand.ask(2, 9, &symbols);
        assert_eq!(drain(&mut demand, &mut symbols), [(0, 3), (0, 4), (1, 2)]);
        symbols.raise_floor(1);
        demand.raise_floor(&symbols);
        demand.ask(0, 9, &symbols);
        demand.ask_one_more(&symbols);
        assert_eq!(drain(&mut demand, &mut symbols), [(1, 3)]);
        symbols.raise_floor(2);
        demand.raise_floor(&symbols);
        assert_eq!(demand.next(), None);
    }

    #[test]
    fn blocks_that_all_receivers_have_are_sent_of_only_when_asked() {
        let object = ObjectInfo::new(6 * 10, 10, 1, 0);
        let mut symbols = SymbolStream::new(Share::WHOLE, None);
        let mut demand = Demand::new(object, &symbols, [0..2, 3..5].into());
        assert_eq!(drain(&mut demand, &mut symbols), [(2, 0), (5, 0)]);
        demand.ask(3, 1, &symbols);
        assert_eq!(
            drain(&mut demand, &mut symbols),
            [(3, 0)],
            "one that does not have it after all"
        );
    }

    #[test]
    fn blocks_served_before_are_sent_of_only_when_asked() {
        let object = ObjectInfo::new(9 * 10, 10, 3, 0);
        let resume = Resume { epoch: 1, floor: 1, horizon: 2 };
        let mut symbols = SymbolStream::new(Share::WHOLE, Some(resume));
        let mut demand = Demand::new(object, &symbols, Vec::new());
        let fresh: Vec<_> = drain(&mut demand, &mut symbols);
        assert_eq!(fresh, [(2, 0), (2, 1), (2, 2)]);
        demand.ask(1, 1, &symbols);
        let repair = drain(&mut demand, &mut symbols);
        assert!(matches!(repair[..], [(1, esi)] if esi >= 1 << 20), "{repair:?}");
    }
}
