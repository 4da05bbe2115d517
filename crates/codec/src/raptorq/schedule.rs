//! From a solution on coefficients to the programs that compute symbols.
//!
//! Work rows stand in the order in which they are computed: pivots, then inactive columns
//! ([`Solver::place`]). A pivot is mostly a sum of a few pivots found shortly before, which are
//! then still in the innermost cache. Above them are the HDPC sums and the right-hand sides of the
//! equations in the inactive columns.
//!
//! The first sweep computes every pivot with the inactive columns taken as zero, and the residuals
//! that determine the inactive columns. From there, a few symbols are cheapest as sums of what they
//! are made of plus a combination of residuals ([`Swept::outputs`]); for many symbols the inactive
//! columns and, in a second sweep, all others are computed ([`second_sweep`]).

use wellspring_kernels::{Kernels, Operand, Program};

use super::constraints::Constraints;
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
    }

    pub(crate) fn memory(&self) -> usize {
        4 * (self.columns.capacity() + self.unknowns.capacity())
            + 8 * self.bits.capacity()
            + self.coefficients.capacity()
            + size_of::<Operand>() * (self.bases.capacity() + self.outputs.capacity())
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
    /// Whether so many symbols are cheaper without a second sweep.
    ///
    /// A symbol costs as many multiply-adds as there are residuals; the second sweep costs about
    /// eight additions an intermediate symbol and the square of the residuals.
    pub(crate) fn is_few(&self, outputs: u32) -> bool {
        let residuals = self.schedule.residuals.len() as u64;
        let sweep = u64::from(self.params.l) * SWEEP_COST;
        u64::from(outputs) * residuals <= residuals * residuals + sweep
    }

    /// Appends what computes symbols from pivots and residuals of the first sweep. Work rows from
    /// `free` on are used for sums.
    pub(crate) fn outputs(
        &self,
        program: &mut Program,
        scratch: &mut OutputScratch,
        free: u32,
        outputs: impl Iterator<Item = Output>,
    ) {
        let residuals = &self.schedule.residuals;
        let pivots = self.params.l - u32::try_from(residuals.len()).expect("less than L");
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

    /// Appends the coefficients on the residuals of the symbol that is the sum of
    /// `scratch.columns`.
    fn coefficients(&self, scratch: &mut OutputScratch) {
        let n = self.schedule.residuals.len();
        scratch.bits.clear();
        scratch.bits.resize(self.words, 0);
        for &column in &scratch.columns {
            let bits = &self.bits[column as usize * self.words..][..self.words];
            for (sum, bits) in scratch.bits.iter_mut().zip(bits) {
                *sum ^= bits;
            }
        }
        scratch.unknowns.clear();
        scratch.unknowns.extend(set_bits(&scratch.bits));
        let start = scratch.coefficients.len();
        scratch.coefficients.resize(start + n, 0);
        let row = &mut scratch.coefficients[start..];
        self.kernels.gather(row, &self.schedule.inverse, n, &scratch.unknowns);
    }
}

/// The places of the ones in a row of bits.
#[inline]
fn set_bits(words: &[u64]) -> impl Iterator<Item = u32> {
    (0..).step_by(64).zip(words).flat_map(|(first, &word)| {
        let rest = core::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
        rest.take_while(|&word| word != 0).map(move |word| first + word.trailing_zeros())
    })
}

/// What the second sweep costs for each intermediate symbol, in multiply-adds of a symbol.
const SWEEP_COST: u64 = 5;

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
mod tests {
    use super::*;

    #[test]
    fn bits_are_found_in_order() {
        let places = |words: &[u64]| set_bits(words).collect::<Vec<_>>();
        assert!(places(&[]).is_empty() && places(&[0, 0]).is_empty());
        assert_eq!(places(&[1 | 1 << 63, 0, 1 << 5]), [0, 63, 133]);
        assert_eq!(places(&[u64::MAX, 1]), (0..=64).collect::<Vec<_>>());
    }
}
