//! Programs that compute symbols, made from a solution on coefficients.
//!
//! Work rows stand in the order in which they are computed: pivots, then inactive columns
//! ([`Solver::place`]). A pivot is mostly a sum of a few pivots found shortly before, which are
//! then still in the innermost cache. Above them are the HDPC sums and the basis of the inactive
//! columns ([`InactiveSystem`](super::solver::InactiveSystem)): the right-hand sides of binary equations,
//! then the free columns.
//!
//! Forward elimination computes every pivot with the inactive columns taken as zero, and the residuals
//! that determine the inactive columns. Several methods compute symbols from there
//! ([`Eliminated`](super::outputs::Eliminated)); for nearly all symbols, back-substitution computes the
//! inactive columns and then all others ([`Schedule::back_substitution`]).

use wellspring_kernels::{Kernels, Operand, Program, TABLE_ROWS};

use super::capacity::{self, Capacity};
use super::constraints::Constraints;
use super::params::Parameters;
use super::solver::Solver;

/// Memory for making a schedule, kept between uses.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// The work row that each intermediate symbol stands in.
    pub(crate) places: Vec<u32>,
    /// What the equations in the inactive columns lack: binary ones, in the first rows of the basis, then
    /// HDPC rows.
    pub(crate) residuals: Vec<Operand>,
    /// The free columns as combinations of residuals, row after row.
    pub(crate) free: Vec<u8>,
    /// The work rows of the free columns, the last of the basis.
    pub(crate) free_rows: Vec<Operand>,
}

impl Schedule {
    pub(crate) fn memory(&self) -> usize {
        4 * self.places.capacity()
            + size_of::<Operand>() * (self.residuals.capacity() + self.free_rows.capacity())
            + self.free.capacity()
    }

    /// Reserves memory for every schedule of a code of that size.
    pub(crate) fn reserve(&mut self, capacity: &Capacity) {
        capacity::reserve(&mut self.places, capacity.l);
        capacity::reserve(&mut self.residuals, capacity.l);
        capacity::reserve(&mut self.free, capacity.h * capacity.l);
        capacity::reserve(&mut self.free_rows, capacity.h);
    }

    /// Frees memory that only making other schedules would use.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.places.shrink_to_fit();
        self.residuals.shrink_to_fit();
        self.free.shrink_to_fit();
        self.free_rows.shrink_to_fit();
    }

    /// The unknowns of the inactive columns: how long the basis is.
    pub(crate) fn unknowns(&self) -> u32 {
        u32::try_from(self.residuals.len()).expect("less than L")
    }

    /// The work rows of the basis.
    pub(crate) fn basis(&self, params: &Parameters) -> core::ops::Range<u32> {
        let first = params.l + params.h;
        first..first + self.unknowns()
    }

    /// The first work row above those of forward elimination.
    pub(crate) fn free_row(&self, params: &Parameters) -> u32 {
        self.basis(params).end
    }

    /// Appends forward elimination: every pivot with the inactive columns as zero, then the residuals.
    ///
    /// `value_of(i)` is the external row that holds the `i`th of the symbols the solver was given,
    /// `None` for a symbol of zeros. The solver expresses its columns in the basis by the way.
    pub(crate) fn forward_elimination(
        &mut self,
        program: &mut Program,
        kernels: Kernels,
        solver: &mut Solver,
        constraints: &Constraints,
        value_of: impl Fn(u32) -> Option<u32>,
    ) {
        solver.solve_columns();
        solver.system.free_into(kernels, &mut self.free);
        let solver = &*solver;
        let params = &constraints.params;
        self.places.clear();
        self.places.extend((0..params.l).map(|column| solver.peeling.place(column)));
        let places = &self.places;
        let pivots = u32::try_from(solver.peeling.pivots.len()).expect("less than L");
        let value = |row: u32| row.checked_sub(params.s).and_then(&value_of);
        let uses_hdpc = !solver.system.hdpc_rows().is_empty();
        if uses_hdpc {
            let folded = params.k_ext + params.s;
            for &column in solver.peeling.inactive.iter().filter(|&&c| c < folded) {
                program.xor(places[column as usize]);
            }
        }
        for (place, &(row, _)) in (0..).zip(&solver.peeling.pivots) {
            let mut xor = program.xor_with(place, value(row));
            // Those of its columns that are pivots were before it was chosen for the last one.
            xor.work_where(solver.peeling.row_below(row).iter().map(|&other| {
                let other = places[other as usize];
                (other, other < place)
            }));
        }
        self.residuals.clear();
        let (hdpc_sums, first) = (params.l, params.l + params.h);
        for (residual, &row) in (first..).zip(solver.system.rows()) {
            self.residuals.push(Operand::Work(residual));
            let mut xor = program.xor_with(residual, value(row));
            xor.work_where(solver.peeling.row_below(row).iter().map(|&other| {
                let other = places[other as usize];
                (other, other < pivots)
            }));
        }
        self.free_rows.clear();
        for (row, &hdpc) in (self.basis(params).end..).zip(solver.system.hdpc_rows()) {
            self.residuals.push(Operand::Work(hdpc_sums + hdpc));
            self.free_rows.push(Operand::Work(row));
        }
        if uses_hdpc {
            let columns = places[..constraints.hdpc.len()].iter().copied();
            program.fold(&constraints.hdpc, columns, hdpc_sums, self.free_row(params));
        }
    }

    /// Appends the free columns, and tables of the sums of the basis in the work rows from `first` on.
    pub(crate) fn tables(&self, program: &mut Program, params: &Parameters, first: u32) {
        if !self.free_rows.is_empty() {
            program.product(&self.free_rows, &[], &self.residuals, &self.free);
        }
        program.tables(self.basis(params), first);
    }

    /// Appends what computes all intermediate symbols after forward elimination: the inactive ones from
    /// tables, then the same rows again with the inactive columns in place, or, where that
    /// is less, what forward elimination left plus rows of the tables.
    pub(crate) fn back_substitution(
        &mut self,
        program: &mut Program,
        solver: &Solver,
        params: &Parameters,
        value_of: impl Fn(u32) -> Option<u32>,
    ) {
        let tables = self.free_row(params);
        self.tables(program, params, tables);
        let (bits, words) = solver.bits();
        let sum_of = |column: u32| {
            let bits = &bits[column as usize * words..][..words];
            table_rows_of(bits, self.unknowns(), tables)
        };
        let places = &self.places;
        for &column in &solver.peeling.inactive {
            program.xor(places[column as usize]).work_where(sum_of(column));
        }
        for (place, &(row, column)) in (0..).zip(&solver.peeling.pivots) {
            let terms = table_terms(&bits[column as usize * words..][..words]);
            if terms + 1 < solver.peeling.row(row).len() {
                let mut xor = program.xor(place);
                xor.work(place);
                xor.work_where(sum_of(column));
                continue;
            }
            let value = row.checked_sub(params.s).and_then(&value_of);
            let mut xor = program.xor_with(place, value);
            xor.work_where(solver.peeling.row(row).iter().map(|&other| {
                let other = places[other as usize];
                (other, other != place)
            }));
        }
    }
}

/// Work rows that tables of the sums of a basis of that length take.
pub(crate) fn table_rows(unknowns: u32) -> u32 {
    unknowns.div_ceil(TABLE_ROWS) << TABLE_ROWS
}

/// How many of the rows that [`table_rows_of`] gives are wanted.
fn table_terms(bits: &[u64]) -> usize {
    const { assert!(TABLE_ROWS == 4, "bits are joined by fours") };
    let terms = |bits: &u64| {
        let pairs = bits | bits >> 1;
        ((pairs | pairs >> 2) & 0x1111_1111_1111_1111).count_ones() as usize
    };
    bits.iter().map(terms).sum()
}

/// The rows of the tables from `first` on whose sum is the sum of those of the basis that `bits` names: for
/// each table its row, and whether it is wanted.
pub(crate) fn table_rows_of(
    bits: &[u64],
    unknowns: u32,
    first: u32,
) -> impl ExactSizeIterator<Item = (u32, bool)> {
    let per_word = 64 / TABLE_ROWS;
    (0..unknowns.div_ceil(TABLE_ROWS)).map(move |table| {
        let bits = bits[(table / per_word) as usize];
        let number = (bits >> (table % per_word * TABLE_ROWS)) as u32 % (1 << TABLE_ROWS);
        (first + (table << TABLE_ROWS) + number, number != 0)
    })
}

/// Appends what computes symbols from all intermediate symbols after back-substitution.
pub(crate) fn sums(
    program: &mut Program,
    constraints: &Constraints,
    places: &[u32],
    columns: &mut Vec<u32>,
    free: u32,
    outputs: impl Iterator<Item = (u32, u32)>,
) {
    for (isi, to) in outputs {
        columns.clear();
        constraints.lt_columns(isi, columns);
        let mut sum = program.xor(free);
        sum.work_where(columns.iter().map(|&column| (places[column as usize], true)));
        sum.store(to);
    }
}
