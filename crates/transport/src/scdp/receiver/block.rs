//! One open block at its receiver: what is here, on its way, and wanted.

use alloc::vec::Vec;

use super::assigned::Assigned;
use super::stream_account::Coming;
use crate::scdp::Share;

/// Symbols of a block with wrong bytes that are kept, for each source symbol, at most. Whoever looks for the altered ones
/// stops asking at eight times K, and asks for K and one more at a time.
const WRONG_FACTOR: u32 = 10;

/// Failed attempts to decode a block after each of which as few more symbols will do as the decoder says.
/// Symbols that came by chance fail so often once in 10^12 blocks (RFC 6330, section 5.8).
const PATIENCE: u32 = 3;

/// What became of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Intake {
    /// Of no use: here already, or its block is finished or being finished.
    Redundant,
    /// Of a block that does not exist or is not open.
    OutOfRange,
    /// Counted.
    Kept,
    /// Counted, and the block can be finished now; with the decoder or without.
    Finishable { decode: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Phase {
    /// Takes symbols.
    #[default]
    Filling,
    /// Handed to the decoder (or, with all source symbols there, to the application).
    Finishing { decode: bool },
    /// Done.
    Complete,
}

/// One open block.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) source_symbols: u32,
    /// Distinct symbols needed before the next attempt: K, and K + o once loss is seen
    /// (SCDP §IV-G), more after each failed attempt.
    pub(super) target: u32,
    /// Attempts to decode it that failed.
    failures: u32,
    pub(super) received: u32,
    received_source: u32,
    /// Credits granted for this block and counted on.
    pub(super) expected: u32,
    pub(super) lossy: bool,
    /// Its bytes turned out to be wrong once: more symbols than its own are wanted.
    pub(super) wrong: bool,
    pub(super) phase: Phase,
    /// Bit map of the source symbols received.
    source_seen: Vec<u64>,
    /// Sorted ESIs of the repair symbols received.
    repair_seen: Vec<u32>,
    /// Symbols each sender has been asked for, by its index among the session's.
    asked: Vec<u32>,
    /// Symbols of this block assigned to several senders that are directed.
    pub(super) assigned: Assigned,
    /// In a group: what its stream brings.
    pub(super) coming: Coming,
}

impl Block {
    pub(super) fn reset(&mut self, source_symbols: u32) {
        self.source_symbols = source_symbols;
        self.target = source_symbols;
        self.failures = 0;
        self.received = 0;
        self.received_source = 0;
        self.expected = 0;
        self.lossy = false;
        self.wrong = false;
        self.phase = Phase::Filling;
        self.source_seen.clear();
        self.source_seen.resize(source_symbols.div_ceil(64) as usize, 0);
        self.repair_seen.clear();
        self.asked.clear();
        self.assigned.reset(source_symbols);
        self.coming = Coming::default();
    }

    /// Notes that a sender is asked for `count` more symbols; those of its share that are source
    /// symbols come first.
    pub(super) fn ask(&mut self, sender: u8, count: u32) {
        let sender = usize::from(sender);
        if self.asked.len() <= sender {
            self.asked.resize(sender + 1, 0);
        }
        self.asked[sender] = self.asked[sender].saturating_add(count);
    }

    /// Source symbols of a sender's share that it has not been asked for.
    fn unasked(&self, share: Share) -> u32 {
        let asked = self.asked.get(usize::from(share.index)).copied().unwrap_or(0);
        share.source_symbols(self.source_symbols).saturating_sub(asked)
    }

    /// Symbols to ask this sender for: source symbols of its own share; repair symbols only in
    /// place of what no sender that `may_come` has a source symbol left for.
    pub(super) fn wanted_from(&self, share: Share, may_come: impl Fn(u8) -> bool) -> u32 {
        let deficit = self.deficit();
        if deficit == 0 {
            return 0;
        }
        let own = self.unasked(share);
        if own > 0 {
            return deficit.min(own);
        }
        let others = (0..share.count).filter(|&index| may_come(index));
        deficit.saturating_sub(others.map(|index| self.unasked(Share { index, ..share })).sum())
    }

    /// Symbols kept of it, at most: `extra_symbols` beyond K, or a few times K more if its bytes
    /// turned out to be wrong.
    pub(super) fn most_symbols(&self, extra_symbols: u32) -> u32 {
        let factor = if self.wrong { WRONG_FACTOR } else { 1 };
        self.source_symbols.saturating_mul(factor).saturating_add(extra_symbols)
    }

    /// Aims at so many more symbols after a failed attempt, and at ever more once chance does not explain
    /// the failures: each attempt is a whole solution, and a sender can choose symbols that say nothing new. The last
    /// attempt is made with as many as there may be; false after it.
    pub(super) fn aim_after_failure(&mut self, more: u32, extra_symbols: u32) -> bool {
        self.failures += 1;
        let most = self.most_symbols(extra_symbols);
        let doublings = self.failures.saturating_sub(PATIENCE);
        let step = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX).max(more);
        let is_open = self.received < most;
        self.target = self.received.saturating_add(step).min(most);
        is_open
    }

    pub(super) fn deficit(&self) -> u32 {
        match self.phase {
            Phase::Filling => self.target.saturating_sub(self.received + self.expected),
            _ => 0,
        }
    }

    /// Marks an ESI; false if it was marked before.
    pub(super) fn mark(&mut self, esi: u32) -> bool {
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

    /// Source symbols not marked, ascending.
    pub(super) fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.source_symbols).filter(|esi| !self.is_here(*esi))
    }

    /// Whether a symbol was marked.
    pub(super) fn is_here(&self, esi: u32) -> bool {
        if esi < self.source_symbols {
            self.source_seen[esi as usize / 64] & (1_u64 << (esi % 64)) != 0
        } else {
            self.repair_seen.binary_search(&esi).is_ok()
        }
    }

    pub(super) fn finishable(&self) -> Option<bool> {
        if self.received_source == self.source_symbols && !self.wrong {
            Some(false)
        } else if self.received >= self.target {
            Some(true)
        } else {
            None
        }
    }

    /// All K symbols come unasked, as a group's stream sends them.
    pub(super) fn expect_stream(&mut self) {
        self.coming = Coming { wanted: self.source_symbols, ..Coming::default() };
        self.expected = self.source_symbols;
    }

    /// Nothing comes but what is asked for from now on.
    pub(super) fn expect_nothing(&mut self) {
        self.coming = Coming::default();
        self.expected = 0;
    }

    /// A symbol of the group's stream that was not there before has come, or, if `trimmed`, its
    /// header.
    pub(super) fn come(&mut self, place: u32, trimmed: bool) {
        self.coming.come(place, trimmed);
        self.expected = self.coming.outstanding();
    }

    /// Nothing of the group's stream below that place is on its way any more. True if something
    /// was lost.
    pub(super) fn resolve(&mut self, through: u32) -> bool {
        let passed = self.coming.unresolved_below(through);
        if passed.is_empty() {
            return false;
        }
        let base = self.coming.base;
        let here = passed.clone().filter(|&place| self.is_here(base + place)).count() as u32;
        self.coming.resolve(passed.end, here);
        if self.phase != Phase::Filling {
            // Symbols that come now are not marked.
            self.coming.ahead = 0;
        }
        self.expected = self.coming.outstanding();
        self.phase == Phase::Filling && here < passed.end - passed.start
    }

    /// Asks the group's sender for `count` symbols beyond those wanted so far.
    pub(super) fn ask_beyond(&mut self, count: u32) {
        self.coming.ask_beyond(count);
        self.expected = self.coming.outstanding();
    }
}
