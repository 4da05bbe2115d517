//! Reception state of a block: the symbols received, the repair symbols themselves, and when an
//! attempt to decode is worth its cost.

use std::sync::Arc;

use wellspring_kernels::AlignedBuffer;

use super::block::{BlockShape, default_max_repairs};
use super::capacity;
use super::code::Code;
use super::received::Received;
use crate::Error;

/// What became of a symbol given to a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It counts.
    New,
    /// It was there before, or the block is complete: nothing changed.
    Duplicate,
    /// There is no room for more repair symbols: it was dropped.
    Full,
}

/// The place of a repair symbol that the caller lends.
pub(crate) const LENT: u32 = u32::MAX;

/// A block that has fallen short after so many solutions from the beginning was not sent by chance:
/// from then on a share of it has to come before the next.
const PATIENCE: u32 = 8;

/// The part of the symbols received that has to come anew before a block is tried again that was given
/// up: a block takes few solutions then, however its symbols were chosen.
const SHARE: u32 = 16;

/// The symbols received of one block.
#[derive(Debug)]
pub(crate) struct Reception {
    pub(crate) shape: BlockShape,
    pub(crate) received: Received,
    /// Repair symbols copied, in order of arrival.
    pub(crate) repairs: AlignedBuffer,
    /// For each repair symbol its place in `repairs`, or `LENT`.
    pub(crate) stored: Vec<u32>,
    copied: u32,
    max_repairs: u32,
    /// Symbols that must be there before the next attempt.
    until: u32,
    /// Solutions begun.
    starts: u32,
}

impl Reception {
    pub(crate) fn new(shape: BlockShape) -> Self {
        let mut reception = Self {
            max_repairs: default_max_repairs(shape.k),
            until: shape.k,
            shape,
            received: Received::default(),
            repairs: AlignedBuffer::default(),
            stored: Vec::new(),
            copied: 0,
            starts: 0,
        };
        reception.clear();
        reception
    }

    pub(crate) fn reset(
        &mut self,
        code: Arc<Code>,
        k: u32,
        symbol_size: usize,
    ) -> Result<(), Error> {
        self.shape = BlockShape::new(code, k, symbol_size)?;
        self.max_repairs = default_max_repairs(k);
        self.clear();
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.received.reset(self.shape.k);
        self.stored.clear();
        self.copied = 0;
        self.until = self.shape.k;
        self.starts = 0;
    }

    pub(crate) fn set_max_repairs(&mut self, max: u32) {
        self.max_repairs = max;
    }

    pub(crate) fn max_repairs(&self) -> u32 {
        self.max_repairs
    }

    pub(crate) fn received(&self) -> u32 {
        self.received.sources() + self.repairs()
    }

    pub(crate) fn repairs(&self) -> u32 {
        u32::try_from(self.received.repairs().len()).expect("24-bit IDs")
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.received.sources() == self.shape.k
    }

    pub(crate) fn has(&self, esi: u32) -> bool {
        self.is_complete() || self.received.has_source(esi) || self.received.has_repair(esi)
    }

    /// Symbols before the next attempt; with all source symbols none is needed.
    pub(crate) fn wanted(&self) -> u32 {
        let missing = self.shape.k - self.received.sources();
        self.until.saturating_sub(self.received()).min(missing)
    }

    /// Notes that a solution is begun with the symbols at hand.
    pub(crate) fn note_start(&mut self) {
        self.starts = self.starts.saturating_add(1);
    }

    /// Notes that `deficit` symbols are lacking at least.
    pub(crate) fn note_short(&mut self, deficit: u32) {
        let more = if self.starts > PATIENCE { deficit.max(self.share()) } else { deficit };
        self.until = self.received().saturating_add(more);
    }

    /// Notes that a solution was given up.
    pub(crate) fn note_given_up(&mut self) {
        self.until = self.received().saturating_add(self.share());
    }

    fn share(&self) -> u32 {
        (self.received() / SHARE).max(1)
    }

    pub(crate) fn mark_source(&mut self, esi: u32) -> Result<Added, Error> {
        if esi >= self.shape.k {
            return Err(Error::SymbolId { got: esi, limit: self.shape.k });
        }
        if self.is_complete() || !self.received.add_source(esi) {
            return Ok(Added::Duplicate);
        }
        Ok(Added::New)
    }

    pub(crate) fn add_repair(&mut self, esi: u32, symbol: &[u8]) -> Result<Added, Error> {
        self.shape.check_symbol(symbol.len())?;
        let place = self.copied;
        let added = self.note_repair(esi, place)?;
        if added == Added::New {
            self.copied += 1;
            let (place, stride) = (place as usize, self.shape.stride());
            self.repairs.reserve_len((place + 1) * stride);
            self.repairs[place * stride..][..symbol.len()].copy_from_slice(symbol);
        }
        Ok(added)
    }

    pub(crate) fn note_repair(&mut self, esi: u32, place: u32) -> Result<Added, Error> {
        self.shape.internal_id(esi)?;
        if esi < self.shape.k {
            return Err(Error::SymbolId { got: esi, limit: self.shape.k });
        }
        if self.is_complete() || self.received.has_repair(esi) {
            return Ok(Added::Duplicate);
        }
        if self.repairs() >= self.max_repairs {
            return Ok(Added::Full);
        }
        self.received.add_repair(esi);
        self.stored.push(place);
        Ok(Added::New)
    }

    pub(crate) fn add(
        &mut self,
        block: &mut [u8],
        esi: u32,
        symbol: &[u8],
    ) -> Result<Added, Error> {
        if esi >= self.shape.k {
            return self.add_repair(esi, symbol);
        }
        self.shape.check_symbol(symbol.len())?;
        self.shape.check_block(block.len())?;
        if self.has(esi) {
            return Ok(Added::Duplicate);
        }
        let start = esi as usize * symbol.len();
        let end = block.len().min(start + symbol.len());
        block[start..end].copy_from_slice(&symbol[..end - start]);
        self.mark_source(esi)
    }

    pub(crate) fn memory(&self) -> usize {
        self.received.memory() + self.repairs.memory() + 4 * self.stored.capacity()
    }

    /// Memory once exactly so many repair symbols have theirs reserved, if there is none for more yet.
    pub(crate) fn memory_with(&self, repairs: usize) -> usize {
        self.received.memory_with(repairs) + repairs * (self.shape.stride() + 4)
    }

    /// Repair symbols that can be copied without growing.
    pub(crate) fn repair_capacity(&self) -> usize {
        self.stored.capacity()
    }

    /// Reserves memory for exactly so many repair symbols.
    pub(crate) fn reserve_repairs(&mut self, repairs: usize) {
        self.received.reserve(repairs);
        capacity::reserve(&mut self.stored, repairs);
        self.repairs.reserve(repairs * self.shape.stride());
    }

    /// Reserves memory for the IDs of all repair symbols there may be, if the code is small.
    pub(crate) fn reserve_ids(&mut self) {
        let repairs = self.shape.reserved_repairs(self.max_repairs);
        self.received.reserve(repairs);
        capacity::reserve(&mut self.stored, repairs);
    }

    /// Reserves memory for copies of all repair symbols there may be before the first, if the code is small.
    pub(crate) fn reserve_copies(&mut self) {
        if self.copied == 0 {
            let repairs = self.shape.reserved_copies(self.max_repairs);
            self.repairs.reserve(repairs * self.shape.stride());
        }
    }
}
