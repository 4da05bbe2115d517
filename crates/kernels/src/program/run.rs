//! Interpreter of programs.

use crate::generic::Table;
use crate::instruction::{HEAD, Opcode};
use crate::strip::Strip;

/// Runs a program over one strip of columns.
///
/// Each kind of instruction is a function of its own: in one body, a loop of one kind would have to do
/// with the registers that the others leave.
///
/// # Safety
///
/// The strip was made by [`Program::run_all`](super::Program::run_all), which checks that every row the
/// program names exists and every written external row is exclusive; the CPU has the table's
/// instruction set.
pub(super) unsafe fn run(table: &Table, strip: &mut Strip<'_>) {
    let code = strip.code;
    let mut at = 0;
    while at < code.len() {
        // SAFETY: the builder writes whole instructions only, and checked every operand.
        unsafe {
            let opcode = Opcode::from_word(*code.get_unchecked(at));
            let first = *code.get_unchecked(at + 1) as usize;
            match opcode {
                Opcode::Sums => {
                    let end = at + HEAD + first;
                    (table.sums)(strip, code.get_unchecked(at + HEAD..end));
                    at = end;
                }
                Opcode::Product => {
                    let bases = *code.get_unchecked(at + 2) as usize;
                    let inputs = *code.get_unchecked(at + 3) as usize;
                    let coefficients = *code.get_unchecked(at + 4) as usize;
                    let end = at + 5 + first + bases + inputs;
                    let (outputs, rest) = code.get_unchecked(at + 5..end).split_at_unchecked(first);
                    let (bases, inputs) = rest.split_at_unchecked(bases);
                    let rows = (outputs, bases, inputs);
                    if strip.width < table.vector {
                        (table.short_product)(strip, rows, coefficients);
                    } else {
                        (table.product)(strip, rows, coefficients);
                    }
                    at = end;
                }
                Opcode::Fold => {
                    let (sums, scratch) =
                        (*code.get_unchecked(at + 2), *code.get_unchecked(at + 3));
                    (table.fold)(
                        strip,
                        code.get_unchecked(at + 4..at + 4 + first),
                        (sums, scratch),
                    );
                    at += 4 + first;
                }
                Opcode::Tables => {
                    let (rows, to) = (*code.get_unchecked(at + 2), *code.get_unchecked(at + 3));
                    (table.tables)(strip, (rows, first), to);
                    at += 4;
                }
            }
        }
    }
}
