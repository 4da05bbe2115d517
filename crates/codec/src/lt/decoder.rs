//! LT decoder: a block from encoding symbols (LTTP §III-C).

use wellspring_kernels::{AlignedBuffer, Kernels};

use super::LtError;
use super::description::check_neighbours;
use super::distribution::check_source_symbols;
use super::encoder::BlockShape;
use super::peeling::Source;
use super::structure::{Added, Method, Structure};

/// What an attempt to decode came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The whole block was written.
    Complete,
    /// At least so many more symbols are wanted ([`Decoder::wanted`]); nothing was written.
    NeedMore(u32),
}

/// Recovers one block, symbol by symbol, in any order.
///
/// [`add`](Self::add) works on neighbours alone and copies the symbol if it is of use. Symbols are
/// added up when the block is complete or when what there is of it is asked for: each source
/// symbol is then one sum, and what never gave anything is never read.
///
/// # Memory
///
/// A decoder is reused for any number of blocks. It holds at most 4k + 64 symbols
/// ([`set_max_symbols`](Self::set_max_symbols)) of on average 64 neighbours, and drops others;
/// beside them it takes the block once more, and with [`Method::Elimination`] at most k^2 bytes of
/// bits and as many symbols again as were set aside, which is a tenth of k unless symbols are
/// chosen with ill intent, and k at most. What a block took, the next one like it does not
/// allocate.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wellspring_codec::lt::{Code, Decoded, Decoder, Encoder, Method, RobustSoliton};
///
/// let source: Vec<u8> = (0..64 * 16).map(|i| i as u8).collect();
/// let code = Arc::new(Code::new(RobustSoliton::new(64, 0.2, 0.7)?, 1));
/// let mut encoder = Encoder::new(code, 16)?;
/// let mut decoder = Decoder::new(64, 16, Method::Improved)?;
///
/// let (mut block, mut symbol, mut id) = (vec![0; source.len()], [0; 16], 0);
/// while decoder.try_decode(&mut block)? != Decoded::Complete {
///     let neighbours = encoder.encode(&source, id, &mut symbol)?;
///     decoder.add(neighbours, &symbol)?;
///     id += 1;
/// }
/// assert_eq!(block, source);
/// # Ok::<(), wellspring_codec::lt::LtError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    shape: BlockShape,
    kernels: Kernels,
    structure: Structure,
    /// The kept symbols, as they came.
    received: AlignedBuffer,
    /// Source symbols, as far as they are summed up.
    values: AlignedBuffer,
    /// How many of those that peeling knows stand in `values`.
    summed: usize,
    /// Whether all do, whatever they were found by.
    finished: bool,
    /// Right-hand sides of the inactive source symbols' equations.
    sides: AlignedBuffer,
    /// One symbol, and one list of rows.
    sum: Vec<u8>,
    terms: Vec<u32>,
}

impl Decoder {
    /// A decoder for blocks of `k` symbols of `symbol_size` bytes with the fastest kernels.
    ///
    /// # Errors
    ///
    /// [`LtError::SourceSymbols`] if `k` is not 1 to
    /// [`MAX_SOURCE_SYMBOLS`](super::MAX_SOURCE_SYMBOLS), [`LtError::SymbolSize`] if the symbol
    /// size is zero or beyond [`MAX_SYMBOL_SIZE`](super::MAX_SYMBOL_SIZE).
    pub fn new(k: u32, symbol_size: usize, method: Method) -> Result<Self, LtError> {
        Self::with_kernels(k, symbol_size, method, Kernels::detect())
    }

    /// As [`new`](Self::new), with given kernels.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_kernels(
        k: u32,
        symbol_size: usize,
        method: Method,
        kernels: Kernels,
    ) -> Result<Self, LtError> {
        check_source_symbols(k)?;
        Ok(Self {
            shape: BlockShape::new(k, symbol_size)?,
            kernels,
            structure: Structure::new(k, method),
            received: AlignedBuffer::default(),
            values: AlignedBuffer::default(),
            summed: 0,
            finished: false,
            sides: AlignedBuffer::default(),
            sum: Vec::new(),
            terms: Vec::new(),
        })
    }

    /// Turns to another block, perhaps of another shape; memory is kept, and so is the bound on
    /// symbols if k stays.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); the decoder then stays as it was.
    pub fn reset(&mut self, k: u32, symbol_size: usize, method: Method) -> Result<(), LtError> {
        check_source_symbols(k)?;
        self.shape = BlockShape::new(k, symbol_size)?;
        self.structure.reset(k, method);
        (self.summed, self.finished) = (0, false);
        Ok(())
    }

    /// Turns to another block of the same shape; memory is kept.
    pub fn clear(&mut self) {
        self.structure.reset(self.shape.k, self.structure.method());
        (self.summed, self.finished) = (0, false);
    }

    /// Bounds the number of encoding symbols kept, and so the memory they take; at most 2^24 are. A
    /// bound too low for the method keeps a block from ever being complete.
    pub fn set_max_symbols(&mut self, max: u32) {
        self.structure.set_max_symbols(max);
    }

    /// Source symbols of a block, k.
    #[must_use]
    pub fn source_symbols(&self) -> u32 {
        self.shape.k
    }

    /// The symbol size \[bytes\].
    #[must_use]
    pub fn symbol_size(&self) -> usize {
        self.shape.symbol_size
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.structure.method()
    }

    /// Encoding symbols kept: those that brought something new when they came, and with
    /// [`Method::Rounds`] all.
    #[must_use]
    pub fn kept(&self) -> u32 {
        self.structure.rows.len() as u32
    }

    /// Source symbols recovered. While [`Method::Elimination`] is not complete, those that belief
    /// propagation knew when elimination began.
    #[must_use]
    pub fn recovered(&self) -> u32 {
        self.structure.known().len() as u32
    }

    /// Whether every source symbol is recovered.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.structure.is_complete()
    }

    /// At least how many more symbols are needed; zero if the block is complete.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        self.structure.wanted()
    }

    /// Memory the decoder holds \[bytes\], without the caller's block.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.structure.memory()
            + self.received.memory()
            + self.values.memory()
            + self.sides.memory()
            + self.sum.capacity()
            + 4 * self.terms.capacity()
    }

    /// Takes the encoding symbol that is the sum of the source symbols `neighbours`, ascending: as
    /// [`read_description`](super::read_description) reads them from a packet, or
    /// [`Code::neighbours`](super::Code::neighbours) derives them from an ID.
    ///
    /// # Errors
    ///
    /// [`LtError::SymbolLength`] if `symbol` is not as long as the symbol size;
    /// [`LtError::Degree`], [`LtError::Neighbour`] or [`LtError::Order`] if the neighbours are not
    /// an ascending selection of the source symbols.
    pub fn add(&mut self, neighbours: &[u32], symbol: &[u8]) -> Result<Added, LtError> {
        self.shape.check_symbol(symbol.len())?;
        check_neighbours(self.shape.k, neighbours)?;
        let row = self.structure.rows.len();
        let added = self.structure.add(neighbours);
        if added == Added::New {
            let stride = self.shape.stride();
            self.received.reserve_len((row + 1) * stride);
            self.received[row * stride..][..symbol.len()].copy_from_slice(symbol);
        }
        Ok(added)
    }

    /// Writes the block if all of it is recovered.
    ///
    /// # Errors
    ///
    /// [`LtError::BlockLength`] if `block` has not the length of the block: k times the symbol
    /// size, or less if the last symbol is cut short.
    pub fn try_decode(&mut self, block: &mut [u8]) -> Result<Decoded, LtError> {
        self.shape.check_block(block.len())?;
        if !self.is_complete() {
            return Ok(Decoded::NeedMore(self.wanted()));
        }
        self.write_recovered(block)?;
        Ok(Decoded::Complete)
    }

    /// Writes the source symbols recovered so far to their places in the block, leaves the others
    /// as they are, and calls `written` with the index of each.
    ///
    /// # Errors
    ///
    /// As [`try_decode`](Self::try_decode).
    pub fn recover(
        &mut self,
        block: &mut [u8],
        mut written: impl FnMut(u32),
    ) -> Result<(), LtError> {
        self.shape.check_block(block.len())?;
        self.write_recovered(block)?;
        self.structure.known().iter().for_each(|symbol| written(*symbol));
        Ok(())
    }

    fn write_recovered(&mut self, block: &mut [u8]) -> Result<(), LtError> {
        self.sum_up();
        let (size, stride) = (self.shape.symbol_size, self.shape.stride());
        for &symbol in self.structure.known() {
            let start = symbol as usize * size;
            let end = block.len().min(start + size);
            let value = &self.values[symbol as usize * stride..][..end - start];
            block[start..end].copy_from_slice(value);
        }
        Ok(())
    }

    /// Brings `values` up to what is known.
    fn sum_up(&mut self) {
        if self.finished {
            return;
        }
        let stride = self.shape.stride();
        self.values.reserve_len(self.shape.k as usize * stride);
        self.sum.resize(self.shape.symbol_size, 0);
        let known = self.structure.known().len();
        for place in self.summed..known {
            let symbol = self.structure.peeler.order()[place];
            self.set(symbol);
        }
        self.summed = known;
        self.finished = self.is_complete();
        if self.finished && self.structure.inactivation.began().is_some() {
            self.solve_inactive();
        }
    }

    /// Sets a source symbol to the sum of its row and the row's other neighbours; an inactive one
    /// to zero.
    fn set(&mut self, symbol: u32) {
        let (size, stride) = (self.shape.symbol_size, self.shape.stride());
        if let Source::Row(row) = self.structure.peeler.source(symbol) {
            self.add_up(row, Some(symbol));
        } else {
            self.sum.fill(0);
        }
        self.values[symbol as usize * stride..][..size].copy_from_slice(&self.sum);
    }

    /// Sums up a received row and its neighbours but one.
    fn add_up(&mut self, row: u32, but: Option<u32>) {
        let (size, stride) = (self.shape.symbol_size, self.shape.stride());
        self.terms.clear();
        let others = self.structure.rows.row(row).iter().filter(|symbol| Some(**symbol) != but);
        self.terms.extend(others);
        self.kernels.gather(&mut self.sum, &self.values, stride, &self.terms);
        self.kernels.xor(&mut self.sum, &self.received[row as usize * stride..][..size]);
    }

    /// Finds the inactive source symbols, which were taken for zero, and corrects what depends on
    /// them.
    fn solve_inactive(&mut self) {
        let (size, stride) = (self.shape.symbol_size, self.shape.stride());
        let equations = self.structure.inactivation.equations().len();
        self.sides.reserve_len(equations * stride);
        for equation in 0..equations {
            self.add_up(self.structure.inactivation.equations()[equation], None);
            self.sides[equation * stride..][..size].copy_from_slice(&self.sum);
        }
        self.structure.inactivation.solve();
        for bit in 0..equations {
            self.terms.clear();
            self.terms.extend(self.structure.inactivation.combination(bit));
            self.kernels.gather(&mut self.sum, &self.sides, stride, &self.terms);
            // As many equations as inactive symbols were accepted, each of which has one bit.
            let symbol = self.structure.inactivation.inactive()[bit] as usize;
            self.values[symbol * stride..][..size].copy_from_slice(&self.sum);
        }
        let began = self.structure.inactivation.began().unwrap_or(0);
        for place in began..self.structure.peeler.order().len() {
            let symbol = self.structure.peeler.order()[place];
            let found = self.structure.peeler.source(symbol) != Source::Inactive;
            if found && self.structure.inactivation.depends(symbol) {
                self.set(symbol);
            }
        }
    }
}
