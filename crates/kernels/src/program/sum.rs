//! Sums of any number of rows, recorded four at a time.

use super::{EXTERNAL, Operand, Program, STEP, ZERO, work_slot};

/// Adds sources to a sum, which is recorded when the builder is dropped.
///
/// The words of its steps go straight to where they stay, behind what is whole of the program: put
/// together elsewhere and copied, they would be read in wider pieces than they were written in, and wait.
#[derive(Debug)]
pub struct XorBuilder<'p> {
    program: &'p mut Program,
    /// Where the block of steps starts.
    head: usize,
    /// The slot of the row that is summed into.
    to: u32,
    /// Where the next source goes: into the last step, or behind it if that is full.
    next: usize,
    highest: u32,
}

impl<'p> XorBuilder<'p> {
    /// Begins a sum into a work row: the word of its first source, or `ZERO`, and how many words of a
    /// step that and the row itself make.
    #[inline]
    pub(super) fn new(program: &'p mut Program, to: u32, first: u32, filled: usize) -> Self {
        let to = work_slot(to);
        let head = program.block();
        let next = program.code.len() + filled;
        program.code.extend([to, first, ZERO, ZERO, ZERO]);
        Self { program, head, to, next, highest: to }
    }

    /// Adds a work row.
    #[inline]
    pub fn work(&mut self, row: u32) -> &mut Self {
        let slot = work_slot(row);
        self.highest = self.highest.max(slot);
        let code = &mut self.program.code;
        if let Some(word) = code.get_mut(self.next) {
            *word = slot;
            self.next += 1;
        } else {
            code.extend([self.to, self.to, slot, ZERO, ZERO]);
            self.next += 3;
        }
        self
    }

    /// Ends the sum in an external row. The work row holds no more than a part of it then, or nothing.
    #[inline]
    pub fn store(self, external: u32) {
        self.program.note_written(Operand::External(external));
        let last = self.program.code.len() - STEP;
        self.program.code[last] = external | EXTERNAL;
    }
}

impl Drop for XorBuilder<'_> {
    #[inline]
    fn drop(&mut self) {
        let program = &mut *self.program;
        program.whole = program.code.len();
        let words = program.whole - self.head - 2;
        program.code[self.head + 1] = u32::try_from(words).expect("words fit 32 bits");
        program.work_rows = program.work_rows.max(self.highest + 1);
    }
}
