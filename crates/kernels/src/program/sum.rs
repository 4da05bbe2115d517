//! Sums of any number of rows.

use super::{HEAD, Operand, Program, work_word};

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
    pub(super) fn new(program: &'p mut Program, to: u32) -> Self {
        let to = work_word(to);
        let block = program.block();
        let start = program.code.len();
        program.code.extend([to, 0]);
        Self { program, block, start, highest: to }
    }

    /// Adds an external row, which must be the first source.
    #[inline(always)]
    pub(super) fn external(self, row: u32) -> Self {
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
        code.resize(start + rows.len(), 0);
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
