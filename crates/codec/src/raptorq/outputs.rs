//! Symbols computed after forward elimination.

use wellspring_kernels::{Kernels, Operand, Program};

use super::capacity::{self, Capacity, LONGEST_ROW, TABLES_BEYOND};
use super::constraints::Constraints;
use super::cost::{self, OutputMethod, Size};
use super::schedule::{Schedule, table_rows, table_rows_of};
use crate::binary::ones;

/// The state after forward elimination, on coefficients.
pub(crate) struct Eliminated<'a> {
    pub(crate) kernels: Kernels,
    pub(crate) constraints: &'a Constraints,
    pub(crate) schedule: &'a Schedule,
    /// Each intermediate symbol as bits over the basis, `words` words a symbol.
    pub(crate) bits: &'a [u64],
    pub(crate) words: usize,
}

/// Memory for [`Eliminated::outputs`], kept between uses.
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
    /// Reserves memory for the symbols of a code of that size.
    pub(crate) fn reserve(&mut self, capacity: &Capacity) {
        capacity::reserve(&mut self.columns, LONGEST_ROW);
        capacity::reserve(&mut self.bits, capacity.l.div_ceil(64));
        capacity::reserve(&mut self.unknowns, capacity.l);
        capacity::reserve(&mut self.coefficients, BATCH * capacity.l);
        capacity::reserve(&mut self.bases, BATCH);
        capacity::reserve(&mut self.outputs, BATCH);
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

impl Eliminated<'_> {
    /// The method for so many symbols (`size.lost`) of that size that takes least time.
    pub(crate) fn method(&self, size: &Size) -> OutputMethod {
        let free = u32::try_from(self.schedule.free_rows.len()).expect("at most H");
        match cost::output_method(self.kernels.isa(), size, self.schedule.unknowns(), free) {
            // Beyond what is reserved for tables there are uncommonly many unknowns.
            _ if !self.has_tables() => OutputMethod::Residuals,
            method => method,
        }
    }

    /// As [`method`](Self::method), where no back-substitution can follow: on the syndrome path the missing symbols count as zero.
    pub(crate) fn method_without_back_substitution(&self, size: &Size) -> OutputMethod {
        match self.method(size) {
            OutputMethod::BackSubstitution => OutputMethod::Tables,
            method => method,
        }
    }

    fn has_tables(&self) -> bool {
        let params = &self.constraints.params;
        table_rows(self.schedule.unknowns()) <= params.l + TABLES_BEYOND
    }

    /// The first work row above those that a method uses.
    pub(crate) fn above(&self, method: OutputMethod) -> u32 {
        let free = self.schedule.free_row(&self.constraints.params);
        match method {
            OutputMethod::Residuals => free + BATCH as u32,
            OutputMethod::Tables | OutputMethod::BackSubstitution => {
                free + table_rows(self.schedule.unknowns())
            }
        }
    }

    /// Appends what computes symbols after forward elimination, by methods without back-substitution. Work
    /// rows below [`above`](Self::above) are used.
    pub(crate) fn outputs(
        &self,
        program: &mut Program,
        scratch: &mut OutputScratch,
        method: OutputMethod,
        outputs: impl Iterator<Item = Output>,
    ) {
        match method {
            OutputMethod::Tables => self.by_tables(program, scratch, outputs),
            _ => self.by_residuals(program, scratch, outputs),
        }
    }

    /// Each symbol as the pivots it is a sum of and a combination of the residuals, which a matrix product
    /// adds.
    fn by_residuals(
        &self,
        program: &mut Program,
        scratch: &mut OutputScratch,
        outputs: impl Iterator<Item = Output>,
    ) {
        let params = &self.constraints.params;
        let residuals = &self.schedule.residuals;
        let pivots = params.l - self.schedule.unknowns();
        let free = self.schedule.free_row(params);
        let mut outputs = outputs.peekable();
        while outputs.peek().is_some() {
            scratch.bases.clear();
            scratch.outputs.clear();
            scratch.coefficients.clear();
            for (row, output) in (free..).zip(outputs.by_ref().take(BATCH)) {
                scratch.columns.clear();
                self.constraints.lt_columns(output.isi, &mut scratch.columns);
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

    /// Each symbol as the pivots it is a sum of and the rows of the basis those lack, which tables of
    /// the sums of four give four at a time.
    fn by_tables(
        &self,
        program: &mut Program,
        scratch: &mut OutputScratch,
        outputs: impl Iterator<Item = Output>,
    ) {
        let params = &self.constraints.params;
        let unknowns = self.schedule.unknowns();
        let pivots = params.l - unknowns;
        let free = self.schedule.free_row(params);
        self.schedule.tables(program, params, free);
        for output in outputs {
            scratch.columns.clear();
            self.constraints.lt_columns(output.isi, &mut scratch.columns);
            self.sum_bits(scratch);
            let to = match output.to {
                Operand::Work(row) => row,
                // Begun for number zero of a table, which is no sum.
                Operand::External(_) => free,
            };
            let mut xor = program.xor_with(to, output.plus);
            xor.work_where(scratch.columns.iter().map(|&column| {
                let place = self.schedule.places[column as usize];
                (place, place < pivots)
            }));
            xor.work_where(table_rows_of(&scratch.bits, unknowns, free));
            if let Operand::External(to) = output.to {
                xor.store(to);
            }
        }
    }

    /// Which rows of the basis the sum of `scratch.columns` has, as bits.
    fn sum_bits(&self, scratch: &mut OutputScratch) {
        scratch.bits.clear();
        // One word after the other: mostly there is one, and it stays in a register.
        scratch.bits.extend((0..self.words).map(|word| {
            let columns = scratch.columns.iter();
            columns.fold(0, |sum, &column| sum ^ self.bits[column as usize * self.words + word])
        }));
    }

    /// Appends the coefficients on the residuals of the symbol that is the sum of
    /// `scratch.columns`.
    fn coefficients(&self, scratch: &mut OutputScratch) {
        let Schedule { residuals, free, free_rows, .. } = self.schedule;
        let n = residuals.len();
        // The first of the basis are residuals themselves, the others combinations of all.
        let binary = u32::try_from(n - free_rows.len()).expect("less than L");
        self.sum_bits(scratch);
        scratch.unknowns.clear();
        scratch.unknowns.extend(ones(&scratch.bits));
        let plain = scratch.unknowns.partition_point(|&row| row < binary);
        let (plain, combined) = scratch.unknowns.split_at_mut(plain);
        combined.iter_mut().for_each(|row| *row -= binary);
        let start = scratch.coefficients.len();
        scratch.coefficients.resize(start + n, 0);
        let row = &mut scratch.coefficients[start..];
        self.kernels.gather(row, free, n, combined);
        plain.iter().for_each(|&residual| row[residual as usize] ^= 1);
    }
}

#[cfg(test)]
#[path = "outputs_tests.rs"]
mod tests;
