//! Encoding symbols of one source block (RFC 6330 §5.3).

use std::sync::Arc;

use wellspring_kernels::{AlignedBuffer, Kernels, Program, RowStorage, RowTable, Workspace};

use super::block::BlockShape;
use super::code::{Code, strip_len};
use crate::Error;

/// Makes any encoding symbol of a source block, in any order.
///
/// The encoder owns no source symbols: every call is given the block's bytes, which the caller may
/// hold in a file mapping or share with other encoders. It must be given the same bytes until
/// [`reset`](Self::reset). The last symbol of the block may be short; it is extended with zeros.
///
/// # Examples
///
/// ```
/// use wellspring_codec::raptorq::{BlockEncoder, Code};
/// # fn main() -> Result<(), wellspring_codec::Error> {
/// let source = b"The quick brown fox jumps over the lazy dog.";
/// let (k, symbol_size) = (11, 4);
/// let mut encoder = BlockEncoder::new(Code::new(k)?, k, symbol_size)?;
/// let mut symbol = [0; 4];
/// encoder.encode(source, 0, &mut symbol)?;
/// assert_eq!(&symbol, b"The ");
/// encoder.encode(source, 1_000_000, &mut symbol)?; // a repair symbol
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BlockEncoder {
    shape: BlockShape,
    kernels: Kernels,
    /// Intermediate symbols, once they are computed.
    intermediate: AlignedBuffer,
    ready: bool,
    /// The last source symbol extended with zeros, then a symbol of zeros.
    side: AlignedBuffer,
    store: Program,
    columns: Vec<u32>,
    rows: RowStorage,
    workspace: Workspace,
}

impl BlockEncoder {
    /// An encoder for blocks of `k` symbols of `symbol_size` bytes with the fastest kernels.
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
        Ok(Self {
            shape: BlockShape::new(code, k, symbol_size)?,
            kernels,
            intermediate: AlignedBuffer::default(),
            ready: false,
            side: AlignedBuffer::default(),
            store: Program::new(),
            columns: Vec::new(),
            rows: RowStorage::default(),
            workspace: Workspace::default(),
        })
    }

    /// Turns to another block, perhaps of another shape; memory is kept.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); the encoder then stays as it was.
    pub fn reset(&mut self, code: Arc<Code>, k: u32, symbol_size: usize) -> Result<(), Error> {
        self.shape = BlockShape::new(code, k, symbol_size)?;
        self.ready = false;
        Ok(())
    }

    /// Memory the encoder holds \[bytes\], without its code.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.intermediate.memory()
            + self.side.memory()
            + self.store.memory()
            + self.rows.memory()
            + self.workspace.memory()
    }

    /// Writes encoding symbol `esi` of the block `source` into `symbol`.
    ///
    /// # Errors
    ///
    /// [`Error::SymbolId`] if `esi` is 2^24 or more, [`Error::SymbolLength`] if `symbol` is not as
    /// long as the symbol size, [`Error::BlockLength`] if `source` is not K symbols long, the last
    /// of which may be short by less than its size.
    pub fn encode(&mut self, source: &[u8], esi: u32, symbol: &mut [u8]) -> Result<(), Error> {
        let isi = self.shape.internal_id(esi)?;
        self.shape.check_symbol(symbol.len())?;
        self.shape.check_block(source.len())?;
        if esi < self.shape.k {
            let start = esi as usize * self.shape.symbol_size;
            let end = source.len().min(start + self.shape.symbol_size);
            let (data, padding) = symbol.split_at_mut(end - start);
            data.copy_from_slice(&source[start..end]);
            padding.fill(0);
            return Ok(());
        }
        if !self.ready {
            self.prepare(source);
        }
        self.columns.clear();
        self.shape.code.constraints().params.lt_columns(isi, &mut self.columns);
        self.kernels.gather(symbol, &self.intermediate, self.shape.stride(), &self.columns);
        Ok(())
    }

    /// Computes the intermediate symbols.
    fn prepare(&mut self, source: &[u8]) {
        let shape = &self.shape;
        let (k, t, stride) = (shape.k as usize, shape.symbol_size, shape.stride());
        let l = shape.code.intermediate_symbols();
        let k_ext = shape.code.extended_symbols();
        self.side.resize(2 * stride);
        self.side.fill(0);
        let whole = source.len() / t;
        self.side[..source.len() - whole * t].copy_from_slice(&source[whole * t..]);
        self.intermediate.resize(l as usize * stride);

        self.store.clear();
        for column in 0..l {
            self.store.store(k_ext + column, column);
        }
        let plan = shape.code.plan(self.kernels);
        let mut rows = RowTable::new(&mut self.rows, t);
        rows.push_shared_rows(source, t, whole);
        if whole < k {
            rows.push_shared(&self.side[..stride]);
        }
        for _ in k..k_ext as usize {
            rows.push_shared(&self.side[stride..]);
        }
        rows.push_exclusive_rows(&mut self.intermediate, stride, l as usize);
        Program::run_all(
            &[(plan, 0), (&self.store, 0)],
            self.kernels,
            &rows,
            Some(&shape.code.constraints().hdpc),
            &mut self.workspace,
            strip_len(plan.work_rows()),
        );
        self.ready = true;
    }
}
