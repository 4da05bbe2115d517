//! LT encoder (LTTP §III-C).

use std::sync::Arc;

use wellspring_kernels::Kernels;

use super::LtError;
use super::code::Code;

/// Largest symbol size \[bytes\].
pub const MAX_SYMBOL_SIZE: usize = 65_535;

/// Makes any encoding symbol of a block, in any order.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wellspring_codec::lt::{Code, Encoder, RobustSoliton};
///
/// let code = Arc::new(Code::new(RobustSoliton::new(10, 0.2, 0.7)?, 1));
/// let mut encoder = Encoder::new(code, 4)?;
/// let mut symbol = [0; 4];
/// let neighbours = encoder.encode(&[9; 40], 123, &mut symbol)?;
/// assert_eq!(symbol, [if neighbours.len() % 2 == 1 { 9 } else { 0 }; 4]);
/// # Ok::<(), wellspring_codec::lt::LtError>(())
/// ```
#[derive(Debug)]
pub struct Encoder {
    code: Arc<Code>,
    shape: BlockShape,
    kernels: Kernels,
    neighbours: Vec<u32>,
}

impl Encoder {
    /// An encoder of blocks of symbols of `symbol_size` bytes with the fastest kernels.
    ///
    /// # Errors
    ///
    /// [`LtError::SymbolSize`] if the symbol size is zero or beyond [`MAX_SYMBOL_SIZE`].
    pub fn new(code: Arc<Code>, symbol_size: usize) -> Result<Self, LtError> {
        Self::with_kernels(code, symbol_size, Kernels::detect())
    }

    /// As [`new`](Self::new), with given kernels.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_kernels(
        code: Arc<Code>,
        symbol_size: usize,
        kernels: Kernels,
    ) -> Result<Self, LtError> {
        let shape = BlockShape::new(code.source_symbols(), symbol_size)?;
        Ok(Self { code, shape, kernels, neighbours: Vec::new() })
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &Arc<Code> {
        &self.code
    }

    /// The symbol size \[bytes\].
    #[must_use]
    pub fn symbol_size(&self) -> usize {
        self.shape.symbol_size
    }

    /// Writes encoding symbol `id` of the block `source` into `symbol`, and says which source
    /// symbols it is the sum of, ascending: what a receiver has to know, if it does not have the
    /// code.
    ///
    /// # Errors
    ///
    /// [`LtError::SymbolLength`] if `symbol` is not as long as the symbol size,
    /// [`LtError::BlockLength`] if `source` is not k symbols long, the last of which may be short
    /// by less than its size.
    pub fn encode(&mut self, source: &[u8], id: u32, symbol: &mut [u8]) -> Result<&[u32], LtError> {
        self.shape.check_symbol(symbol.len())?;
        self.shape.check_block(source.len())?;
        self.code.neighbours(id, &mut self.neighbours);
        let size = self.shape.symbol_size;
        let whole = source.len() / size;
        // Only the last symbol can be short; zeros follow it, which add nothing.
        let short = self.neighbours.last().is_some_and(|last| *last as usize >= whole);
        let gathered = self.neighbours.len() - usize::from(short);
        self.kernels.gather(symbol, source, size, &self.neighbours[..gathered]);
        if short {
            let rest = &source[whole * size..];
            self.kernels.xor(&mut symbol[..rest.len()], rest);
        }
        Ok(&self.neighbours)
    }
}

/// Symbols of a block and their size, and the checks that both ends share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockShape {
    pub(super) k: u32,
    pub(super) symbol_size: usize,
}

impl BlockShape {
    /// The shape of blocks of `k` symbols, whose number was checked, of `symbol_size` bytes.
    pub(super) fn new(k: u32, symbol_size: usize) -> Result<Self, LtError> {
        if symbol_size == 0 || symbol_size > MAX_SYMBOL_SIZE {
            return Err(LtError::SymbolSize { got: symbol_size, limit: MAX_SYMBOL_SIZE });
        }
        Ok(Self { k, symbol_size })
    }

    /// Distance of symbols in memory of our own: whole cache lines \[bytes\].
    pub(super) fn stride(self) -> usize {
        self.symbol_size.next_multiple_of(64)
    }

    pub(super) fn check_symbol(self, len: usize) -> Result<(), LtError> {
        let expected = self.symbol_size;
        if len == expected { Ok(()) } else { Err(LtError::SymbolLength { got: len, expected }) }
    }

    /// Checks a block's length: the last symbol may be short, but not empty.
    pub(super) fn check_block(self, len: usize) -> Result<(), LtError> {
        let expected = self.k as usize * self.symbol_size;
        if len <= expected && len > expected - self.symbol_size {
            Ok(())
        } else {
            Err(LtError::BlockLength { got: len, expected })
        }
    }
}
