//! Accounts of a group's stream at one of its receivers, for each block and over all of them.
//!
//! The sender of a group sends every block's K symbols unasked, the lowest block first, and then
//! what receivers ask for, so a receiver knows from the symbols' places in their blocks (not from
//! the numbers of its credits, which other receivers may use up) which symbols have passed it by.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

/// Places of a block that are kept account of: a pull says how many are wanted in 16 bits.
pub(super) const MAX_PLACES: u32 = u16::MAX as u32;
/// Packets whose consequences wait for others sent before them, at most.
pub(super) const MAX_ARRIVALS: usize = 65_536;
/// Trimmed places of a block remembered until they are resolved, at most; one more is asked for
/// when the stream has passed it.
pub(super) const MAX_TRIMMED: usize = 1_024;

/// Account of one block: which of its symbols the group's stream still brings.
///
/// Symbols of a block are sent in the order of their *places*: place 0 is the first one sent.
#[derive(Debug, Default)]
pub(super) struct Coming {
    /// Places that will be sent, as far as this receiver knows or has asked for.
    pub(super) wanted: u32,
    /// Places below are accounted for: here, or lost.
    pub(super) resolved: u32,
    /// Places from `resolved` on that are here, or were trimmed.
    pub(super) ahead: u32,
    /// Places from `resolved` on that were trimmed.
    pub(super) trimmed: Vec<u32>,
    /// Places below were sent, as one of them shows.
    pub(super) seen: u32,
    /// Times in a row that more was asked for and no place beyond `seen` came.
    pub(super) asks: u32,
    /// ESI of place 0.
    pub(super) base: u32,
    /// Packets beyond this number were sent after what was asked for last was known; none as long
    /// as nothing was announced.
    pub(super) asked_at: Option<u32>,
    pub(super) unannounced: bool,
}

impl Coming {
    /// Symbols that are still to come.
    pub(super) fn outstanding(&self) -> u32 {
        // A hostile sender can fill a place twice, under the ESIs of two epochs.
        self.wanted.saturating_sub(self.resolved + self.ahead)
    }

    /// A symbol that was not there before has come, or, if `trimmed`, its header.
    pub(super) fn come(&mut self, place: u32, trimmed: bool) {
        if trimmed && self.trimmed.len() >= MAX_TRIMMED {
            return;
        }
        // Beyond what this receiver knows of, others have asked for it and all before it.
        self.wanted = self.wanted.max(place + 1);
        if place >= self.seen {
            self.seen = place + 1;
            self.asks = 0;
        }
        if place >= self.resolved && !self.trimmed.contains(&place) {
            self.ahead += 1;
            if trimmed {
                self.trimmed.push(place);
            }
        }
    }

    /// The places that nothing more will come of once the stream has passed `through`.
    pub(super) fn unresolved_below(&self, through: u32) -> Range<u32> {
        self.resolved..through.min(self.wanted)
    }

    /// Resolves the places below `through`, of which `here` symbols have come since the last time.
    pub(super) fn resolve(&mut self, through: u32, here: u32) {
        let trimmed = self.trimmed.iter().filter(|&&place| place < through).count() as u32;
        self.trimmed.retain(|&place| place >= through);
        self.resolved = through;
        self.ahead = self.ahead.saturating_sub(here + trimmed);
    }

    /// Asks for `count` symbols beyond those wanted so far.
    ///
    /// An ask that brought nothing may have been lost itself, and then it is to be repeated, or
    /// what it brought was lost, and then it is to be exceeded. Exceeding it at every power of two
    /// does both, and asks that nobody hears do not add up.
    pub(super) fn ask_beyond(&mut self, count: u32) {
        self.asks = self.asks.saturating_add(1);
        if self.asks.is_power_of_two() && self.wanted + count <= MAX_PLACES {
            self.wanted += count;
        } else {
            let outstanding = self.outstanding() + count;
            self.resolved = self.resolved.min(self.seen);
            let enough = self.resolved + self.ahead + outstanding;
            self.wanted = self.wanted.max(enough.min(MAX_PLACES));
        }
        self.asked_at = None;
        self.unannounced = true;
    }
}

/// Progress of a group's stream over the blocks.
#[derive(Debug, Default)]
pub(super) struct Streaming {
    /// `(number, block, place)` of packets that others sent before may still follow.
    pub(super) arrivals: VecDeque<(u32, u32, u32)>,
    /// All that was to come of blocks below is accounted for.
    pub(super) passed: u32,
    /// Some block's sender is to learn that more is wanted.
    pub(super) unannounced: bool,
    /// More is wanted of some block of which all was sent that a pull can ask for.
    pub(super) exhausted: bool,
}
