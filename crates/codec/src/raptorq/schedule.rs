//! From a solution on coefficients to the program that computes symbols.
//!
//! Work row `c < L` of the program is intermediate symbol `c`; the rows above hold the right-hand
//! sides of the equations in the inactive columns.

use wellspring_kernels::{Operand, Program};

use super::constraints::Constraints;
use super::solver::{Equation, Solver};

/// Appends what computes all intermediate symbols from the symbols the solver was given.
///
/// `value_of(i)` is the external row that holds the `i`th of these symbols, `None` for a symbol of
/// zeros.
pub(crate) fn intermediate_symbols(
    program: &mut Program,
    solver: &Solver,
    constraints: &Constraints,
    value_of: impl Fn(u32) -> Option<u32>,
) {
    let params = &constraints.params;
    let ldpc_rows = params.s;
    let value = |row: u32| row.checked_sub(ldpc_rows).and_then(&value_of);
    let folded = params.k_ext + params.s;
    let uses_hdpc = solver.equations.iter().any(|e| matches!(e, Equation::Hdpc(_)));

    // First sweep: every pivot with the inactive columns taken as zero.
    if uses_hdpc {
        for &column in solver.inactive.iter().filter(|&&c| c < folded) {
            program.xor(Operand::Work(column));
        }
    }
    for &(row, column) in &solver.pivots {
        let mut xor = program.xor(Operand::Work(column));
        if let Some(external) = value(row) {
            xor.external(external);
        }
        for &other in solver.row(row) {
            if other != column && !solver.is_inactive(other) {
                xor.work(other);
            }
        }
    }

    // What the remaining equations then lack is what the inactive columns must make up for.
    let sums = params.l;
    let residuals = sums + params.h;
    let mut inputs = Vec::with_capacity(solver.equations.len());
    if uses_hdpc {
        program.fold(&constraints.hdpc, sums);
    }
    for (i, &equation) in (0..).zip(&solver.equations) {
        let row = match equation {
            Equation::Hdpc(row) => {
                inputs.push(Operand::Work(sums + row));
                continue;
            }
            Equation::Row(row) => row,
        };
        let residual = Operand::Work(residuals + i);
        let mut xor = program.xor(residual);
        if let Some(external) = value(row) {
            xor.external(external);
        }
        for &other in solver.row(row) {
            if !solver.is_inactive(other) {
                xor.work(other);
            }
        }
        inputs.push(residual);
    }
    let outputs: Vec<_> = solver.inactive.iter().map(|&c| Operand::Work(c)).collect();
    let mut inverse = Vec::new();
    solver.elimination.inverse_into(&mut inverse);
    program.product(&outputs, &inputs, &inverse);

    // Second sweep: the same rows with the inactive columns in place.
    for &(row, column) in &solver.pivots {
        let mut xor = program.xor(Operand::Work(column));
        if let Some(external) = value(row) {
            xor.external(external);
        }
        for &other in solver.row(row) {
            if other != column {
                xor.work(other);
            }
        }
    }
}

/// Appends encoding symbol `isi` of the intermediate symbols in the work rows.
pub(crate) fn encoding_symbol(
    program: &mut Program,
    constraints: &Constraints,
    isi: u32,
    to: Operand,
    columns: &mut Vec<u32>,
) {
    columns.clear();
    constraints.params.lt_columns(isi, columns);
    let mut xor = program.xor(to);
    for &column in columns.iter() {
        xor.work(column);
    }
}
