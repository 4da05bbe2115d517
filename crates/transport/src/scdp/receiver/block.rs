//! The blocks of an object a receiver still works on: what is here, on its way, and wanted.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::scdp::ObjectInfo;

/// What became of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Intake {
    /// Of no use: here already, or its block is finished or being finished.
    Needless,
    /// Of a block that does not exist or is not open.
    OutOfRange,
    /// Counted.
    Kept,
    /// Counted, and the block can be finished now; with the decoder or without.
    Finishable { decode: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Takes symbols.
    Filling,
    /// Handed to the decoder (or, with all source symbols there, to the application).
    Finishing { decode: bool },
    /// Done.
    Complete,
}

/// One open block.
#[derive(Debug)]
struct Block {
    source_symbols: u32,
    /// Distinct symbols needed before the next attempt: K, and K + o once loss is seen
    /// (SCDP §IV-G), one more after each failed attempt.
    target: u32,
    received: u32,
    received_source: u32,
    /// Credits granted for this block and counted on.
    expected: u32,
    lossy: bool,
    phase: Phase,
    /// Bit map of the source symbols received.
    source_seen: Vec<u64>,
    /// Sorted ESIs of the repair symbols received.
    repair_seen: Vec<u32>,
}

impl Block {
    fn reset(&mut self, source_symbols: u32) {
        self.source_symbols = source_symbols;
        self.target = source_symbols;
        self.received = 0;
        self.received_source = 0;
        self.expected = 0;
        self.lossy = false;
        self.phase = Phase::Filling;
        self.source_seen.clear();
        self.source_seen.resize(source_symbols.div_ceil(64) as usize, 0);
        self.repair_seen.clear();
    }

    fn deficit(&self) -> u32 {
        match self.phase {
            Phase::Filling => self.target.saturating_sub(self.received + self.expected),
            _ => 0,
        }
    }

    /// Marks an ESI; false if it was marked before.
    fn mark(&mut self, esi: u32) -> bool {
        if esi < self.source_symbols {
            let (word, bit) = (esi as usize / 64, 1_u64 << (esi % 64));
            let new = self.source_seen[word] & bit == 0;
            self.source_seen[word] |= bit;
            self.received_source += u32::from(new);
            return new;
        }
        match self.repair_seen.binary_search(&esi) {
            Ok(_) => false,
            Err(place) => {
                self.repair_seen.insert(place, esi);
                true
            }
        }
    }

    fn finishable(&self) -> Option<bool> {
        if self.received_source == self.source_symbols {
            Some(false)
        } else if self.received >= self.target {
            Some(true)
        } else {
            None
        }
    }
}

/// The blocks from the lowest incomplete one to the highest opened.
#[derive(Debug)]
pub(super) struct BlockWindow {
    object: ObjectInfo,
    overhead: u32,
    extra_symbols: u32,
    open_limit: u32,
    /// Lowest block not complete.
    floor: u32,
    blocks: VecDeque<Block>,
    /// Blocks to reuse.
    spare: Vec<Block>,
    /// No block below this one wants symbols.
    wanting_from: u32,
}

impl BlockWindow {
    pub(super) fn new(
        object: ObjectInfo,
        overhead: u32,
        extra_symbols: u32,
        open_limit: u32,
    ) -> Self {
        BlockWindow {
            object,
            overhead,
            extra_symbols,
            open_limit: open_limit.max(1),
            floor: 0,
            blocks: VecDeque::new(),
            spare: Vec::new(),
            wanting_from: 0,
        }
    }

    /// Lowest incomplete block; Z when all are complete.
    pub(super) fn floor(&self) -> u32 {
        self.floor
    }

    /// First block not opened yet.
    pub(super) fn horizon(&self) -> u32 {
        self.floor + self.blocks.len() as u32
    }

    pub(super) fn all_complete(&self) -> bool {
        self.floor == self.object.source_blocks
    }

    /// The lowest block that wants symbols and how many; opens the next block if none does and
    /// the limit allows.
    pub(super) fn next_wanting(&mut self) -> Option<(u32, u32)> {
        self.wanting_from = self.wanting_from.max(self.floor);
        while self.wanting_from < self.horizon() {
            let deficit = self.blocks[(self.wanting_from - self.floor) as usize].deficit();
            if deficit > 0 {
                return Some((self.wanting_from, deficit));
            }
            self.wanting_from += 1;
        }
        self.open_next()
            .then(|| (self.wanting_from, self.object.symbols_in_block(self.wanting_from)))
    }

    /// Whether some block wants symbols or could be opened, without opening it.
    pub(super) fn wants(&self) -> bool {
        self.any_deficit() || self.can_open()
    }

    /// Whether every symbol of the object that is needed is here or on its way.
    pub(super) fn all_asked_for(&self) -> bool {
        self.horizon() == self.object.source_blocks && !self.any_deficit()
    }

    fn any_deficit(&self) -> bool {
        let from = self.wanting_from.max(self.floor) - self.floor;
        self.blocks.iter().skip(from as usize).any(|b| b.deficit() > 0)
    }

    fn can_open(&self) -> bool {
        self.horizon() < self.object.source_blocks && (self.blocks.len() as u32) < self.open_limit
    }

    fn open_next(&mut self) -> bool {
        if !self.can_open() {
            return false;
        }
        let sbn = self.horizon();
        let mut block = self.spare.pop().unwrap_or_else(|| Block {
            source_symbols: 0,
            target: 0,
            received: 0,
            received_source: 0,
            expected: 0,
            lossy: false,
            phase: Phase::Filling,
            source_seen: Vec::new(),
            repair_seen: Vec::new(),
        });
        block.reset(self.object.symbols_in_block(sbn));
        self.blocks.push_back(block);
        true
    }

    fn block(&mut self, sbn: u32) -> Option<&mut Block> {
        let index = sbn.checked_sub(self.floor)?;
        self.blocks.get_mut(index as usize)
    }

    /// Opens blocks up to `sbn`, as a sender's initial window or a group's symbols ask for.
    /// False beyond the limit.
    pub(super) fn open_through(&mut self, sbn: u32) -> bool {
        while self.horizon() <= sbn {
            if !self.open_next() {
                return false;
            }
        }
        true
    }

    /// Counts on `count` more symbols of a block.
    pub(super) fn expect(&mut self, sbn: u32, count: u32) {
        if let Some(block) = self.block(sbn) {
            block.expected += count;
        }
    }

    /// Counts on one symbol less: its credit was spent.
    pub(super) fn settle(&mut self, sbn: u32) {
        if let Some(block) = self.block(sbn) {
            block.expected = block.expected.saturating_sub(1);
            if block.deficit() > 0 {
                self.wanting_from = self.wanting_from.min(sbn);
            }
        }
    }

    /// A symbol of this block was lost: from now on aim at K + o (SCDP §IV-G).
    pub(super) fn note_loss(&mut self, sbn: u32) {
        let overhead = self.overhead;
        if let Some(block) = self.block(sbn) {
            if block.phase == Phase::Filling && !block.lossy {
                block.lossy = true;
                block.target = block.target.max(block.source_symbols + overhead);
            }
            if block.deficit() > 0 {
                self.wanting_from = self.wanting_from.min(sbn);
            }
        }
    }

    /// Takes in a symbol.
    pub(super) fn receive(&mut self, sbn: u32, esi: u32) -> Intake {
        let extra_symbols = self.extra_symbols;
        if sbn < self.floor {
            return Intake::Needless;
        }
        let Some(block) = self.block(sbn) else {
            return Intake::OutOfRange;
        };
        if block.phase != Phase::Filling {
            return Intake::Needless;
        }
        // Distinct symbols are bounded: once the target is met the block leaves `Filling`, and
        // the target never passes K + o + extra_symbols.
        debug_assert!(block.repair_seen.len() as u32 <= block.source_symbols + extra_symbols + 64);
        if !block.mark(esi) {
            return Intake::Needless;
        }
        block.received += 1;
        match block.finishable() {
            Some(decode) => {
                block.phase = Phase::Finishing { decode };
                Intake::Finishable { decode }
            }
            None => Intake::Kept,
        }
    }

    /// The block is finished; tells whether the decoder was needed. `None` if it was not being
    /// finished.
    pub(super) fn finished(&mut self, sbn: u32) -> Option<bool> {
        let block = self.block(sbn)?;
        let Phase::Finishing { decode } = block.phase else {
            return None;
        };
        block.phase = Phase::Complete;
        while self.blocks.front().is_some_and(|b| b.phase == Phase::Complete) {
            self.spare.extend(self.blocks.pop_front());
            self.floor += 1;
        }
        Some(decode)
    }

    /// Decoding failed: aim at one more symbol (SCDP Algorithm 2, line 53). False when that would
    /// pass the limit, or the block was not being decoded.
    pub(super) fn need_more(&mut self, sbn: u32) -> bool {
        let extra_symbols = self.extra_symbols;
        let Some(block) = self.block(sbn) else { return false };
        if block.phase != (Phase::Finishing { decode: true }) {
            return false;
        }
        block.phase = Phase::Filling;
        block.target = block.received + 1;
        if block.target > block.source_symbols + extra_symbols {
            return false;
        }
        self.wanting_from = self.wanting_from.min(sbn);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(k: u32, blocks: u32, open_limit: u32) -> BlockWindow {
        let object = ObjectInfo::new(u64::from(k * blocks) * 10, 10, k, 0);
        assert_eq!(object.source_blocks, blocks);
        BlockWindow::new(object, 2, 8, open_limit)
    }

    #[test]
    fn a_lossless_block_needs_k_symbols_and_no_decoder() {
        let mut window = window(3, 2, 4);
        assert_eq!(window.next_wanting(), Some((0, 3)));
        window.expect(0, 3);
        assert_eq!(window.next_wanting(), Some((1, 3)), "the next block is opened early");
        for esi in [2, 0] {
            window.settle(0);
            assert_eq!(window.receive(0, esi), Intake::Kept);
        }
        assert_eq!(window.receive(0, 0), Intake::Needless, "a duplicate");
        window.settle(0);
        assert_eq!(window.receive(0, 1), Intake::Finishable { decode: false });
        assert_eq!(window.finished(0), Some(false));
        assert_eq!((window.floor(), window.horizon()), (1, 2));
        assert_eq!(window.receive(0, 5), Intake::Needless);
        assert!(!window.all_complete());
    }

    #[test]
    fn loss_raises_the_target_to_k_plus_2_and_failure_by_1() {
        let mut window = window(3, 1, 4);
        window.next_wanting();
        window.expect(0, 3);
        window.settle(0);
        window.note_loss(0);
        assert_eq!(window.next_wanting(), Some((0, 3)), "the lost one and two more");
        window.expect(0, 3);
        for esi in [0, 1, 3, 4] {
            window.settle(0);
            assert_eq!(window.receive(0, esi), Intake::Kept);
        }
        window.settle(0);
        assert_eq!(window.receive(0, 7), Intake::Finishable { decode: true });
        assert!(window.need_more(0));
        assert_eq!(window.next_wanting(), Some((0, 1)));
        window.expect(0, 1);
        window.settle(0);
        assert_eq!(window.receive(0, 9), Intake::Finishable { decode: true });
        assert_eq!(window.finished(0), Some(true));
        assert!(window.all_complete());
    }

    #[test]
    fn all_source_symbols_finish_a_block_whatever_the_target() {
        let mut window = window(2, 1, 4);
        window.next_wanting();
        window.note_loss(0);
        assert_eq!(window.receive(0, 0), Intake::Kept);
        assert_eq!(window.receive(0, 1), Intake::Finishable { decode: false });
    }

    #[test]
    fn open_blocks_are_bounded_until_they_are_handed_over() {
        let mut window = window(1, 5, 2);
        for sbn in 0..2 {
            assert_eq!(window.next_wanting(), Some((sbn, 1)));
            window.expect(sbn, 1);
        }
        assert_eq!(window.next_wanting(), None);
        assert!(!window.wants());
        window.settle(0);
        assert_eq!(window.receive(0, 0), Intake::Finishable { decode: false });
        assert_eq!(window.next_wanting(), None, "still open: not handed over");
        window.finished(0);
        assert_eq!(window.next_wanting(), Some((2, 1)));
    }

    #[test]
    fn a_block_that_never_decodes_is_given_up() {
        let mut window = window(1, 1, 1);
        window.next_wanting();
        let mut attempts = 0;
        for esi in 1.. {
            if let Intake::Finishable { decode: true } = window.receive(0, esi) {
                attempts += 1;
                if !window.need_more(0) {
                    break;
                }
            }
        }
        assert_eq!(attempts, 9, "K = 1 and eight more");
    }
}
