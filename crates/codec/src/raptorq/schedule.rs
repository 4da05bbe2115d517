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
    let sums = params.l;
    let residuals = sums + params.h;
    let unknowns = u32::try_from(solver.inactive.len()).expect("less than L");
    let values = residuals + unknowns;
    // The external row and the work row of the symbol a row of the matrix equals, if it is not zero.
    let value = |row: u32| {
        let symbol = row.checked_sub(params.s)?;
        value_of(symbol).map(|external| (external, values + symbol))
    };
    let folded = params.k_ext + params.s;
    let uses_hdpc = solver.equations.iter().any(|e| matches!(e, Equation::Hdpc(_)));
    let binary = solver.equations.iter().filter_map(|equation| match equation {
        Equation::Row(row) => Some(*row),
        Equation::Hdpc(_) => None,
    });
    for row in solver.pivots.iter().map(|pivot| pivot.0).chain(binary) {
        if let Some((external, work)) = value(row) {
            program.load(work, external);
        }
    }

    // First sweep: every pivot with the inactive columns taken as zero.
    if uses_hdpc {
        for &column in solver.inactive.iter().filter(|&&c| c < folded) {
            program.xor(column);
        }
    }
    for &(row, column) in &solver.pivots {
        let mut xor = program.xor(column);
        if let Some((_, work)) = value(row) {
            xor.work(work);
        }
        for &other in solver.row(row) {
            if other != column && !solver.is_inactive(other) {
                xor.work(other);
            }
        }
    }

    // What the remaining equations then lack is what the inactive columns must make up for.
    let mut inputs = Vec::with_capacity(solver.equations.len());
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
        if let Some((_, work)) = value(row) {
            xor.work(work);
        }
        for &other in solver.row(row) {
            if !solver.is_inactive(other) {
                xor.work(other);
            }
        }
    }
    if uses_hdpc {
        program.fold(&constraints.hdpc, sums);
    }
    let outputs: Vec<_> = solver.inactive.iter().map(|&c| Operand::Work(c)).collect();
    let mut inverse = Vec::new();
    solver.elimination.inverse_into(&mut inverse);
    program.product(&outputs, &[], &inputs, &inverse);

    // Second sweep: the same rows with the inactive columns in place.
    for &(row, column) in &solver.pivots {
        let mut xor = program.xor(column);
        if let Some((_, work)) = value(row) {
            xor.work(work);
        }
        for &other in solver.row(row) {
            if other != column {
                xor.work(other);
            }
        }
    }
}
