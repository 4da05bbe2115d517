//! From a solution on coefficients to the programs that compute symbols.
//!
//! Work rows stand in the order in which they are computed: pivots, then inactive columns
//! ([`Solver::place`]). A pivot is mostly a sum of a few pivots found shortly before, which are
//! then still in the innermost cache. Above them are the HDPC sums and the right-hand sides of the
//! equations in the inactive columns.
//!
//! The first sweep computes every pivot with the inactive columns taken as zero, and the residuals
//! that determine the inactive columns. From there, a few symbols are cheapest as sums of what they
//! are made of plus a combination of residuals, more as the same sums plus sums of inactive columns
//! from tables ([`Swept::outputs`]); for nearly all symbols the inactive columns and, in a second
//! sweep, all others are computed ([`Schedule::second_sweep`]).

use wellspring_kernels::{Kernels, Operand, Program, TABLE_ROWS};

use super::constraints::Constraints;
use super::cost::{self, Size, Way};
use super::params::Parameters;
use super::room::{self, LONGEST_ROW, Room};
use super::solver::{Equation, Solver};

/// Memory for making a schedule, kept between uses.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// The work row that each intermediate symbol stands in.
    pub(crate) places: Vec<u32>,
    /// What the equations in the inactive columns lack, in the order of `inverse`'s columns.
    pub(crate) residuals: Vec<Operand>,
    /// Each inactive column as a combination of residuals, row after row.
    pub(crate) inverse: Vec<u8>,
    outputs: Vec<Operand>,
}

impl Schedule {
    pub(crate) fn memory(&self) -> usize {
        4 * self.places.capacity()
            + size_of::<Operand>() * (self.residuals.capacity() + self.outputs.capacity())
            + self.inverse.capacity()
    }

    /// Makes room for every schedule of a code of that size.
    pub(crate) fn reserve(&mut self, room: &Room) {
        room::reserve(&mut self.places, room.l);
        room::reserve(&mut self.residuals, room.l);
        room::reserve(&mut self.inverse, room.l * room.l);
        room::reserve(&mut self.outputs, room.l);
    }

    /// Frees memory that only making other schedules would use.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.places.shrink_to_fit();
        self.residuals.shrink_to_fit();
        self.inverse.shrink_to_fit();
        self.outputs = Vec::new();
    }

    /// The first work row above those of the sweeps.
    pub(crate) fn free_row(&self, params: &Parameters) -> u32 {
        let unknowns = u32::try_from(self.residuals.len()).expect("less than L");
        params.l + params.h + unknowns
    }

    /// Appends the first sweep: every pivot with the inactive columns as zero, then the residuals.
    ///
    /// `value_of(i)` is the external row that holds the `i`th of the symbols the solver was given,
    /// `None` for a symbol of zeros.
    pub(crate) fn first_sweep(
        &mut self,
        program: &mut Program,
        solver: &Solver,
        constraints: &Constraints,
        value_of: impl Fn(u32) -> Option<u32>,
    ) {
        let params = &constraints.params;
        let sums = params.l;
        let residuals = sums + params.h;
        let folded = params.k_ext + params.s;
        self.places.clear();
        self.places.extend((0..params.l).map(|column| solver.place(column)));
        let places = &self.places;
        let pivots = u32::try_from(solver.pivots.len()).expect("less than L");
        let value = |row: u32| row.checked_sub(params.s).and_then(&value_of);
        let uses_hdpc = solver.equations.iter().any(|e| matches!(e, Equation::Hdpc(_)));
        if uses_hdpc {
            for &column in solver.inactive.iter().filter(|&&c| c < folded) {
                program.xor(places[column as usize]);
            }
        }
        for (place, &(row, _)) in (0..).zip(&solver.pivots) {
            let mut xor = program.xor_with(place, value(row));
            // Those of its columns that are pivots were before it was chosen for the last one.
            xor.work_where(solver.row_below(row).iter().map(|&other| {
                let other = places[other as usize];
                (other, other < place)
            }));
        }
        self.residuals.clear();
        for (i, &equation) in (0..).zip(&solver.equations) {
            let row = match equation {
                Equation::Hdpc(row) => {
                    self.residuals.push(Operand::Work(sums + row));
                    continue;
                }
                Equation::Row(row) => row,
            };
            self.residuals.push(Operand::Work(residuals + i));
            let mut xor = program.xor_with(residuals + i, value(row));
            xor.work_where(solver.row_below(row).iter().map(|&other| {
                let other = places[other as usize];
                (other, other < pivots)
            }));
        }
        if uses_hdpc {
            let columns = places[..constraints.hdpc.len()].iter().copied();
            program.fold(&constraints.hdpc, columns, sums);
        }
        solver.elimination.inverse_into(&mut self.inverse);
    }

    /// Appends what computes all intermediate symbols after the first sweep: the inactive ones from
    /// the residuals, then the same rows again with the inactive columns in place, or, where that
    /// is less, what the first sweep left plus the inactive symbols it lacks.
    pub(crate) fn second_sweep(
        &mut self,
        program: &mut Program,
        solver: &Solver,
        params: &Parameters,
        value_of: impl Fn(u32) -> Option<u32>,
    ) {
        let Self { places, residuals, inverse, outputs } = self;
        outputs.clear();
        outputs.extend(solver.inactive.iter().map(|&c| Operand::Work(places[c as usize])));
        program.product(outputs, &[], residuals, inverse);
        let pivots = u32::try_from(solver.pivots.len()).expect("less than L");
        let (bits, words) = solver.bits();
        for (place, &(row, column)) in (0..).zip(&solver.pivots) {
            let bits = &bits[column as usize * words..][..words];
            let terms: u32 = bits.iter().map(|word| word.count_ones()).sum();
            // Inactive symbols are few and always near, those of a long row are not.
            if 2 * terms as usize <= 3 * solver.row(row).len() {
                let mut xor = program.xor(place);
                xor.work(place);
                for inactive in set_bits(bits) {
                    xor.work(pivots + inactive);
                }
                continue;
            }
            let value = row.checked_sub(params.s).and_then(&value_of);
            let mut xor = program.xor_with(place, value);
            xor.work_where(solver.row(row).iter().map(|&other| {
                let other = places[other as usize];
                (other, other != place)
            }));
        }
    }
}

/// What a first sweep leaves behind, on coefficients.
pub(crate) struct Swept<'a> {
    pub(crate) kernels: Kernels,
    pub(crate) params: &'a Parameters,
    pub(crate) schedule: &'a Schedule,
    /// Each intermediate symbol as bits over the inactive ones, `words` words a symbol.
    pub(crate) bits: &'a [u64],
    pub(crate) words: usize,
}

/// Memory for [`Swept::outputs`], kept between uses.
#[derive(Debug, Default)]
pub(crate) struct OutputScratch {
    columns: Vec<u32>,
    bits: Vec<u64>,
    unknowns: Vec<u32>,
    coefficients: Vec<u8>,
    bases: Vec<Operand>,
    outputs: Vec<Operand>,
    inactive: Vec<Operand>,
}

impl OutputScratch {
    /// Makes room for the symbols of a code of that size.
    pub(crate) fn reserve(&mut self, room: &Room) {
        room::reserve(&mut self.columns, LONGEST_ROW);
        room::reserve(&mut self.bits, room.l.div_ceil(64));
        room::reserve(&mut self.unknowns, room.l);
        room::reserve(&mut self.coefficients, BATCH * room.l);
        room::reserve(&mut self.bases, BATCH);
        room::reserve(&mut self.outputs, BATCH);
        room::reserve(&mut self.inactive, room.l);
    }

    pub(crate) fn memory(&self) -> usize {
        4 * (self.columns.capacity() + self.unknowns.capacity())
            + 8 * self.bits.capacity()
            + self.coefficients.capacity()
            + size_of::<Operand>()
                * (self.bases.capacity() + self.outputs.capacity() + self.inactive.capacity())
    }
}

/// Symbols made together: as many as the widest matrix product takes at once.
pub(crate) const BATCH: usize = 8;

/// A symbol to compute: its internal symbol ID, where to, and the external row of what is added to
/// it, if there is any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) isi: u32,
    pub(crate) to: Operand,
    pub(crate) plus: Option<u32>,
}

impl Swept<'_> {
    /// The way to so many symbols (`size.lost`) of that size that takes least.
    pub(crate) fn way(&self, size: &Size) -> Way {
        let unknowns = self.unknowns();
        let way = cost::way(self.kernels.isa(), size, unknowns);
        // Beyond what is reserved for tables there are few symbols, or uncommonly many unknowns.
        match way {
            Way::Tables if table_rows(unknowns) > self.params.l + TABLES_BEYOND => Way::Sweep,
            way => way,
        }
    }

    /// The same where no second sweep can follow: on the syndrome road the missing symbols count as zero.
    pub(crate) fn way_without_sweep(&self, size: &Size) -> Way {
        match self.way(size) {
            Way::Sweep if table_rows(self.unknowns()) <= self.params.l + TABLES_BEYOND => {
                Way::Tables
            }
            Way::Sweep => Way::Residuals,
            way => way,
        }
    }

    /// The first work row above those that are used on the way to symbols, which begin at `free`.
    pub(crate) fn above(&self, way: Way, free: u32) -> u32 {
        match way {
            Way::Residuals => free + BATCH as u32,
            Way::Tables => free + table_rows(self.unknowns()),
            Way::Sweep => free,
        }
    }

    fn unknowns(&self) -> u32 {
        u32::try_from(self.schedule.residuals.len()).expect("less than L")
    }

    /// Appends what computes symbols from what the first sweep left. Work rows from `free` to
    /// [`above`](Self::above) are used.
    pub(crate) fn outputs(
        &self,
        program: &mut Program,
        scratch: &mut OutputScratch,
        (way, free): (Way, u32),
        outputs: impl Iterator<Item = Output>,
    ) {
        match way {
            Way::Tables => self.by_tables(program, scratch, free, outputs),
            _ => self.by_residuals(program, scratch, free, outputs),
        }
    }

    /// Each symbol as the pivots it is a sum of and a combination of the residuals, which a matrix product
    /// adds.
    fn by_residuals(
        &self,
        program: &mut Program,
        scratch: &mut OutputScratch,
        free: u32,
        outputs: impl Iterator<Item = Output>,
    ) {
        let residuals = &self.schedule.residuals;
        let pivots = self.params.l - self.unknowns();
        let mut outputs = outputs.peekable();
        while outputs.peek().is_some() {
            scratch.bases.clear();
            scratch.outputs.clear();
            scratch.coefficients.clear();
            for (row, output) in (free..).zip(outputs.by_ref().take(BATCH)) {
                scratch.columns.clear();
                self.params.lt_columns(output.isi, &mut scratch.columns);
                let mut xor = program.xor_with(row, output.plus);
                xor.work_where(scratch.columns.iter().map(|&column| {
                    let place = self.schedule.places[column as usize];
                    (place, place < pivots)
                }));
                scratch.bases.push(Operand::Work(row));
                scratch.outputs.push(output.to);
                self.coefficients(scratch);
            }
            program.product(&scratch.outputs, &scratch.bases, residuals, &scratch.coefficients);
        }
    }

    /// Each symbol as the pivots it is a sum of and the inactive symbols those lack, which tables of
    /// the sums of four give four at a time.
    fn by_tables(
        &self,
        program: &mut Program,
        scratch: &mut OutputScratch,
        free: u32,
        outputs: impl Iterator<Item = Output>,
    ) {
        let unknowns = self.unknowns();
        let pivots = self.params.l - unknowns;
        scratch.inactive.clear();
        scratch.inactive.extend((pivots..self.params.l).map(Operand::Work));
        let Schedule { places, residuals, inverse, .. } = self.schedule;
        program.product(&scratch.inactive, &[], residuals, inverse);
        program.tables(pivots..self.params.l, free);
        let per_word = 64 / TABLE_ROWS;
        for output in outputs {
            scratch.columns.clear();
            self.params.lt_columns(output.isi, &mut scratch.columns);
            self.sum_bits(scratch);
            let to = match output.to {
                Operand::Work(row) => row,
                // Begun for number zero of a table, which is no sum.
                Operand::External(_) => free,
            };
            let mut xor = program.xor_with(to, output.plus);
            xor.work_where(scratch.columns.iter().map(|&column| {
                let place = places[column as usize];
                (place, place < pivots)
            }));
            xor.work_where((0..unknowns.div_ceil(TABLE_ROWS)).map(|table| {
                let bits = scratch.bits[(table / per_word) as usize];
                let number = (bits >> (table % per_word * TABLE_ROWS)) as u32 % (1 << TABLE_ROWS);
                (free + (table << TABLE_ROWS) + number, number != 0)
            }));
            if let Operand::External(to) = output.to {
                xor.store(to);
            }
        }
    }

    /// Which inactive symbols the sum of `scratch.columns` has, as bits.
    fn sum_bits(&self, scratch: &mut OutputScratch) {
        scratch.bits.clear();
        scratch.bits.resize(self.words, 0);
        for &column in &scratch.columns {
            let bits = &self.bits[column as usize * self.words..][..self.words];
            for (sum, bits) in scratch.bits.iter_mut().zip(bits) {
                *sum ^= bits;
            }
        }
    }

    /// Appends the coefficients on the residuals of the symbol that is the sum of
    /// `scratch.columns`.
    fn coefficients(&self, scratch: &mut OutputScratch) {
        let n = self.schedule.residuals.len();
        self.sum_bits(scratch);
        scratch.unknowns.clear();
        scratch.unknowns.extend(set_bits(&scratch.bits));
        let start = scratch.coefficients.len();
        scratch.coefficients.resize(start + n, 0);
        let row = &mut scratch.coefficients[start..];
        self.kernels.gather(row, &self.schedule.inverse, n, &scratch.unknowns);
    }
}

/// How many work rows tables may take beyond L.
pub(crate) const TABLES_BEYOND: u32 = 16;

/// Work rows that tables of the sums of so many inactive symbols take.
fn table_rows(unknowns: u32) -> u32 {
    unknowns.div_ceil(TABLE_ROWS) << TABLE_ROWS
}

/// The places of the ones in a row of bits.
#[inline]
fn set_bits(words: &[u64]) -> impl Iterator<Item = u32> {
    (0..).step_by(64).zip(words).flat_map(|(first, &word)| {
        let rest = core::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
        rest.take_while(|&word| word != 0).map(move |word| first + word.trailing_zeros())
    })
}

/// Appends what computes symbols from all intermediate symbols after the second sweep.
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
        for &column in &*columns {
            sum.work(places[column as usize]);
        }
        sum.store(to);
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
