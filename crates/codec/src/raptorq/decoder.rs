//! Recovering a source block from any mix of its encoding symbols (RFC 6330 §5.4).

use std::sync::Arc;

use wellspring_kernels::{AlignedBuffer, Kernels, Program, RowStorage, RowTable, Workspace};

use super::attempt::{Attempt, Context, Fresh, Road, zero_symbol};
use super::block::BlockShape;
use super::code::{Code, strip_len};
use super::cost;
use super::received::Received;
use super::solver::Rank;
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
    /// An attempt fell short by so many symbols, and the next can go on from there.
    Short(u32),
    /// An attempt with so many symbols was given up: more of them are wanted before the next.
    GivenUp(u32),
    Complete,
}

/// Recovers one source block.
///
/// The block stands in the caller's memory: source symbols are received into their place, and
/// decoding writes the missing ones between them. Repair symbols are copied, or lent by the caller
/// ([`mark_repair`](Self::mark_repair)). A decoder is reused for any number of blocks, and once warm it allocates nothing.
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
    /// Repair symbols copied, in order of arrival.
    repairs: AlignedBuffer,
    /// For each repair symbol its place in `repairs`, or `LENT`.
    stored: Vec<u32>,
    copied: u32,
    /// The last source symbol, where the block has only a part of it.
    tail: AlignedBuffer,
    phase: Phase,
    /// Symbols that came after an attempt fell short.
    fresh: Vec<Fresh>,
    attempt: Attempt,
    forced: Option<Road>,
    program: Program,
    zero: AlignedBuffer,
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
            stored: Vec::new(),
            copied: 0,
            tail: AlignedBuffer::default(),
            phase: Phase::Collecting,
            fresh: Vec::new(),
            attempt: Attempt::default(),
            forced: None,
            program: Program::new(),
            zero: AlignedBuffer::default(),
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
        self.stored.clear();
        self.copied = 0;
        self.phase = Phase::Collecting;
        self.fresh.clear();
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
            Phase::Short(deficit) => {
                deficit.saturating_sub(u32::try_from(self.fresh.len()).expect("24-bit IDs"))
            }
            Phase::GivenUp(symbols) => u32::from(self.received() <= symbols),
            _ => self.shape.k.saturating_sub(self.received()),
        }
    }

    /// Memory the decoder holds \[bytes\], without its code and the block.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.received.memory()
            + self.repairs.memory()
            + self.tail.memory()
            + self.attempt.memory()
            + 4 * self.stored.capacity()
            + 8 * self.fresh.capacity()
            + self.program.memory()
            + self.zero.memory()
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
        if matches!(self.phase, Phase::Short(_)) {
            self.fresh.push((esi, esi));
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

    /// Notes that the caller holds repair symbol `esi` and will lend it to
    /// [`try_decode_with`](Self::try_decode_with): nothing is copied.
    ///
    /// # Errors
    ///
    /// [`Error::SymbolId`] if `esi` is below K or not below 2^24.
    pub fn mark_repair(&mut self, esi: u32) -> Result<Added, Error> {
        self.note_repair(esi, LENT)
    }

    fn note_repair(&mut self, esi: u32, place: u32) -> Result<Added, Error> {
        self.shape.internal_id(esi)?;
        if esi < self.shape.k {
            return Err(Error::SymbolId { got: esi, limit: self.shape.k });
        }
        if self.is_complete() || self.received.has_repair(esi) {
            return Ok(Added::Duplicate);
        }
        let known = self.repairs();
        if known >= self.max_repairs {
            return Ok(Added::Full);
        }
        self.received.add_repair(esi);
        self.stored.push(place);
        if matches!(self.phase, Phase::Short(_)) {
            self.fresh.push((esi, self.shape.k + known));
        }
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
        self.try_decode_with(block, |_| &[])
    }

    /// As [`try_decode`](Self::try_decode); the repair symbols noted by
    /// [`mark_repair`](Self::mark_repair) are read where `lent(esi)` says they stand.
    ///
    /// `lent` is asked for no others, for each at most once, and not at all unless decoding
    /// succeeds.
    ///
    /// # Errors
    ///
    /// As [`try_decode`](Self::try_decode), and [`Error::SymbolLength`] if a symbol lent is not as
    /// long as the symbol size; the block is then as it was.
    pub fn try_decode_with<'a>(
        &mut self,
        block: &mut [u8],
        lent: impl Fn(u32) -> &'a [u8],
    ) -> Result<Decoded, Error> {
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
        self.fresh.clear();
        match rank {
            Rank::Full => {
                let recovered = self.recover(block, lent);
                if let Err(error) = recovered {
                    // The next attempt starts anew.
                    self.phase = Phase::Collecting;
                    return Err(error);
                }
                self.received.add_all_sources(self.shape.k);
                self.phase = Phase::Complete;
                Ok(Decoded::Complete)
            }
            Rank::Short(deficit) => {
                let deficit = u32::try_from(deficit).expect("less than K' symbols");
                self.phase = Phase::Short(deficit);
                Ok(Decoded::NeedMore(deficit))
            }
            Rank::GivenUp => {
                self.phase = Phase::GivenUp(self.received());
                Ok(Decoded::NeedMore(1))
            }
        }
    }

    /// Makes every further block be decoded on one road, for comparisons and tests; `None` lets
    /// the decoder choose. A road the code is too large for is not taken.
    pub fn force_road(&mut self, road: Option<Road>) {
        self.forced = road;
    }

    /// The road of the last attempt.
    #[must_use]
    pub fn road(&self) -> Option<Road> {
        self.attempt.road()
    }

    /// Finds out whether the symbols determine the block.
    fn solve(&mut self) -> Rank {
        let context =
            Context { kernels: self.kernels, shape: &self.shape, received: &self.received };
        if let Phase::Short(deficit) = self.phase {
            let mut rank = Rank::Short(deficit as usize);
            for &fresh in &self.fresh {
                rank = self.attempt.extend(&context, fresh);
            }
            return rank;
        }
        let missing = self.shape.k - self.received.sources();
        let road = cost::choose(&self.shape, self.kernels.isa(), missing, self.forced);
        self.attempt.start(&context, road)
    }

    /// Computes the missing source symbols from the solution.
    fn recover<'a>(
        &mut self,
        block: &mut [u8],
        lent: impl Fn(u32) -> &'a [u8],
    ) -> Result<(), Error> {
        let shape = &self.shape;
        let context = Context { kernels: self.kernels, shape, received: &self.received };
        self.program.clear();
        self.attempt.finish(&context, &mut self.program);

        let (k, t, stride) = (shape.k as usize, shape.symbol_size, shape.stride());
        let whole = block.len() / t;
        let (symbols, rest) = block.split_at_mut(whole * t);
        if whole < k {
            zero_symbol(&mut self.tail, stride);
            if self.received.has_source(shape.k - 1) {
                self.tail[..rest.len()].copy_from_slice(rest);
            }
        }
        let repairs = self.received.repairs().len();
        let mut rows = RowTable::new(&mut self.rows, t);
        rows.push_exclusive_rows(symbols, t, whole);
        if whole < k {
            rows.push_exclusive(&mut self.tail);
        }
        for (&esi, &place) in self.received.repairs().iter().zip(&self.stored) {
            if place == LENT {
                let symbol = lent(esi);
                shape.check_symbol(symbol.len())?;
                rows.push_shared(symbol);
            } else {
                rows.push_shared(&self.repairs[place as usize * stride..]);
            }
        }
        let columns = Some(&shape.code.constraints().hdpc);
        if self.attempt.road() == Some(Road::Syndrome) {
            zero_symbol(&mut self.zero, stride);
            rows.push_shared(&self.zero);
            let (zero, first) = (k + repairs, k + repairs + 1);
            for esi in 0..shape.code.extended_symbols() {
                let there = esi < shape.k && self.attempt.is_input(esi);
                rows.push_alias(if there { esi as usize } else { zero });
            }
            let plan = shape.code.plan(self.kernels);
            let programs = [(&plan.first, first), (&self.program, 0)];
            let strip = strip_len(self.program.work_rows());
            let workspace = &mut self.workspace;
            Program::run_all(&programs, self.kernels, &rows, columns, workspace, strip);
        } else {
            let strip = strip_len(self.program.work_rows());
            self.program.run(self.kernels, &rows, columns, &mut self.workspace, strip);
        }
        rest.copy_from_slice(&self.tail[..rest.len()]);
        Ok(())
    }
}

/// The place of a repair symbol that the caller lends.
const LENT: u32 = u32::MAX;

/// Room for a block of repair symbols only and a generous number of failed attempts.
fn default_max_repairs(k: u32) -> u32 {
    k + 64
}
