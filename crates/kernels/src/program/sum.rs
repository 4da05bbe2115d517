//! Sums of any number of rows, recorded four at a time.

use super::{EXTERNAL, Operand, Program, STEP, ZERO, work_slot};

/// Adds sources to a sum, which is recorded when the builder is dropped.
#[derive(Debug)]
pub struct XorBuilder<'p> {
    program: &'p mut Program,
    /// Where the block of steps starts, and the words added to it.
    head: usize,
    words: u32,
    /// The step that is being filled, and how many of its words are.
    step: [u32; STEP],
    filled: usize,
    highest: u32,
}

impl<'p> XorBuilder<'p> {
    /// Begins a sum into a work row: the word of its first source, or `ZERO`, and how many words of a
    /// step that and the row itself make.
    #[inline]
    pub(super) fn new(program: &'p mut Program, to: u32, first: u32, filled: usize) -> Self {
        let to = work_slot(to);
        let head = program.block();
        let step = [to, first, ZERO, ZERO, ZERO];
        Self { program, head, words: 0, step, filled, highest: to }
    }

    /// Adds a work row.
    #[inline]
    pub fn work(&mut self, row: u32) -> &mut Self {
        let slot = work_slot(row);
        self.highest = self.highest.max(slot);
        if self.filled == STEP {
            self.record();
            self.step = [self.step[0], self.step[0], slot, ZERO, ZERO];
            self.filled = 3;
        } else {
            self.step[self.filled] = slot;
            self.filled += 1;
        }
        self
    }

    /// Ends the sum in an external row. The work row holds no more than a part of it then, or nothing.
    #[inline]
    pub fn store(mut self, external: u32) {
        self.program.note_written(Operand::External(external));
        self.step[0] = external | EXTERNAL;
    }

    #[inline]
    fn record(&mut self) {
        self.program.code.extend(self.step);
        self.words += STEP as u32;
    }
}

impl Drop for XorBuilder<'_> {
    #[inline]
    fn drop(&mut self) {
        self.record();
        self.program.code[self.head + 1] += self.words;
        self.program.whole = self.program.code.len();
        self.program.work_rows = self.program.work_rows.max(self.highest + 1);
    }
}
