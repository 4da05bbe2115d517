//! Programs: the symbol operations of an encoding or decoding, recorded once and run over columns.
//!
//! A program works on *work rows*, which exist only as long as a strip of columns is processed, and
//! on *external rows*, the symbols in the caller's buffers. Running it strip by strip keeps the
//! work rows in the innermost caches however long the symbols are. Programs can only be built
//! through checked methods, so that running one needs a few comparisons and no bounds checks
//! in the loops.

mod columns;
mod run;

use crate::fold::FoldColumns;
use crate::instruction::{EXTERNAL, HEAD, MANY_INPUTS, Opcode, Operand, TABLE_ROWS, work_word};
use crate::kernels::Kernels;
use crate::rows::RowTable;
use crate::strip::{Strip, Workspace};
use columns::{best_strip, first_line, strips};

pub use columns::STRIPS;
use run::run;

/// The strip length of programs without work rows \[bytes\].
const PRODUCT_STRIP: usize = 512;

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

/// Adds sources to a sum, which is recorded when the builder is dropped.
///
/// Its words go straight to where they stay, behind what is whole of the program: put together
/// elsewhere and copied, they would be read in wider pieces than they were written in, and wait.
#[derive(Debug)]
pub struct XorBuilder<'p> {
    program: &'p mut Program,
    /// Where the block of sums starts.
    block: usize,
    /// Where the words of this sum start.
    start: usize,
    highest: u32,
}

impl<'p> XorBuilder<'p> {
    /// Begins a sum into a work row.
    #[inline(always)]
    fn new(program: &'p mut Program, to: u32) -> Self {
        let to = work_word(to);
        let block = program.block();
        let start = program.code.len();
        program.code.extend([to, 0]);
        Self { program, block, start, highest: to }
    }

    /// Adds an external row, which must be the first source.
    #[inline(always)]
    fn external(self, row: u32) -> Self {
        let operand = Operand::External(row);
        self.program.note(operand);
        self.program.code.push(operand.word());
        self
    }

    /// Adds a work row.
    #[inline]
    pub fn work(&mut self, row: u32) -> &mut Self {
        let word = work_word(row);
        self.highest = self.highest.max(word);
        self.program.code.push(word);
        self
    }

    /// Adds those of some work rows that are wanted, without a branch that would have to foretell
    /// which they are. The program has room for all of them.
    ///
    /// # Panics
    ///
    /// If a row is 2^31 or more, or there are more than the iterator said: the sum then holds any of
    /// the rows that were given.
    #[inline(always)]
    pub fn work_where(&mut self, rows: impl ExactSizeIterator<Item = (u32, bool)>) -> &mut Self {
        let code = &mut self.program.code;
        let start = code.len();
        code.resize(start.checked_add(rows.len()).expect("rows that memory has room for"), 0);
        let mut end = start;
        for (row, wanted) in rows {
            let word = work_word(row);
            code[end] = word;
            end += usize::from(wanted);
            // Unwanted ones count too: the last one stands in the code until the next, and stays if
            // there is a panic.
            self.highest = self.highest.max(word);
        }
        code.truncate(end);
        self
    }

    /// Ends the sum in an external row. The work row it was begun for is left alone.
    #[inline(always)]
    pub fn store(self, external: u32) {
        let operand = Operand::External(external);
        self.program.note_written(operand);
        self.program.code[self.start] = operand.word();
    }
}

impl Drop for XorBuilder<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let program = &mut *self.program;
        let end = program.code.len();
        let count = |from: usize| u32::try_from(end - from - HEAD).expect("words fit 32 bits");
        let (sources, words) = (count(self.start), count(self.block));
        program.code[self.start + 1] = sources;
        program.code[self.block + 1] = words;
        program.whole = end;
        program.work_rows = program.work_rows.max(self.highest + 1);
    }
}

#[cfg(test)]
mod tests;
