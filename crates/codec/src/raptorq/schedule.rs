//! From a solution on coefficients to the program that computes symbols.
//!
//! Work rows stand in the order in which they are computed: pivots, then inactive columns
//! ([`Solver::place`]). A pivot is mostly a sum of a few pivots found shortly before, which are
//! then still in the innermost cache. Above them are the HDPC sums, the right-hand sides of the
//! equations in the inactive columns, and the symbols given, in the order they are used.

use wellspring_kernels::{Operand, Program};

use super::constraints::Constraints;
use super::solver::{Equation, Solver};

/// Memory for making a schedule, kept between uses.
#[derive(Debug, Default)]
pub(crate) struct ScheduleScratch {
    slots: Vec<u32>,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
    inverse: Vec<u8>,
}

impl ScheduleScratch {
    pub(crate) fn memory(&self) -> usize {
        4 * self.slots.capacity()
            + size_of::<Operand>() * (self.inputs.capacity() + self.outputs.capacity())
            + self.inverse.capacity()
    }
}

/// Appends what computes all intermediate symbols from the symbols the solver was given.
///
/// `value_of(i)` is the external row that holds the `i`th of these symbols, `None` for a symbol of
/// zeros.
pub(crate) fn intermediate_symbols(
    program: &mut Program,
    solver: &Solver,
    constraints: &Constraints,
    scratch: &mut ScheduleScratch,
    value_of: impl Fn(u32) -> Option<u32>,
) {
    let params = &constraints.params;
    let sums = params.l;
    let residuals = sums + params.h;
    let unknowns = u32::try_from(solver.inactive.len()).expect("less than L");
    let values = residuals + unknowns;
    let folded = params.k_ext + params.s;
    let uses_hdpc = solver.equations.iter().any(|e| matches!(e, Equation::Hdpc(_)));
    let binary = solver.equations.iter().filter_map(|equation| match equation {
        Equation::Row(row) => Some(*row),
        Equation::Hdpc(_) => None,
    });

    // Where the symbol each row of the matrix equals is loaded to, if it is not zero.
    let ScheduleScratch { slots, inputs, outputs, inverse } = scratch;
    slots.clear();
    slots.resize(solver.rows(), u32::MAX);
    for (slot, row) in (values..).zip(solver.pivots.iter().map(|pivot| pivot.0).chain(binary)) {
        if row.checked_sub(params.s).and_then(&value_of).is_some() {
            slots[row as usize] = slot;
        }
    }
    for (symbol, &slot) in (0..).zip(&slots[params.s as usize..]) {
        if let Some(external) = value_of(symbol).filter(|_| slot != u32::MAX) {
            program.load(slot, external);
        }
    }
    let value = |row: u32| Some(slots[row as usize]).filter(|slot| *slot != u32::MAX);

    // First sweep: every pivot with the inactive columns taken as zero.
    if uses_hdpc {
        for &column in solver.inactive.iter().filter(|&&c| c < folded) {
            program.xor(solver.place(column));
        }
    }
    for &(row, column) in &solver.pivots {
        let mut xor = program.xor(solver.place(column));
        if let Some(slot) = value(row) {
            xor.work(slot);
        }
        for &other in solver.row(row) {
            if other != column && !solver.is_inactive(other) {
                xor.work(solver.place(other));
            }
        }
    }

    // What the remaining equations then lack is what the inactive columns must make up for.
    inputs.clear();
    for (i, &equation) in (0..).zip(&solver.equations) {
        let row = match equation {
            Equation::Hdpc(row) => {
                inputs.push(Operand::Work(sums + row));
                continue;
            }
            Equation::Row(row) => row,
        };
        inputs.push(Operand::Work(residuals + i));
        let mut xor = program.xor(residuals + i);
        if let Some(slot) = value(row) {
            xor.work(slot);
        }
        for &other in solver.row(row) {
            if !solver.is_inactive(other) {
                xor.work(solver.place(other));
            }
        }
    }
    if uses_hdpc {
        let columns = constraints.hdpc.len();
        let columns = (0..columns).map(|c| solver.place(u32::try_from(c).expect("below L")));
        program.fold(&constraints.hdpc, columns, sums);
    }
    outputs.clear();
    outputs.extend(solver.inactive.iter().map(|&c| Operand::Work(solver.place(c))));
    solver.elimination.inverse_into(inverse);
    program.product(outputs, &[], inputs, inverse);

    // Second sweep: the same rows with the inactive columns in place.
    for &(row, column) in &solver.pivots {
        let mut xor = program.xor(solver.place(column));
        if let Some(slot) = value(row) {
            xor.work(slot);
        }
        for &other in solver.row(row) {
            if other != column {
                xor.work(solver.place(other));
            }
        }
    }
}
