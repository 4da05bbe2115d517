//! Recovering a source block from any mix of its encoding symbols (RFC 6330 §5.4).

use std::sync::Arc;

use wellspring_kernels::Kernels;

use super::block::BlockShape;
use super::code::Code;
use super::cost::DecodingPath;
use super::reception::{Added, LENT, Reception};
use super::recovery::{Decoded, Recovery};
use crate::Error;

/// Recovers one source block.
///
/// The block stands in the caller's memory: source symbols are received into their place, and
/// decoding writes the missing ones between them. Repair symbols are copied, or lent by the caller
/// ([`mark_repair`](Self::mark_repair)).
///
/// # Memory
///
/// A decoder is reused for any number of blocks. For K up to 257 it reserves with the first block it
/// decodes what any other of that K and T can need, whatever is lost and whichever symbols come, and
/// allocates nothing after it: about 0.1 MB for K = 10, 0.7 MB for K = 100 and 2.2 MB for K = 257,
/// most of it never touched. Beside that, the first repair symbol that is copied reserves memory for
/// K + 64 of them, if that is at most 1 MiB. (More than K + 64 repair symbols, which only
/// [`set_max_repairs`](Self::set_max_repairs) allows, make it grow further.)
///
/// Beyond, a decoder allocates when a block needs more than each one before: more losses, more repair
/// symbols or another path. [`memory`](Self::memory) is what it holds.
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
    reception: Reception,
    recovery: Recovery,
}

impl BlockDecoder {
    /// A decoder for blocks of `k` symbols of `symbol_size` bytes with the fastest kernels.
    ///
    /// # Errors
    ///
    /// [`Error::CodeSymbols`] if `code` is not for blocks of `k` symbols, [`Error::SymbolSize`]
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
        let mut reception = Reception::new(BlockShape::new(code, k, symbol_size)?);
        reception.reserve_ids();
        Ok(Self { reception, recovery: Recovery::new(kernels) })
    }

    /// Turns to another block, perhaps of another shape; memory is kept.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); the decoder then stays as it was.
    pub fn reset(&mut self, code: Arc<Code>, k: u32, symbol_size: usize) -> Result<(), Error> {
        self.reception.reset(code, k, symbol_size)?;
        self.reception.reserve_ids();
        self.recovery.forget();
        Ok(())
    }

    /// Turns to another block of the same shape; memory is kept.
    pub fn clear(&mut self) {
        self.reception.clear();
        self.recovery.forget();
    }

    /// Bounds the number of repair symbols stored, and so the memory they take. At first it is
    /// K + 64; beyond it [`add_repair`](Self::add_repair) drops symbols.
    pub fn set_max_repairs(&mut self, max: u32) {
        self.reception.set_max_repairs(max);
    }

    /// Source symbols of the block, K.
    #[must_use]
    pub fn source_symbols(&self) -> u32 {
        self.reception.shape.k
    }

    /// The symbol size, T \[bytes\].
    #[must_use]
    pub fn symbol_size(&self) -> usize {
        self.reception.shape.symbol_size
    }

    /// Whether source symbol `esi` stands in the block, received or decoded.
    #[must_use]
    pub fn has_source(&self, esi: u32) -> bool {
        self.reception.received.has_source(esi)
    }

    /// Whether encoding symbol `esi` was received, or can no longer be of use.
    #[must_use]
    pub fn has(&self, esi: u32) -> bool {
        self.reception.has(esi)
    }

    /// Source symbols that do not stand in the block yet, ascending.
    pub fn missing(&self) -> impl Iterator<Item = u32> {
        self.reception.received.missing(self.reception.shape.k)
    }

    /// Distinct symbols received.
    #[must_use]
    pub fn received(&self) -> u32 {
        self.reception.received()
    }

    /// Repair symbols stored.
    #[must_use]
    pub fn repairs(&self) -> u32 {
        self.reception.repairs()
    }

    /// Whether every source symbol stands in the block.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.reception.is_complete()
    }

    /// At least how many more symbols are needed before the next attempt; zero if one is worth its cost
    /// now, or the block is complete.
    ///
    /// No fewer can decode the block, with one exception: symbols chosen with ill intent can make a
    /// solution so large that it is given up, and then a sixteenth more of them have to come before
    /// the next attempt. All source symbols complete a block at once, whatever came before.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        self.reception.wanted()
    }

    /// Memory the decoder holds \[bytes\], without its code and the block.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.reception.memory() + self.recovery.memory()
    }

    /// Notes that source symbol `esi` stands in its place in the block.
    ///
    /// # Errors
    ///
    /// [`Error::SymbolId`] if `esi` is not below K.
    pub fn mark_source(&mut self, esi: u32) -> Result<Added, Error> {
        let added = self.reception.mark_source(esi);
        self.noted(esi, added)
    }

    /// Stores repair symbol `esi`.
    ///
    /// # Errors
    ///
    /// [`Error::SymbolId`] if `esi` is below K or not below 2^24, [`Error::SymbolLength`] if
    /// `symbol` is not as long as the symbol size.
    pub fn add_repair(&mut self, esi: u32, symbol: &[u8]) -> Result<Added, Error> {
        self.reception.reserve_copies();
        let added = self.reception.add_repair(esi, symbol);
        self.noted(esi, added)
    }

    /// Notes that the caller holds repair symbol `esi` and will lend it to
    /// [`try_decode_with`](Self::try_decode_with): nothing is copied.
    ///
    /// # Errors
    ///
    /// [`Error::SymbolId`] if `esi` is below K or not below 2^24.
    pub fn mark_repair(&mut self, esi: u32) -> Result<Added, Error> {
        let added = self.reception.note_repair(esi, LENT);
        self.noted(esi, added)
    }

    /// Takes any encoding symbol: copies a source symbol into its place in `block`, where the last
    /// one may be cut short, and stores a repair symbol.
    ///
    /// # Errors
    ///
    /// As [`add_repair`](Self::add_repair), and [`Error::BlockLength`] if `block` has not the
    /// length of the block.
    pub fn add(&mut self, block: &mut [u8], esi: u32, symbol: &[u8]) -> Result<Added, Error> {
        if esi >= self.reception.shape.k {
            return self.add_repair(esi, symbol);
        }
        let added = self.reception.add(block, esi, symbol);
        self.noted(esi, added)
    }

    fn noted(&mut self, esi: u32, added: Result<Added, Error>) -> Result<Added, Error> {
        if added == Ok(Added::New) {
            self.recovery.note(&self.reception, esi);
        }
        added
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
        self.recovery.try_decode(&mut self.reception, block, lent)
    }

    /// Makes every further block be decoded on one path, for comparisons and tests; `None` lets
    /// the decoder choose. A path the code is too large for is not taken.
    pub fn force_path(&mut self, path: Option<DecodingPath>) {
        self.recovery.forced = path;
    }

    /// The path of the last attempt.
    #[must_use]
    pub fn path(&self) -> Option<DecodingPath> {
        self.recovery.path()
    }
}
