//! The blocks of an object a receiver still works on, and which of them to ask for next.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use super::block::{Block, Intake, Phase};
use super::stream_account::{MAX_PLACES, Streaming};
use crate::scdp::{ObjectInfo, Share};

/// A sender may be ahead of the lowest incomplete block by this part of the blocks that may be open, before
/// it is asked for repair symbols in place of slower senders' source symbols.
const AHEAD: u32 = 4;

/// The blocks from the lowest incomplete one to the highest opened.
#[derive(Debug)]
pub(super) struct BlockWindow {
    object: ObjectInfo,
    overhead: u32,
    extra_symbols: u32,
    open_limit: u32,
    /// Lowest block not complete.
    floor: u32,
    /// Blocks from the floor on that were complete from the beginning, ascending.
    complete: VecDeque<Range<u32>>,
    pub(super) blocks: VecDeque<Block>,
    /// Blocks to reuse.
    spare: Vec<Block>,
    /// No block below this one wants symbols.
    wanting_from: u32,
    /// Senders are directed to the symbols to send.
    directed: bool,
    /// In a group: how far its stream has come.
    pub(super) streaming: Option<Streaming>,
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
            complete: VecDeque::new(),
            blocks: VecDeque::new(),
            spare: Vec::new(),
            wanting_from: 0,
            directed: false,
            streaming: None,
        }
    }

    /// Blocks that are complete from the beginning; before any is opened.
    pub(super) fn set_complete(&mut self, complete: &[Range<u32>]) {
        self.complete = complete.iter().cloned().collect();
        self.raise_floor();
    }

    /// Passes over the blocks that are complete.
    fn raise_floor(&mut self) {
        loop {
            if self.blocks.front().is_some_and(|b| b.phase == Phase::Complete) {
                self.spare.extend(self.blocks.pop_front());
                self.floor += 1;
            } else if self.blocks.is_empty()
                && let Some(range) = self.complete.front()
                && range.start <= self.floor
            {
                self.floor = self.floor.max(range.end);
                self.complete.pop_front();
            } else {
                return;
            }
        }
    }

    /// Whether a block was complete from the beginning.
    fn was_complete(&mut self, sbn: u32) -> bool {
        while self.complete.front().is_some_and(|range| range.end <= self.floor) {
            self.complete.pop_front();
        }
        let from = self.complete.partition_point(|range| range.end <= sbn);
        self.complete.get(from).is_some_and(|range| range.contains(&sbn))
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

    /// The block to ask a sender for and how many symbols of it. With several senders, each is
    /// asked for the source symbols of its own share first, up to a part of the open blocks, [`AHEAD`],
    /// beyond the lowest incomplete one, so that blocks need no decoding while senders keep about the
    /// same pace; a sender that is further ahead than that helps the slower ones with repair symbols.
    pub(super) fn next_wanting(
        &mut self,
        share: Share,
        may_come: impl Fn(u8) -> bool,
    ) -> Option<(u32, u32)> {
        self.wanting_from = self.wanting_from.max(self.floor);
        while self.wanting_from < self.horizon() && self.open(self.wanting_from).deficit() == 0 {
            self.wanting_from += 1;
        }
        if share.count > 1
            && let Some(found) = self.next_of_share(share, may_come)
        {
            return Some(found);
        }
        if self.wanting_from == self.horizon() && !self.open_next() {
            return None;
        }
        Some((self.wanting_from, self.open(self.wanting_from).deficit()))
    }

    /// From now on senders are directed to the symbols to send.
    pub(super) fn direct(&mut self) {
        self.directed = true;
    }

    pub(super) fn is_directed(&self) -> bool {
        self.directed
    }

    /// What any sender is to send next where senders are directed: the block, the first ESI and how many that follow
    /// each other, at most `most`.
    pub(super) fn next_task(&mut self, most: u32) -> Option<(u32, u32, u32)> {
        let (sbn, deficit) = self.next_wanting(Share::WHOLE, |_| true)?;
        let (first, count) = self.open(sbn).assigned.next(deficit.min(most));
        Some((sbn, first, count))
    }

    /// Notes that a sender was directed to send these symbols, which the block counts on.
    pub(super) fn assign(&mut self, sbn: u32, first: u32, count: u32) {
        if let Some(block) = self.block(sbn) {
            block.assigned.assign(first, count);
            block.expected += count;
        }
    }

    /// Counts on one symbol less, though nothing says that it was lost: another sender is asked for it.
    pub(super) fn give_back(&mut self, sbn: u32, esi: u32) {
        if self.directed
            && let Some(block) = self.block(sbn)
            && block.phase == Phase::Filling
            && !block.is_here(esi)
        {
            block.assigned.give_back(esi);
        }
        self.settle(sbn);
    }

    fn next_of_share(&mut self, share: Share, may_come: impl Fn(u8) -> bool) -> Option<(u32, u32)> {
        let limit = self.floor.saturating_add(self.open_limit.div_ceil(AHEAD));
        let mut sbn = self.wanting_from;
        while sbn < limit && (sbn < self.horizon() || self.open_next()) {
            let wanted = self.open(sbn).wanted_from(share, &may_come);
            if wanted > 0 {
                return Some((sbn, wanted));
            }
            sbn += 1;
        }
        None
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

    /// Source symbols of the blocks that may still be opened.
    pub(super) fn unopened(&self) -> u64 {
        let limit = self.floor.saturating_add(self.open_limit).min(self.object.source_blocks);
        let first = |sbn| self.object.first_symbol_of_block(sbn);
        first(limit).saturating_sub(first(self.horizon()))
    }

    /// The last block that is open, or may be.
    pub(super) fn last_to_open(&self) -> u32 {
        let end = self.floor.saturating_add(self.open_limit).min(self.object.source_blocks);
        end.saturating_sub(1)
    }

    /// Whether every block of the object is open, or may be.
    pub(super) fn reaches_the_end(&self) -> bool {
        self.floor.saturating_add(self.open_limit) >= self.object.source_blocks
    }

    fn open_next(&mut self) -> bool {
        if !self.can_open() {
            return false;
        }
        let sbn = self.horizon();
        let mut block = self.spare.pop().unwrap_or_default();
        block.reset(self.object.symbols_in_block(sbn));
        if self.was_complete(sbn) {
            block.phase = Phase::Complete;
        } else if self.is_streaming() {
            block.expect_stream();
        }
        self.blocks.push_back(block);
        true
    }

    /// A block known to be open.
    pub(super) fn open(&self, sbn: u32) -> &Block {
        &self.blocks[(sbn - self.floor) as usize]
    }

    pub(super) fn block(&mut self, sbn: u32) -> Option<&mut Block> {
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

    /// Notes that a sender is asked for `count` more symbols of a block, which counts on them or
    /// not.
    pub(super) fn ask(&mut self, sbn: u32, sender: u8, count: u32, counted: bool) {
        if let Some(block) = self.block(sbn) {
            block.ask(sender, count);
            if counted {
                block.expected += count;
            }
        }
    }

    /// A sender starts anew: in blocks that were open it will send repair symbols only.
    pub(super) fn forget_share(&mut self, sender: u8) {
        for block in &mut self.blocks {
            block.ask(sender, block.source_symbols);
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
            return Intake::Redundant;
        }
        let Some(block) = self.block(sbn) else {
            return Intake::OutOfRange;
        };
        if block.phase != Phase::Filling {
            return Intake::Redundant;
        }
        // Distinct symbols are bounded: once the target is met the block leaves `Filling`, and
        // the target never passes K + o + extra_symbols.
        debug_assert!(block.received <= block.most_symbols(extra_symbols) + 64);
        if !block.mark(esi) {
            return Intake::Redundant;
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

    /// The block is finished; returns whether the decoder was needed. `None` if it was not being
    /// finished.
    pub(super) fn finished(&mut self, sbn: u32) -> Option<bool> {
        let block = self.block(sbn)?;
        let Phase::Finishing { decode } = block.phase else {
            return None;
        };
        block.phase = Phase::Complete;
        self.raise_floor();
        Some(decode)
    }

    /// Decoding failed for want of so many more symbols: aims at them, which are one after an honest
    /// failure (SCDP Algorithm 2, line 53). False when the block has as many as it may have, or was not
    /// being decoded.
    pub(super) fn need_more(&mut self, sbn: u32, more: u32) -> bool {
        let extra_symbols = self.extra_symbols;
        let Some(block) = self.block(sbn) else { return false };
        if block.phase != (Phase::Finishing { decode: true }) {
            return false;
        }
        block.phase = Phase::Filling;
        if !block.aim_after_failure(more, extra_symbols) {
            return false;
        }
        self.wants_again(sbn);
        true
    }

    /// The block's bytes are wrong: aims at so many more symbols, with which it is to be decoded
    /// even if all its source symbols are there. False when that would pass the limit, or the block
    /// was not being finished.
    pub(super) fn wrong(&mut self, sbn: u32, more: u32) -> bool {
        let extra_symbols = self.extra_symbols;
        let Some(block) = self.block(sbn) else { return false };
        if !matches!(block.phase, Phase::Finishing { .. }) {
            return false;
        }
        block.phase = Phase::Filling;
        block.wrong = true;
        block.target = block.received.saturating_add(more.max(1));
        if block.target > block.most_symbols(extra_symbols) {
            return false;
        }
        self.wants_again(sbn);
        true
    }

    /// More is wanted of a block that was thought to have enough.
    fn wants_again(&mut self, sbn: u32) {
        self.wanting_from = self.wanting_from.min(sbn);
        if self.is_streaming() {
            self.ask_for_deficit(sbn);
        }
    }

    /// Whether a group's stream fills the blocks.
    pub(super) fn is_streaming(&self) -> bool {
        self.streaming.is_some()
    }

    /// Asks for what a block will be short of, if anything.
    pub(super) fn ask_for_deficit(&mut self, sbn: u32) {
        let deficit = self.block(sbn).map_or(0, |b| b.deficit());
        if deficit > 0 {
            self.ask_beyond(sbn, deficit);
        }
    }

    /// Asks the group's sender for `count` more symbols of a block.
    pub(super) fn ask_beyond(&mut self, sbn: u32, count: u32) {
        let Some(block) = self.block(sbn) else { return };
        block.ask_beyond(count);
        let exhausted = block.coming.seen >= MAX_PLACES;
        if let Some(streaming) = &mut self.streaming {
            streaming.exhausted |= exhausted;
            streaming.passed = streaming.passed.min(sbn);
            streaming.unannounced = true;
        }
    }
}

#[cfg(test)]
mod tests;
