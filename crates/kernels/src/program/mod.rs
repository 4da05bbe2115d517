//! Programs: the symbol operations of an encoding or decoding, recorded once and run over columns.
//!
//! A program works on *work rows*, which exist only as long as a strip of columns is processed, and
//! on *external rows*, the symbols in the caller's buffers. Running it strip by strip keeps the
//! work rows in the innermost caches however long the symbols are. Programs can only be built
//! through checked methods, so that running one needs a few comparisons and no bounds checks
//! in the loops.

mod columns;
mod run;
mod strip;
mod sum;

use crate::Kernels;
use crate::rows::RowTable;
use columns::{best_strip, first_line, strips};

pub(crate) use run::run;
pub(crate) use strip::Strip;
pub use strip::Workspace;
pub use sum::XorBuilder;

/// Flag of operands that name an external row.
pub(crate) const EXTERNAL: u32 = 1 << 31;

/// The strip lengths programs run in \[bytes\].
pub const STRIPS: [usize; 6] = [64, 128, 256, 512, 1024, 2048];

/// The strip length of programs without work rows \[bytes\].
const PRODUCT_STRIP: usize = 512;

/// Inputs of a product that do not stay in the second cache while all else passes through it \[bytes\].
pub(crate) const MANY_INPUTS: usize = 256 << 10;

/// Rows whose sums a table of [`Program::tables`] holds.
pub const TABLE_ROWS: u32 = 4;

/// Words before the sources of a sum, and before the sums of a block.
pub(crate) const HEAD: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    /// `[Sums, words, (to, sources, source..)..]`; `to` and the first source may be external.
    Sums,
    /// `[Product, outputs, bases, inputs, first coefficient, output.., base.., input..]`
    Product,
    /// `[Fold, columns, first sum, first row of pairs, column..]`
    Fold,
    /// `[Tables, rows, first row, first row of the tables]`
    Tables,
}

impl Opcode {
    #[inline(always)]
    pub(crate) fn from_word(word: u32) -> Self {
        match word {
            0 => Self::Sums,
            1 => Self::Product,
            2 => Self::Fold,
            _ => Self::Tables,
        }
    }
}

/// A row an instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A row of the workspace.
    Work(u32),
    /// A row of the caller's [`RowTable`].
    External(u32),
}

impl Operand {
    fn row(self) -> u32 {
        match self {
            Self::Work(row) | Self::External(row) => row,
        }
    }

    fn flag(self) -> u32 {
        match self {
            Self::Work(_) => 0,
            Self::External(_) => EXTERNAL,
        }
    }

    fn word(self) -> u32 {
        work_word(self.row()) | self.flag()
    }
}

/// The word of a work row.
#[inline]
fn work_word(row: u32) -> u32 {
    assert!(row < EXTERNAL, "row number too large");
    row
}

/// Which two sums each column of the HDPC matrix is added to (RFC 6330 §5.3.3.3), checked.
#[derive(Clone, Debug)]
pub struct FoldColumns {
    pairs: Vec<[u8; 2]>,
    /// For each column the number of its pair among all pairs of sums, see [`pair_number`].
    numbers: Vec<u16>,
    sums: usize,
}

/// The number of a pair of different sums among all of them, in either order.
#[inline]
pub(crate) fn pair_number(one: usize, other: usize) -> usize {
    let (low, high) = if one < other { (one, other) } else { (other, one) };
    high * (high - 1) / 2 + low
}

impl FoldColumns {
    /// Takes one pair a column; the pair of the last column is not used.
    ///
    /// # Panics
    ///
    /// If a pair names one sum twice or a sum that is not below `sums`, there are more sums than a byte can
    /// name, or there are no columns.
    #[must_use]
    pub fn new(pairs: Vec<[u8; 2]>, sums: usize) -> Self {
        assert!(!pairs.is_empty(), "no columns to fold");
        assert!(sums <= 256, "more sums than bytes can name");
        assert!(pairs.iter().flatten().all(|&sum| usize::from(sum) < sums), "no such sum");
        assert!(pairs.iter().all(|[one, other]| one != other), "a sum twice");
        let number = |&[one, other]: &[u8; 2]| {
            // At most 256 times 255 halves.
            pair_number(one.into(), other.into()) as u16
        };
        let numbers = pairs.iter().map(number).collect();
        Self { pairs, numbers, sums }
    }

    /// Number of different pairs of sums.
    fn pair_count(&self) -> usize {
        self.sums * (self.sums - 1) / 2
    }

    /// Number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no columns, which `new` excludes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Number of sums.
    #[must_use]
    pub fn sums(&self) -> usize {
        self.sums
    }

    /// Bytes allocated.
    #[must_use]
    pub fn memory(&self) -> usize {
        2 * (self.pairs.capacity() + self.numbers.capacity())
    }

    pub(crate) fn pairs(&self) -> &[[u8; 2]] {
        &self.pairs
    }
}

/// A sequence of symbol operations.
#[derive(Clone, Debug, Default)]
pub struct Program {
    code: Vec<u32>,
    /// How much of the code is whole instructions: a sum whose builder was forgotten is not.
    whole: usize,
    /// The block of sums that is still growing, and where it starts.
    open: Option<usize>,
    coefficients: Vec<u8>,
    work_rows: u32,
    external_rows: u32,
    written: Vec<u32>,
    /// Outputs and inputs of the largest product, each by itself.
    largest_product: (usize, usize),
    /// Number of columns and sums of the fold instructions, if there are any.
    folds: Option<(usize, usize)>,
}

impl Program {
    /// An empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all instructions and keeps the memory.
    pub fn clear(&mut self) {
        self.code.clear();
        self.whole = 0;
        self.open = None;
        self.coefficients.clear();
        self.written.clear();
        self.work_rows = 0;
        self.external_rows = 0;
        self.largest_product = (0, 0);
        self.folds = None;
    }

    /// Bytes allocated for instructions and coefficients.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.code.capacity() * 4 + self.coefficients.capacity() + self.written.capacity() * 4
    }

    /// Makes room for so many words of instructions, coefficients of products, and external rows
    /// written.
    pub fn reserve(&mut self, words: usize, coefficients: usize, written: usize) {
        self.code.reserve_exact(words.saturating_sub(self.code.len()));
        self.coefficients.reserve_exact(coefficients.saturating_sub(self.coefficients.len()));
        self.written.reserve_exact(written.saturating_sub(self.written.len()));
    }

    /// Frees memory that instructions recorded later would have used.
    pub fn shrink_to_fit(&mut self) {
        self.code.shrink_to_fit();
        self.coefficients.shrink_to_fit();
        self.written.shrink_to_fit();
    }

    /// Number of work rows the program uses.
    #[must_use]
    pub fn work_rows(&self) -> usize {
        self.work_rows as usize
    }

    fn note(&mut self, operand: Operand) {
        match operand {
            Operand::Work(row) => self.work_rows = self.work_rows.max(work_word(row) + 1),
            Operand::External(row) => self.external_rows = self.external_rows.max(row + 1),
        }
    }

    fn note_written(&mut self, operand: Operand) {
        self.note(operand);
        if let Operand::External(row) = operand {
            self.written.push(row);
        }
    }

    /// Where the block of sums starts that grows at the end of the code.
    #[inline]
    fn block(&mut self) -> usize {
        self.code.truncate(self.whole);
        *self.open.get_or_insert_with(|| {
            self.code.extend([Opcode::Sums as u32, 0]);
            self.whole = self.code.len();
            self.whole - HEAD
        })
    }

    /// Appends `external row = work row`.
    pub fn store(&mut self, external: u32, work: u32) {
        let mut alone = self.xor(work);
        alone.work(work);
        alone.store(external);
    }

    /// Starts `to = sum of sources`, all of them work rows; without sources, `to` becomes zero.
    /// `to` may be a source, and then is added to.
    #[inline(always)]
    pub fn xor(&mut self, to: u32) -> XorBuilder<'_> {
        XorBuilder::new(self, to)
    }

    /// As [`xor`](Self::xor), with an external row as first source if there is one.
    #[inline(always)]
    pub fn xor_with(&mut self, to: u32, external: Option<u32>) -> XorBuilder<'_> {
        let sum = self.xor(to);
        match external {
            None => sum,
            Some(row) => sum.external(row),
        }
    }

    /// Appends `outputs[i] = bases[i] + sum over j of coefficients[i * inputs + j] * inputs[j]`.
    ///
    /// There may be no bases at all. No output may be among the inputs or bases: outputs are
    /// written while others are still computed, and the result is then not the product.
    ///
    /// # Panics
    ///
    /// If the number of coefficients is not outputs times inputs, or there are some bases but not
    /// as many as outputs.
    pub fn product(
        &mut self,
        outputs: &[Operand],
        bases: &[Operand],
        inputs: &[Operand],
        coefficients: &[u8],
    ) {
        let needed = outputs.len().checked_mul(inputs.len());
        assert_eq!(Some(coefficients.len()), needed, "coefficients missing");
        assert!(bases.is_empty() || bases.len() == outputs.len(), "bases missing");
        let first = u32::try_from(self.coefficients.len()).expect("coefficients fit 32 bits");
        self.coefficients.extend_from_slice(coefficients);
        let count = |rows: &[Operand]| u32::try_from(rows.len()).expect("rows fit 32 bits");
        let (most_outputs, most_inputs) = self.largest_product;
        self.largest_product = (most_outputs.max(outputs.len()), most_inputs.max(inputs.len()));
        self.open = None;
        self.code.truncate(self.whole);
        self.code.extend([Opcode::Product as u32, count(outputs), count(bases), count(inputs)]);
        self.code.push(first);
        for &output in outputs {
            self.code.push(output.word());
            self.note_written(output);
        }
        self.operands(bases);
        self.operands(inputs);
        self.whole = self.code.len();
    }

    /// Appends the words of operands that are read: often all symbols of a block, so in passes without
    /// branches that are vectors' work.
    fn operands(&mut self, operands: &[Operand]) {
        let all = operands.iter().fold(0, |all, &operand| all | operand.row());
        assert!(all < EXTERNAL, "row number too large");
        let start = self.code.len();
        self.code.extend(operands.iter().map(|&operand| operand.row() | operand.flag()));
        for &word in &self.code[start..] {
            let rows = (word & !EXTERNAL) + 1;
            let external = if word & EXTERNAL == 0 { 0 } else { rows };
            self.external_rows = self.external_rows.max(external);
            self.work_rows = self.work_rows.max(rows ^ external);
        }
    }

    /// Appends tables of all sums of neighbours among the work rows `rows`, [`TABLE_ROWS`] a table (the
    /// method of the four Russians): who needs many different sums of them adds one row a table.
    ///
    /// Each table is 2^`TABLE_ROWS` work rows, the first of them from `to` on; number `m` of a table becomes
    /// the sum of those of its rows whose bits are set in `m`, and number zero is left as it is.
    ///
    /// No table may hold one of `rows`: rows are read while tables are written.
    pub fn tables(&mut self, rows: core::ops::Range<u32>, to: u32) {
        let count = rows.end.saturating_sub(rows.start);
        if count == 0 {
            return;
        }
        let size = count.div_ceil(TABLE_ROWS).checked_mul(1 << TABLE_ROWS);
        let end = size.and_then(|size| to.checked_add(size)).expect("row number too large");
        self.note(Operand::Work(rows.end - 1));
        self.note(Operand::Work(end - 1));
        self.open = None;
        self.code.truncate(self.whole);
        self.code.extend([Opcode::Tables as u32, count, rows.start, to]);
        self.whole = self.code.len();
    }

    /// Appends the HDPC fold: the work rows `rows` are the columns in their order, work rows from
    /// `first` on become the sums, and those from `scratch` on, one for each pair of sums, are lost.
    /// [`run`](Self::run) must be given `columns` again.
    ///
    /// None of these may be each other.
    ///
    /// # Panics
    ///
    /// If there are not as many rows as columns, or the program folds other columns already.
    pub fn fold(
        &mut self,
        columns: &FoldColumns,
        rows: impl ExactSizeIterator<Item = u32>,
        first: u32,
        scratch: u32,
    ) {
        let folds = (columns.len(), columns.sums());
        assert!(self.folds.is_none_or(|before| before == folds), "one kind of fold a program");
        let count = |n: usize| u32::try_from(n).expect("rows fit 32 bits");
        // A row's number has 31 bits and there are at most 32,640 pairs of sums, so these do not wrap.
        let (first, scratch) = (work_word(first), work_word(scratch));
        self.note(Operand::Work(first + count(columns.sums()) - 1));
        self.note(Operand::Work(scratch + count(columns.pair_count()) - 1));
        self.open = None;
        self.code.truncate(self.whole);
        self.code.extend([Opcode::Fold as u32, count(columns.len()), first, scratch]);
        let start = self.code.len();
        for row in rows {
            self.note(Operand::Work(row));
            self.code.push(work_word(row));
        }
        // What the iterator said of its length is not what it gave, perhaps.
        assert_eq!(self.code.len() - start, columns.len(), "one row a column");
        self.whole = self.code.len();
        self.folds = Some(folds);
    }

    /// Runs the program over all columns of the external rows, at most `strip` bytes at a time, unless it has no
    /// work rows.
    ///
    /// Some columns may be computed twice: a program must not read an external row before it
    /// writes it, unless to the same value.
    ///
    /// `workspace` is grown to [`work_rows`](Self::work_rows) times the strip length and its
    /// contents are lost. `columns` must be what [`fold`](Self::fold) was given, for programs
    /// that fold.
    ///
    /// # Panics
    ///
    /// If the program names external rows that `rows` does not have or may not write, if it folds
    /// and `columns` is missing or too large, or if `strip` is none of [`STRIPS`].
    pub fn run(
        &self,
        kernels: Kernels,
        rows: &RowTable<'_, '_>,
        columns: Option<&FoldColumns>,
        workspace: &mut Workspace,
        strip: usize,
    ) {
        Self::run_all(&[(self, 0)], kernels, rows, columns, workspace, strip);
    }

    /// Runs several programs one after the other on the same work rows, within each strip. The
    /// external rows of each are numbered from the given row of the table on.
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run), for each of them.
    pub fn run_all(
        programs: &[(&Self, usize)],
        kernels: Kernels,
        rows: &RowTable<'_, '_>,
        columns: Option<&FoldColumns>,
        workspace: &mut Workspace,
        strip: usize,
    ) {
        assert!(STRIPS.contains(&strip), "no strip of this length");
        let table = rows.rows();
        let (pairs, sums): (&[u16], usize) =
            columns.map_or((&[], 0), |columns| (&columns.numbers, columns.sums()));
        let mut work_rows = 0;
        for &(program, base) in programs {
            let table = table.get(base..).expect("external rows missing");
            assert!(program.external_rows as usize <= table.len(), "external rows missing");
            let writable = |&row: &u32| table[row as usize].writable;
            assert!(program.written.iter().all(writable), "row is shared");
            assert!(program.fold_fits(pairs.len(), sums), "fold columns do not fit");
            work_rows = work_rows.max(program.work_rows as usize);
        }
        let row_len = rows.row_len();
        let (stride, first) = if work_rows > 0 {
            (best_strip(row_len, strip), first_line(table, row_len))
        } else {
            let streams = kernels.table().streams;
            let whole = programs.iter().all(|(program, _)| program.runs_whole(row_len, streams));
            (if whole { row_len.next_multiple_of(64) } else { PRODUCT_STRIP }, 0)
        };
        if work_rows > 0 {
            let size = work_rows.checked_mul(stride).expect("work rows exceed the address space");
            workspace.buffer.reserve_len(size);
        }
        for cut in strips(row_len, stride, first) {
            for &(program, base) in programs {
                let mut work = Strip {
                    code: &program.code[..program.whole],
                    coefficients: &program.coefficients,
                    rows: &table[base..],
                    workspace: workspace.buffer.as_mut_ptr(),
                    stride: cut.stride,
                    column: cut.start,
                    width: cut.width,
                    pairs,
                    sums,
                    pointers: &mut workspace.pointers.0,
                };
                // SAFETY: the checks above: every external row the code names is in the table,
                // valid for the row length, and exclusive if written; the workspace has every
                // work row for `stride` bytes, if any is named; `kernels` proves the instruction set.
                unsafe { run(kernels.table(), &mut work) };
            }
        }
    }

    /// Whether a program without work rows runs over rows of that length as fast in one piece as in strips:
    /// strips only keep the inputs near where outputs are so many that they are read several times, and can.
    fn runs_whole(&self, row_len: usize, streams: bool) -> bool {
        const AT_A_TIME: usize = 4;
        const SECOND_CACHE: usize = 1280 << 10;
        let (outputs, inputs) = self.largest_product;
        outputs <= AT_A_TIME
            || inputs.saturating_mul(row_len) <= SECOND_CACHE
            || streams && inputs.saturating_mul(PRODUCT_STRIP) >= MANY_INPUTS
    }

    /// Whether the fold instructions were recorded for so many columns and sums.
    fn fold_fits(&self, columns: usize, sums: usize) -> bool {
        self.folds.is_none_or(|folds| folds == (columns, sums))
    }
}

#[cfg(test)]
mod tests;
