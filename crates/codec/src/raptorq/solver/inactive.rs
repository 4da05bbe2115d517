//! The equations in the inactive columns.
//!
//! All but the H of the HDPC rows are binary. Solved among themselves, they leave a few columns *free*,
//! at most H if there is to be a solution: every other inactive column is a sum of right-hand sides
//! and of free columns. Only the free ones take arithmetic in GF(256), one equation each.
//!
//! So the right-hand sides of the binary equations and the free columns are a *basis*, in which every
//! intermediate symbol is a plain sum.

use wellspring_kernels::Kernels;

use crate::binary::{Binary, bit};
use crate::raptorq::capacity::{self, Capacity};
use crate::raptorq::gauss_jordan::GaussJordan;

/// What is known of the inactive columns.
#[derive(Debug, Default)]
pub(crate) struct InactiveSystem {
    unknowns: usize,
    binary: Binary,
    /// The rows accepted as binary equations, in the order of their right-hand sides.
    rows: Vec<u32>,
    /// HDPC rows as coefficients on the inactive columns, once they are asked for.
    hdpc: Vec<u8>,
    hdpc_stride: usize,
    /// How many free columns the HDPC rows determine, at most.
    determined: usize,
    /// The free columns, and the equations in them alone.
    free: Vec<u32>,
    reduced: GaussJordan,
    /// The HDPC rows accepted among these, and which combination of binary right-hand sides is added to
    /// the right-hand side of each.
    hdpc_rows: Vec<u32>,
    added: Vec<u8>,
    /// Binary rows in bytes: coefficients on the free columns, then combinations.
    bytes: Vec<u8>,
    candidate: Vec<u8>,
    factors: Vec<u8>,
    inverse: Vec<u8>,
    bits: Vec<u64>,
}

impl InactiveSystem {
    /// Forgets all equations.
    pub(super) fn reset(&mut self, unknowns: usize) {
        self.unknowns = unknowns;
        self.binary.reset(unknowns);
        self.rows.clear();
        self.hdpc.clear();
        self.hdpc_rows.clear();
        self.determined = 0;
    }

    /// Reserves memory for the systems of a code of that size.
    pub(super) fn reserve(&mut self, capacity: &Capacity) {
        let (l, h) = (capacity.l, capacity.h);
        self.binary.reserve(l);
        capacity::reserve(&mut self.rows, l);
        capacity::reserve(&mut self.hdpc, h * l.next_multiple_of(64));
        capacity::reserve(&mut self.free, l);
        self.reduced.reserve(h);
        capacity::reserve(&mut self.hdpc_rows, h);
        capacity::reserve(&mut self.added, h * l);
        capacity::reserve(&mut self.bytes, l * (l + h).next_multiple_of(64));
        capacity::reserve(&mut self.candidate, (l + h).next_multiple_of(64));
        capacity::reserve(&mut self.factors, l);
        capacity::reserve(&mut self.inverse, h * h);
        capacity::reserve(&mut self.bits, l.div_ceil(64));
    }

    pub(super) fn memory(&self) -> usize {
        let words = self.rows.capacity() + self.free.capacity() + self.hdpc_rows.capacity();
        let bytes = self.hdpc.capacity()
            + self.added.capacity()
            + self.bytes.capacity()
            + self.candidate.capacity()
            + self.factors.capacity()
            + self.inverse.capacity();
        4 * words + 8 * self.bits.capacity() + bytes + self.binary.memory() + self.reduced.memory()
    }

    /// The inactive columns that binary equations leave unknown.
    pub(super) fn free(&self) -> usize {
        self.binary.deficit()
    }

    /// How many equations are missing, at least.
    pub(super) fn deficit(&self) -> usize {
        self.free() - self.determined
    }

    /// The binary rows accepted, whose right-hand sides are the first part of the basis.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The HDPC rows accepted: as many as there are free columns, once the rank is full.
    pub(crate) fn hdpc_rows(&self) -> &[u32] {
        &self.hdpc_rows
    }

    /// Adds row `row`, as bits over the inactive columns, unless it follows from those before.
    pub(super) fn add_binary(&mut self, row: u32, equation: &[u64]) -> bool {
        let is_new = self.binary.add(equation);
        if is_new {
            self.rows.push(row);
        }
        is_new
    }

    /// Solves for the free columns with the `h` HDPC rows, anew, if there may be enough of them.
    ///
    /// The first time that is so, `write_hdpc` is asked for their coefficients on the inactive columns: rows at
    /// a distance of `stride` bytes.
    pub(super) fn solve_free(
        &mut self,
        kernels: Kernels,
        (h, stride): (usize, usize),
        write_hdpc: impl FnOnce(&mut [u8]),
    ) {
        self.hdpc_rows.clear();
        self.added.clear();
        let free = self.free();
        self.determined = h.min(free);
        if free > h {
            return;
        }
        self.find_free();
        if free == 0 {
            return;
        }
        if self.hdpc.is_empty() {
            self.hdpc_stride = stride;
            self.hdpc.resize(h * stride, 0);
            write_hdpc(&mut self.hdpc);
        }
        self.reduce_hdpc(kernels);
        self.determined = self.hdpc_rows.len();
    }

    /// Takes the solved columns out of the HDPC rows, and solves for the free ones.
    fn reduce_hdpc(&mut self, kernels: Kernels) {
        let (free, rank) = (self.free.len(), self.binary.rank());
        let stride = (free + rank).next_multiple_of(64);
        self.expand_rows(stride);
        self.reduced.reset(free);
        for (row, hdpc) in (0..).zip(self.hdpc.chunks_exact(self.hdpc_stride)) {
            self.candidate.clear();
            self.candidate.extend(self.free.iter().map(|&column| hdpc[column as usize]));
            self.candidate.resize(stride, 0);
            self.factors.clear();
            self.factors.extend(self.binary.pivots().iter().map(|&column| hdpc[column as usize]));
            kernels.combine(&mut self.candidate, &self.bytes, stride, &self.factors);
            if self.reduced.add(kernels, &self.candidate) {
                self.hdpc_rows.push(row);
                self.added.extend_from_slice(&self.candidate[free..free + rank]);
            }
        }
    }

    /// Lists the columns no binary row is solved for.
    fn find_free(&mut self) {
        // The mask of solved columns stands in the factors, which are not in use now.
        self.factors.clear();
        self.factors.resize(self.unknowns, 0);
        for &column in self.binary.pivots() {
            self.factors[column as usize] = 1;
        }
        self.free.clear();
        self.free.extend((0..).zip(&self.factors).filter(|(_, s)| **s == 0).map(|(c, _)| c));
    }

    /// Writes the binary rows in bytes.
    fn expand_rows(&mut self, stride: usize) {
        let (free, rank) = (self.free.len(), self.binary.rank());
        self.bytes.clear();
        self.bytes.resize(rank * stride, 0);
        for (i, bytes) in self.bytes.chunks_exact_mut(stride).enumerate() {
            let (coefficients, combination) = self.binary.row(i);
            let (of_free, rest) = bytes.split_at_mut(free);
            for (byte, &column) in of_free.iter_mut().zip(&self.free) {
                *byte = u8::from(bit(coefficients, column));
            }
            for (bytes, &word) in rest[..rank].chunks_mut(64).zip(combination) {
                for (place, byte) in bytes.iter_mut().enumerate() {
                    *byte = u8::from(word >> place & 1 == 1);
                }
            }
        }
    }

    /// Each free column as a combination of right-hand sides, those of binary rows first, row after row.
    /// The rank is full.
    pub(crate) fn free_into(&mut self, kernels: Kernels, combinations: &mut Vec<u8>) {
        debug_assert_eq!(self.deficit(), 0);
        let (free, rank) = (self.free(), self.binary.rank());
        combinations.clear();
        if free == 0 {
            return;
        }
        self.reduced.inverse_into(&mut self.inverse);
        combinations.resize(free * self.unknowns, 0);
        let rows = combinations.chunks_exact_mut(self.unknowns);
        for (row, inverse) in rows.zip(self.inverse.chunks_exact(free)) {
            let (of_binary, of_hdpc) = row.split_at_mut(rank);
            kernels.combine(of_binary, &self.added, rank, inverse);
            of_hdpc.copy_from_slice(inverse);
        }
    }

    /// Calls `set` with each inactive column as bits over the basis: right-hand sides of binary rows,
    /// then free columns. The rank is full.
    pub(super) fn each_in_basis(&mut self, mut set: impl FnMut(u32, &[u64])) {
        debug_assert_eq!(self.deficit(), 0);
        let rank = self.binary.rank();
        let mut bits = core::mem::take(&mut self.bits);
        for (row, &column) in self.binary.pivots().iter().enumerate() {
            let (coefficients, combination) = self.binary.row(row);
            bits.clear();
            bits.extend_from_slice(combination);
            for (place, &free) in (rank..).zip(&self.free) {
                bits[place / 64] |= u64::from(bit(coefficients, free)) << (place % 64);
            }
            set(column, &bits);
        }
        for (place, &free) in (rank..).zip(&self.free) {
            bits.clear();
            bits.resize(self.unknowns.div_ceil(64), 0);
            bits[place / 64] = 1 << (place % 64);
            set(free, &bits);
        }
        self.bits = bits;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wellspring_kernels::gf256;

    use super::*;

    /// A system of `unknowns` columns with `h` HDPC rows, each coefficient a byte.
    #[derive(Debug)]
    struct Case {
        unknowns: usize,
        h: usize,
        binary: Vec<Vec<u8>>,
        hdpc: Vec<Vec<u8>>,
        values: Vec<u8>,
    }

    fn case() -> impl Strategy<Value = Case> {
        (1..150_usize, 2..17_usize, 0..160_usize, any::<u64>()).prop_map(
            |(unknowns, h, rows, seed)| {
                let mut state = seed | 1;
                let mut byte = || {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 32) as u8
                };
                let sparse = byte() % 4;
                let mut bits =
                    || (0..unknowns).map(|_| u8::from(byte() & sparse == sparse)).collect();
                let binary = (0..rows).map(|_| bits()).collect();
                let mut bytes = |count| (0..count).map(|_| byte()).collect::<Vec<_>>();
                let hdpc = (0..h).map(|_| bytes(unknowns)).collect();
                Case { unknowns, h, binary, hdpc, values: bytes(unknowns) }
            },
        )
    }

    fn value(coefficients: &[u8], values: &[u8]) -> u8 {
        coefficients.iter().zip(values).fold(0, |sum, (&c, &v)| sum ^ gf256::mul(c, v))
    }

    fn words(coefficients: &[u8]) -> Vec<u64> {
        let word = |bits: &[u8]| bits.iter().rev().fold(0, |word, &bit| word << 1 | u64::from(bit));
        coefficients.chunks(64).map(word).collect()
    }

    fn solve_free(system: &mut InactiveSystem, case: &Case) {
        let stride = case.unknowns.next_multiple_of(64);
        system.solve_free(Kernels::detect(), (case.h, stride), |rows| {
            for (row, hdpc) in rows.chunks_exact_mut(stride).zip(&case.hdpc) {
                row[..case.unknowns].copy_from_slice(hdpc);
            }
        });
    }

    /// No column is solved by binary rows, as can be where there are fewer than HDPC rows.
    #[test]
    fn every_column_may_be_free() {
        let mut system = InactiveSystem::default();
        system.reset(1);
        let case = Case {
            unknowns: 1,
            h: 2,
            binary: Vec::new(),
            hdpc: vec![vec![6], vec![47]],
            values: vec![3],
        };
        solve_free(&mut system, &case);
        assert_eq!(system.deficit(), 0);
        let mut columns = Vec::new();
        system.each_in_basis(|column, bits| columns.push((column, bits.to_vec())));
        assert_eq!(columns, [(0, vec![1])]);
    }

    proptest! {
        /// What is missing is known exactly once it is less than HDPC rows make up for, however rows come,
        /// and the solution gives back the values that right-hand sides were made of.
        #[test]
        fn the_solution_is_that_of_one_elimination_over_all_rows(case in case(), late in 0..40_usize) {
            let kernels = Kernels::detect();
            let (mut system, mut whole) = (InactiveSystem::default(), GaussJordan::default());
            system.reset(case.unknowns);
            whole.reset(case.unknowns);
            let early = case.binary.len().saturating_sub(late);
            for (row, equation) in (0..).zip(&case.binary[..early]) {
                prop_assert_eq!(system.add_binary(row, &words(equation)), whole.add(kernels, equation));
            }
            solve_free(&mut system, &case);
            case.hdpc.iter().for_each(|row| { whole.add(kernels, row); });
            for (row, equation) in (early as u32..).zip(&case.binary[early..]) {
                if system.add_binary(row, &words(equation)) {
                    solve_free(&mut system, &case);
                }
                whole.add(kernels, equation);
            }
            prop_assert!(system.deficit() <= whole.deficit());
            if system.free() <= case.h {
                prop_assert_eq!(system.deficit(), whole.deficit());
            }
            prop_assert_eq!(system.deficit() == 0, whole.deficit() == 0);
            if system.deficit() > 0 {
                return Ok(());
            }
            let binary = system.rows().iter().map(|&row| &case.binary[row as usize]);
            let hdpc = system.hdpc_rows().iter().map(|&row| &case.hdpc[row as usize]);
            let sides: Vec<u8> = binary.chain(hdpc).map(|row| value(row, &case.values)).collect();
            let mut combinations = Vec::new();
            system.free_into(kernels, &mut combinations);
            let mut basis = sides[..system.rows().len()].to_vec();
            basis.extend(combinations.chunks(case.unknowns).map(|row| value(row, &sides)));
            let mut solved = vec![None; case.unknowns];
            system.each_in_basis(|column, bits| {
                let rows = crate::binary::ones(bits).map(|row| basis[row as usize]);
                solved[column as usize] = Some(rows.fold(0, |sum, value| sum ^ value));
            });
            let expected: Vec<_> = case.values.iter().copied().map(Some).collect();
            prop_assert_eq!(solved, expected);
        }
    }
}
