//! Encoding symbols of one source block (RFC 6330 §5.3).

use std::sync::Arc;

use wellspring_kernels::{
    AlignedBuffer, Kernels, Operand, Program, RowStorage, RowTable, Workspace,
};

use super::block::BlockShape;
use super::code::Code;
use super::cost::{self, OutputMethod};
use super::outputs::{Output, OutputScratch};
use super::plan::strip_len;
use super::schedule;
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
    /// Repair symbols of this block made without intermediate symbols.
    dense: u32,
    /// Whether the encoding schedule was run for this block already.
    scheduled: bool,
    program: Program,
    columns: Vec<u32>,
    output: OutputScratch,
    coefficients: Vec<u8>,
    generators: Vec<u8>,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
    rows: RowStorage,
    workspace: Workspace,
}

impl BlockEncoder {
    /// An encoder for blocks of `k` symbols of `symbol_size` bytes with the fastest kernels.
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
        Ok(Self {
            shape: BlockShape::new(code, k, symbol_size)?,
            kernels,
            intermediate: AlignedBuffer::default(),
            ready: false,
            side: AlignedBuffer::default(),
            dense: 0,
            scheduled: false,
            program: Program::new(),
            columns: Vec::new(),
            output: OutputScratch::default(),
            coefficients: Vec::new(),
            generators: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
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
        self.clear();
        Ok(())
    }

    /// Turns to another block of the same shape; memory is kept.
    pub fn clear(&mut self) {
        self.ready = false;
        self.dense = 0;
        self.scheduled = false;
    }

    /// Memory the encoder holds \[bytes\], without its code.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.intermediate.memory()
            + self.side.memory()
            + self.program.memory()
            + self.output.memory()
            + self.rows.memory()
            + self.coefficients.capacity()
            + self.generators.capacity()
            + 8 * (self.inputs.capacity() + self.outputs.capacity())
            + 4 * self.columns.capacity()
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
        self.shape.check_symbol(symbol.len())?;
        self.encode_run(source, esi, symbol)
    }

    /// Writes the encoding symbols from `first` on into `symbols`, one after the other: as many as
    /// fit. Cheaper than one by one.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode); `symbols` must be a whole number of symbols long.
    pub fn encode_run(
        &mut self,
        source: &[u8],
        first: u32,
        symbols: &mut [u8],
    ) -> Result<(), Error> {
        let (k, t) = (self.shape.k, self.shape.symbol_size);
        if !symbols.len().is_multiple_of(t) {
            return Err(Error::SymbolLength { got: symbols.len() % t, expected: t });
        }
        self.shape.check_block(source.len())?;
        let count = u32::try_from(symbols.len() / t).unwrap_or(u32::MAX);
        if count == 0 {
            return Ok(());
        }
        self.shape.internal_id(first.saturating_add(count - 1))?;
        let of_source = k.saturating_sub(first).min(count);
        let (plain, repair) = symbols.split_at_mut(of_source as usize * t);
        for (esi, symbol) in (first..).zip(plain.chunks_exact_mut(t)) {
            let start = esi as usize * t;
            let end = source.len().min(start + t);
            let (data, padding) = symbol.split_at_mut(end - start);
            data.copy_from_slice(&source[start..end]);
            padding.fill(0);
        }
        if !repair.is_empty() {
            self.encode_repairs(source, first + of_source, repair);
        }
        Ok(())
    }

    /// Writes the repair symbols from `first` on.
    fn encode_repairs(&mut self, source: &[u8], first: u32, symbols: &mut [u8]) {
        let t = self.shape.symbol_size;
        let count = u32::try_from(symbols.len() / t).expect("checked by the caller");
        if !self.ready && self.shape.code.has_inverse() {
            // A few symbols are cheaper as combinations of source symbols; after a few, the
            // intermediate symbols would have been cheaper and are computed for the next.
            let dense = self.dense.saturating_add(count);
            if cost::dense_encoding_pays(self.kernels.isa(), &self.shape.size(dense)) {
                self.dense = dense;
                self.encode_dense(source, first, symbols);
                return;
            }
        }
        if !self.ready && !self.scheduled {
            // The first call for a block keeps no intermediate symbols; the next one does.
            self.scheduled = true;
            self.encode_by_schedule(source, first, symbols);
            return;
        }
        if !self.ready {
            self.compute(source);
        }
        let params = &self.shape.code.constraints().params;
        for (esi, symbol) in (first..).zip(symbols.chunks_exact_mut(t)) {
            self.columns.clear();
            params.lt_columns(self.shape.internal(esi), &mut self.columns);
            self.kernels.gather(symbol, &self.intermediate, self.shape.stride(), &self.columns);
        }
    }

    /// Writes repair symbols by a run of the encoding schedule that leaves nothing else behind.
    fn encode_by_schedule(&mut self, source: &[u8], first: u32, symbols: &mut [u8]) {
        let shape = &self.shape;
        let (t, stride) = (shape.symbol_size, shape.stride());
        let count = u32::try_from(symbols.len() / t).expect("checked by the caller");
        let constraints = shape.code.constraints();
        let k_ext = constraints.params.k_ext;
        let whole = fill_side(&mut self.side, shape, source);
        let plan = shape.code.plan(self.kernels);
        let eliminated = plan.eliminated(self.kernels, constraints);
        self.program.clear();
        let ids = (first..first + count).map(|esi| shape.internal(esi)).zip(k_ext..);
        let method = eliminated.method(&shape.size(count));
        if method != OutputMethod::BackSubstitution {
            let to = |to| Operand::External(to);
            let outputs = ids.map(|(isi, row)| Output { isi, to: to(row), plus: None });
            eliminated.outputs(&mut self.program, &mut self.output, method, outputs);
        } else {
            let (places, free) = (&plan.schedule.places, eliminated.above(method));
            schedule::sums(&mut self.program, constraints, places, &mut self.columns, free, ids);
        }
        let mut rows = RowTable::new(&mut self.rows, t);
        push_source(&mut rows, shape, source, whole, &self.side, stride);
        rows.push_exclusive_rows(symbols, t, count as usize);
        let all = [(&plan.forward, 0), (&plan.backward, 0), (&self.program, 0)];
        let programs =
            if method == OutputMethod::BackSubstitution { &all } else { &[all[0], all[2]][..] };
        Program::run_all(
            programs,
            self.kernels,
            &rows,
            Some(&constraints.hdpc),
            &mut self.workspace,
            strip_len(self.kernels.isa(), plan.work_rows()),
        );
    }

    /// Writes repair symbols as combinations of the source symbols.
    fn encode_dense(&mut self, source: &[u8], first: u32, symbols: &mut [u8]) {
        let shape = &self.shape;
        let (k, t) = (shape.k, shape.symbol_size);
        let count = u32::try_from(symbols.len() / t).expect("checked by the caller");
        let constraints = shape.code.constraints();
        let inverse = shape.code.inverse(self.kernels).expect("the caller saw that there is one");
        self.generators.clear();
        for esi in first..first + count {
            let isi = shape.internal(esi);
            let buffers = (&mut self.columns, &mut self.coefficients);
            inverse.generator(self.kernels, constraints, isi, buffers.0, buffers.1);
            self.generators.extend_from_slice(&self.coefficients[..k as usize]);
        }
        self.inputs.clear();
        self.inputs.extend((0..k).map(Operand::External));
        self.outputs.clear();
        self.outputs.extend((k..k + count).map(Operand::External));
        self.program.clear();
        self.program.product(&self.outputs, &[], &self.inputs, &self.generators);
        let whole = source.len() / t;
        if whole < k as usize {
            fill_side(&mut self.side, shape, source);
        }
        let mut rows = RowTable::new(&mut self.rows, t);
        rows.push_shared_rows(source, t, whole);
        if whole < k as usize {
            rows.push_shared(&self.side);
        }
        rows.push_exclusive_rows(symbols, t, count as usize);
        self.program.run(
            self.kernels,
            &rows,
            None,
            &mut self.workspace,
            strip_len(self.kernels.isa(), 0),
        );
    }

    /// Computes now what many repair symbols need, so that each of them is a few XORs only: for a
    /// caller who has the time before the first one is asked for.
    ///
    /// # Errors
    ///
    /// [`Error::BlockLength`] as for [`encode`](Self::encode).
    pub fn prepare(&mut self, source: &[u8]) -> Result<(), Error> {
        self.shape.check_block(source.len())?;
        if !self.ready {
            self.compute(source);
        }
        Ok(())
    }

    /// Whether the block's intermediate symbols are computed.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.ready
    }

    /// Computes the intermediate symbols.
    fn compute(&mut self, source: &[u8]) {
        let shape = &self.shape;
        let (t, stride) = (shape.symbol_size, shape.stride());
        let l = shape.code.intermediate_symbols();
        let k_ext = shape.code.extended_symbols();
        let whole = fill_side(&mut self.side, shape, source);
        self.intermediate.resize(l as usize * stride);

        let plan = shape.code.plan(self.kernels);
        self.program.clear();
        for (column, &place) in (0..).zip(&plan.schedule.places) {
            self.program.store(k_ext + column, place);
        }
        let mut rows = RowTable::new(&mut self.rows, t);
        push_source(&mut rows, shape, source, whole, &self.side, stride);
        rows.push_exclusive_rows(&mut self.intermediate, stride, l as usize);
        Program::run_all(
            &[(&plan.forward, 0), (&plan.backward, 0), (&self.program, 0)],
            self.kernels,
            &rows,
            Some(&shape.code.constraints().hdpc),
            &mut self.workspace,
            strip_len(self.kernels.isa(), plan.work_rows()),
        );
        self.ready = true;
    }
}

/// Adds the K' source symbols with padding as rows.
fn push_source<'d>(
    rows: &mut RowTable<'_, 'd>,
    shape: &BlockShape,
    source: &'d [u8],
    whole: usize,
    side: &'d [u8],
    stride: usize,
) {
    rows.push_shared_rows(source, shape.symbol_size, whole);
    if whole < shape.k as usize {
        rows.push_shared(&side[..stride]);
    }
    for _ in shape.k..shape.code.extended_symbols() {
        rows.push_shared(&side[stride..]);
    }
}

/// Fills the side buffer: the last source symbol extended with zeros, if it is short, and a symbol
/// of zeros. Returns how many symbols stand whole in the source.
fn fill_side(side: &mut AlignedBuffer, shape: &BlockShape, source: &[u8]) -> usize {
    let whole = source.len() / shape.symbol_size;
    let rest = &source[whole * shape.symbol_size..];
    side.resize(2 * shape.stride());
    side.fill(0);
    side[..rest.len()].copy_from_slice(rest);
    whole
}
