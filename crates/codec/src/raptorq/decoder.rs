//! Recovering a source block from any mix of its encoding symbols (RFC 6330 §5.4).

use std::sync::Arc;

use wellspring_kernels::{
    AlignedBuffer, Kernels, Operand, Program, RowStorage, RowTable, Workspace,
};

use super::block::BlockShape;
use super::code::{Code, strip_len};
use super::received::Received;
use super::schedule;
use super::solver::{Rank, Solver};
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

/// What an attempt to decode came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Every source symbol stands in the block.
    Complete,
    /// At least so many more symbols are needed. The source symbols received are untouched.
    NeedMore(u32),
}

/// How far a decoder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No attempt has been made with the symbols so far.
    Collecting,
    /// An attempt fell short; the solver goes on with the symbols from these numbers on.
    Short {
        deficit: u32,
        repairs: usize,
    },
    Complete,
}

/// Recovers one source block.
///
/// The block stands in the caller's memory: source symbols are received into their place, and
/// decoding writes the missing ones between them. Only repair symbols are copied. A decoder is
/// reused for any number of blocks, and once warm it allocates nothing.
///
/// # Examples
///
/// ```
/// use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded};
/// # fn main() -> Result<(), wellspring_codec::Error> {
/// let source = b"The quick brown fox jumps over the lazy dog.";
/// let (k, symbol_size) = (11, 4);
/// let code = Code::new(k)?;
/// let mut encoder = BlockEncoder::new(code.clone(), k, symbol_size)?;
/// let mut decoder = BlockDecoder::new(code, k, symbol_size)?;
///
/// let mut block = *source;
/// for esi in 0..k {
///     if esi == 3 {
///         block[12..16].fill(0); // lost
///     } else {
///         decoder.mark_source(esi)?; // already in place
///     }
/// }
/// assert_eq!(decoder.try_decode(&mut block)?, Decoded::NeedMore(1));
/// let mut repair = [0; 4];
/// encoder.encode(source, 11, &mut repair)?;
/// decoder.add_repair(11, &repair)?;
/// assert_eq!(decoder.try_decode(&mut block)?, Decoded::Complete);
/// assert_eq!(&block, source);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BlockDecoder {
    shape: BlockShape,
    kernels: Kernels,
    max_repairs: u32,
    received: Received,
    /// Repair symbols in order of arrival.
    repairs: AlignedBuffer,
    /// The last source symbol, where the block has only a part of it.
    tail: AlignedBuffer,
    phase: Phase,
    solver: Solver,
    /// For each symbol given to the solver the external row of its bytes; `None` for padding.
    values: Vec<Option<u32>>,
    program: Program,
    columns: Vec<u32>,
    rows: RowStorage,
    workspace: Workspace,
}

impl BlockDecoder {
    /// A decoder for blocks of `k` symbols of `symbol_size` bytes with the fastest kernels.
    ///
    /// # Errors
    ///
    /// [`Error::SourceSymbols`] if `code` is not for blocks of `k` symbols, [`Error::SymbolSize`]
    /// if the symbol size is zero or beyond 65,535.
    pub fn new(code: Arc<Code>, k: u32, symbol_size: usize) -> Result<Self, Error> {
        Self::with_kernels(code, k, symbol_size, Kernels::detect())
    }

    /// As [`new`](Self::new), with given kernels.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_kernels(
        code: Arc<Code>,
        k: u32,
        symbol_size: usize,
        kernels: Kernels,
    ) -> Result<Self, Error> {
        let shape = BlockShape::new(code, k, symbol_size)?;
        let mut received = Received::default();
        received.reset(k);
        Ok(Self {
            max_repairs: default_max_repairs(k),
            shape,
            kernels,
            received,
            repairs: AlignedBuffer::default(),
            tail: AlignedBuffer::default(),
            phase: Phase::Collecting,
            solver: Solver::default(),
            values: Vec::new(),
            program: Program::new(),
            columns: Vec::new(),
            rows: RowStorage::default(),
            workspace: Workspace::default(),
        })
    }

    /// Turns to another block, perhaps of another shape; memory is kept.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); the decoder then stays as it was.
    pub fn reset(&mut self, code: Arc<Code>, k: u32, symbol_size: usize) -> Result<(), Error> {
        self.shape = BlockShape::new(code, k, symbol_size)?;
        self.max_repairs = default_max_repairs(k);
        self.clear();
        Ok(())
    }

    /// Turns to another block of the same shape; memory is kept.
    pub fn clear(&mut self) {
        self.received.reset(self.shape.k);
        self.phase = Phase::Collecting;
    }

    /// Bounds the number of repair symbols stored, and so the memory they take. At first it is
    /// K + 64; beyond it [`add_repair`](Self::add_repair) drops symbols.
    pub fn set_max_repairs(&mut self, max: u32) {
        self.max_repairs = max;
    }

    /// Source symbols of the block, K.
    #[must_use]
    pub fn source_symbols(&self) -> u32 {
        self.shape.k
    }

    /// The symbol size, T \[bytes\].
    #[must_use]
    pub fn symbol_size(&self) -> usize {
        self.shape.symbol_size
    }

    /// Whether source symbol `esi` stands in the block, received or decoded.
    #[must_use]
    pub fn has_source(&self, esi: u32) -> bool {
        self.received.has_source(esi)
    }

    /// Whether encoding symbol `esi` was received, or can no longer be of use.
    #[must_use]
    pub fn has(&self, esi: u32) -> bool {
        self.is_complete() || self.received.has_source(esi) || self.received.has_repair(esi)
    }

    /// Source symbols that do not stand in the block yet, ascending.
    pub fn missing(&self) -> impl Iterator<Item = u32> {
        self.received.missing(self.shape.k)
    }

    /// Distinct symbols received.
    #[must_use]
    pub fn received(&self) -> u32 {
        self.received.sources() + self.repairs()
    }

    /// Repair symbols stored.
    #[must_use]
    pub fn repairs(&self) -> u32 {
        u32::try_from(self.received.repairs().len()).expect("24-bit IDs")
    }

    /// Whether every source symbol stands in the block.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Complete || self.received.sources() == self.shape.k
    }

    /// At least how many more symbols are needed before decoding can succeed; zero if an attempt is
    /// worth its cost now, or the block is complete.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        if self.is_complete() {
            return 0;
        }
        match self.phase {
            Phase::Short { deficit, repairs } => {
                let new = self.received.repairs().len() - repairs;
                deficit.saturating_sub(u32::try_from(new).expect("24-bit IDs"))
            }
            _ => self.shape.k.saturating_sub(self.received()),
        }
    }

    /// Memory the decoder holds \[bytes\], without its code and the block.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.received.memory()
            + self.repairs.memory()
            + self.tail.memory()
            + self.solver.memory()
            + 8 * self.values.capacity()
            + self.program.memory()
            + 4 * self.columns.capacity()
            + self.rows.memory()
            + self.workspace.memory()
    }

    /// Notes that source symbol `esi` stands in its place in the block.
    ///
    /// # Errors
    ///
    /// [`Error::SymbolId`] if `esi` is not below K.
    pub fn mark_source(&mut self, esi: u32) -> Result<Added, Error> {
        if esi >= self.shape.k {
            return Err(Error::SymbolId { got: esi, limit: self.shape.k });
        }
        if self.is_complete() || !self.received.add_source(esi) {
            return Ok(Added::Duplicate);
        }
        if matches!(self.phase, Phase::Short { .. }) {
            // The solver has no row for it: the next attempt starts anew.
            self.phase = Phase::Collecting;
        }
        Ok(Added::New)
    }

    /// Stores repair symbol `esi`.
    ///
    /// # Errors
    ///
    /// [`Error::SymbolId`] if `esi` is below K or not below 2^24, [`Error::SymbolLength`] if
    /// `symbol` is not as long as the symbol size.
    pub fn add_repair(&mut self, esi: u32, symbol: &[u8]) -> Result<Added, Error> {
        self.shape.internal_id(esi)?;
        if esi < self.shape.k {
            return Err(Error::SymbolId { got: esi, limit: self.shape.k });
        }
        self.shape.check_symbol(symbol.len())?;
        if self.is_complete() || self.received.has_repair(esi) {
            return Ok(Added::Duplicate);
        }
        let stored = self.received.repairs().len();
        if stored >= self.max_repairs as usize {
            return Ok(Added::Full);
        }
        self.received.add_repair(esi);
        let stride = self.shape.stride();
        self.repairs.reserve_len((stored + 1) * stride);
        self.repairs[stored * stride..][..symbol.len()].copy_from_slice(symbol);
        Ok(Added::New)
    }

    /// Takes any encoding symbol: copies a source symbol into its place in `block`, where the last
    /// one may be cut short, and stores a repair symbol.
    ///
    /// # Errors
    ///
    /// As [`add_repair`](Self::add_repair), and [`Error::BlockLength`] if `block` has not the
    /// length of the block.
    pub fn add(&mut self, block: &mut [u8], esi: u32, symbol: &[u8]) -> Result<Added, Error> {
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

    /// Decodes if the symbols received determine the block, and writes the missing source symbols
    /// into `block`.
    ///
    /// Does nothing while [`wanted`](Self::wanted) is not zero. An attempt that falls short
    /// touches no symbol, and the next one goes on where it ended.
    ///
    /// # Errors
    ///
    /// [`Error::BlockLength`] if `block` has not the length of the block: K times T, or less if
    /// the last symbol is cut short.
    pub fn try_decode(&mut self, block: &mut [u8]) -> Result<Decoded, Error> {
        self.shape.check_block(block.len())?;
        if self.is_complete() {
            self.phase = Phase::Complete;
            return Ok(Decoded::Complete);
        }
        match self.wanted() {
            0 => {}
            wanted => return Ok(Decoded::NeedMore(wanted)),
        }
        let rank = self.solve();
        let repairs = self.received.repairs().len();
        match rank {
            Rank::Full => {
                self.recover(block);
                for esi in 0..self.shape.k {
                    self.received.add_source(esi);
                }
                self.phase = Phase::Complete;
                Ok(Decoded::Complete)
            }
            Rank::Short(deficit) => {
                let deficit = u32::try_from(deficit).expect("less than K' symbols");
                self.phase = Phase::Short { deficit, repairs };
                Ok(Decoded::NeedMore(deficit))
            }
            Rank::GivenUp => {
                self.phase = Phase::Short { deficit: 1, repairs };
                self.values.clear();
                Ok(Decoded::NeedMore(1))
            }
        }
    }

    /// Finds out whether the symbols determine the block.
    fn solve(&mut self) -> Rank {
        let constraints = self.shape.code.constraints();
        let k = self.shape.k;
        let padding = self.shape.code.extended_symbols() - k;
        let repairs = self.received.repairs();
        if let Phase::Short { repairs: known, .. } = self.phase
            && !self.values.is_empty()
        {
            let mut rank = Rank::Full;
            for (i, &esi) in (0..).zip(repairs).skip(known) {
                self.values.push(Some(k + i));
                rank = self.solver.extend(self.kernels, constraints, esi + padding);
            }
            return rank;
        }
        self.values.clear();
        self.values.extend((0..k).filter(|&esi| self.received.has_source(esi)).map(Some));
        self.values.extend((0..padding).map(|_| None));
        self.values.extend((k..).zip(repairs).map(|(row, _)| Some(row)));
        let received = &self.received;
        let symbols = (0..k)
            .filter(|&esi| received.has_source(esi))
            .chain(k..k + padding)
            .chain(repairs.iter().map(|&esi| esi + padding));
        self.solver.solve(self.kernels, constraints, symbols)
    }

    /// Computes the missing source symbols from the solver's solution.
    fn recover(&mut self, block: &mut [u8]) {
        let shape = &self.shape;
        let constraints = shape.code.constraints();
        self.program.clear();
        let values = &self.values;
        schedule::intermediate_symbols(&mut self.program, &self.solver, constraints, |i| {
            values[i as usize]
        });
        for esi in self.received.missing(shape.k) {
            let to = Operand::External(esi);
            schedule::encoding_symbol(&mut self.program, constraints, esi, to, &mut self.columns);
        }
        let (k, t, stride) = (shape.k as usize, shape.symbol_size, shape.stride());
        let whole = block.len() / t;
        let (symbols, rest) = block.split_at_mut(whole * t);
        self.tail.resize(stride);
        if whole < k {
            self.tail.fill(0);
            if self.received.has_source(shape.k - 1) {
                self.tail[..rest.len()].copy_from_slice(rest);
            }
        }
        let mut rows = RowTable::new(&mut self.rows, t);
        rows.push_exclusive_rows(symbols, t, whole);
        if whole < k {
            rows.push_exclusive(&mut self.tail);
        }
        rows.push_shared_rows(&self.repairs, stride, self.received.repairs().len());
        self.program.run(
            self.kernels,
            &rows,
            Some(&constraints.hdpc),
            &mut self.workspace,
            strip_len(self.program.work_rows()),
        );
        rest.copy_from_slice(&self.tail[..rest.len()]);
    }
}

/// Room for a block of repair symbols only and a generous number of failed attempts.
fn default_max_repairs(k: u32) -> u32 {
    k + 64
}
