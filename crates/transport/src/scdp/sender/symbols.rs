//! Choice of the next symbol: no symbol of a block is ever sent twice.

use alloc::collections::VecDeque;
use wellspring_wire::scdp::MAX_ESI;

use crate::scdp::{ObjectInfo, Resume, Share};

/// Blocks beyond the lowest one still served that may be asked for.
pub(super) const MAX_BLOCKS_AHEAD: u32 = 4_096;

/// Where a sender that takes over from another starts among the repair symbols: epoch `e` begins
/// at `e` times this, so that no two of the first 15 epochs meet.
const RESUME_STRIDE: u32 = 1 << 20;

/// First ESI of the blocks a sender in that epoch takes over from an earlier one.
pub(in crate::scdp) fn resumed_base(epoch: u8) -> u32 {
    u32::from(epoch.clamp(1, 15)) * RESUME_STRIDE
}

/// The next ESI of every block between the receivers' floor and the highest block served.
#[derive(Debug)]
pub(super) struct SymbolStream {
    share: Share,
    /// First ESI of blocks below `fresh_from`, where an earlier sender has been at work.
    resumed_base: u32,
    fresh_from: u32,
    floor: u32,
    /// Symbols of block `floor + i` sent so far.
    sent: VecDeque<u32>,
}

impl SymbolStream {
    pub(super) fn new(share: Share, resume: Option<Resume>) -> Self {
        let (resumed_base, fresh_from, floor) = match resume {
            Some(r) => (resumed_base(r.epoch), r.horizon, r.floor),
            None => (0, 0, 0),
        };
        SymbolStream { share, resumed_base, fresh_from, floor, sent: VecDeque::new() }
    }

    /// Lowest block still served.
    pub(super) fn floor(&self) -> u32 {
        self.floor
    }

    /// Symbols of a block sent so far; 0 below the floor.
    pub(super) fn sent(&self, sbn: u32) -> u32 {
        let index = sbn.checked_sub(self.floor);
        index.and_then(|i| self.sent.get(i as usize)).copied().unwrap_or(0)
    }

    /// First block never served so far.
    pub(super) fn horizon(&self) -> u32 {
        (self.floor + self.sent.len() as u32).max(self.fresh_from)
    }

    /// The block that the `number`th symbol pushed unasked belongs to. Only the lowest incomplete
    /// block is sure to be wanted of a sender that takes over from another.
    pub(super) fn pushed_block(&self, object: &ObjectInfo, number: u32) -> u32 {
        match self.fresh_from {
            0 => self.share.pushed_block(object, number),
            _ => self.floor,
        }
    }

    /// The receivers have all blocks below.
    pub(super) fn raise_floor(&mut self, floor: u32) {
        while self.floor < floor {
            self.sent.pop_front();
            self.floor += 1;
            if self.sent.is_empty() {
                self.floor = floor;
            }
        }
    }

    /// The next ESI of a block: source symbols of this sender's share, then repair symbols
    /// (SCDP §IV-E). `None` when the block's ESIs are used up or it is out of range.
    pub(super) fn next_esi(&mut self, sbn: u32) -> Option<u32> {
        // A block below the floor is complete at every receiver that said so; one that still
        // asks for it is served by the floor's block.
        let index = sbn.max(self.floor) - self.floor;
        if index >= MAX_BLOCKS_AHEAD {
            return None;
        }
        if self.sent.len() <= index as usize {
            self.sent.resize(index as usize + 1, 0);
        }
        let base = if sbn < self.fresh_from { self.resumed_base } else { 0 };
        let count = u32::from(self.share.count.max(1));
        // The base is rounded so that ESIs keep this sender's residue.
        let base = base.next_multiple_of(count);
        let sent = &mut self.sent[index as usize];
        let esi = sent
            .checked_mul(count)
            .and_then(|offset| offset.checked_add(base + u32::from(self.share.index)))
            .filter(|&esi| esi <= MAX_ESI)?;
        *sent += 1;
        Some(esi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn shares_never_meet_and_cover_everything() {
        let mut seen = BTreeSet::new();
        for index in 0..3 {
            let mut stream = SymbolStream::new(Share { index, count: 3 }, None);
            for _ in 0..50 {
                assert!(seen.insert(stream.next_esi(0).expect("plenty")));
            }
        }
        assert_eq!(seen.len(), 150);
        assert_eq!(seen.last(), Some(&149));
    }

    #[test]
    fn a_resumed_block_gets_repair_symbols_never_sent_before() {
        let share = Share { index: 2, count: 3 };
        let resume = Resume { epoch: 1, floor: 5, horizon: 7 };
        let mut stream = SymbolStream::new(share, Some(resume));
        let esi = stream.next_esi(6).expect("plenty");
        assert!(esi >= RESUME_STRIDE && esi % 3 == 2, "{esi}");
        assert_eq!(stream.next_esi(7), Some(2), "a block nobody served starts at its source");
        assert_eq!(stream.horizon(), 8);
    }

    #[test]
    fn floors_free_what_lies_below() {
        let mut stream = SymbolStream::new(Share::WHOLE, None);
        for sbn in 0..10 {
            assert_eq!(stream.next_esi(sbn), Some(0));
        }
        stream.raise_floor(8);
        assert_eq!((stream.floor(), stream.sent.len()), (8, 2));
        assert_eq!(stream.next_esi(9), Some(1));
        stream.raise_floor(1_000_000_000);
        assert_eq!(stream.floor(), 1_000_000_000);
        assert_eq!(stream.next_esi(1_000_000_000 + MAX_BLOCKS_AHEAD), None);
    }
}
