//! The inactivation decoder on coefficients (RFC 6330 §5.4.2), without a single symbol byte.
//!
//! Given which encoding symbols there are, it finds out whether they determine the intermediate
//! symbols and in which order. Bytes are touched only afterwards, by the program made from the
//! result (`schedule`), so a failed attempt costs no symbol operation and the same code serves
//! rank studies.
//!
//! Phase one only chooses: rows with one remaining active column are peeled off; when there is
//! none, a column of the largest component of the graph of rows with two is made inactive, which
//! lets that whole component be peeled. Phase two expresses what is left over in the inactive
//! columns: bits for LDPC and LT rows, and for the HDPC rows field elements from one fold over the
//! bits. The few equations in the inactive columns are then solved densely ([`InactiveSystem`]).

mod inactive;
mod peeling;

use wellspring_kernels::Kernels;

use super::capacity::{self, Capacity};
use super::constraints::Constraints;
pub(crate) use inactive::InactiveSystem;
use peeling::{INACTIVE, Peeling, span};

/// What the symbols of an attempt determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// The whole block.
    Full,
    /// Short by at least so many symbols; [`Solver::extend`] goes on from here.
    Short(usize),
    /// Unknown: the symbols are chosen so badly that solving was given up. More of them may help,
    /// after a fresh start.
    GivenUp,
}

/// The state of a solution; memory is kept from one use to the next.
#[derive(Debug, Default)]
pub(crate) struct Solver {
    pub(crate) peeling: Peeling,
    /// Each column's value as bits over the inactive columns, or, once they are solved for, over the basis
    /// of their solution; `words` words a column.
    bits: Vec<u64>,
    words: usize,
    pub(crate) system: InactiveSystem,
    equation: Vec<u64>,
}

impl Solver {
    /// Starts anew with the LDPC rows and one LT row for each of `symbols` (internal symbol IDs).
    ///
    /// Takes time and memory bounded by K' alone, however the symbols are chosen.
    pub(crate) fn solve(
        &mut self,
        kernels: Kernels,
        constraints: &Constraints,
        symbols: impl Iterator<Item = u32>,
    ) -> Rank {
        self.peeling.load(constraints, symbols);
        self.peeling.index_columns(constraints);
        if !self.peeling.peel(constraints) {
            return Rank::GivenUp;
        }
        self.express_columns(constraints);
        self.solve_inactive(kernels, constraints);
        self.rank()
    }

    fn rank(&self) -> Rank {
        match self.system.deficit() {
            0 => Rank::Full,
            deficit => Rank::Short(deficit),
        }
    }

    /// Adds one more LT row after a solution that fell short.
    pub(crate) fn extend(
        &mut self,
        kernels: Kernels,
        constraints: &Constraints,
        symbol: u32,
    ) -> Rank {
        let row = self.peeling.ends.len();
        self.peeling.push_symbol(constraints, symbol);
        self.peeling.is_pivot_row.push(false);
        if self.add_row(u32::try_from(row).expect("rows are counted in 32 bits")) {
            self.solve_free(kernels, constraints);
        }
        self.rank()
    }

    /// Each column as bits over the basis that [`solve_columns`](Self::solve_columns) expressed them in, and
    /// the words of each.
    pub(crate) fn bits(&self) -> (&[u64], usize) {
        (&self.bits, self.words)
    }

    /// As [`bits`](Self::bits), given away with no more memory than they need.
    pub(crate) fn take_bits(self) -> (Vec<u64>, usize) {
        let mut bits = self.bits;
        bits.shrink_to_fit();
        (bits, self.words)
    }

    pub(crate) fn memory(&self) -> usize {
        self.peeling.memory()
            + 8 * (self.bits.capacity() + self.equation.capacity())
            + self.system.memory()
    }

    /// Reserves memory for every solution of a code of that size, whichever symbols come.
    pub(crate) fn reserve(&mut self, capacity: &Capacity) {
        let (l, words) = (capacity.l, capacity.l.div_ceil(64));
        self.peeling.reserve(capacity);
        capacity::reserve(&mut self.bits, l * words);
        self.system.reserve(capacity);
        capacity::reserve(&mut self.equation, words);
    }

    /// Each column as a sum of inactive columns (and symbols, which do not show here).
    fn express_columns(&mut self, constraints: &Constraints) {
        let words = self.peeling.inactive.len().div_ceil(64);
        self.words = words;
        self.bits.clear();
        // Exactly: see `Inverse::make`.
        capacity::reserve(&mut self.bits, constraints.params.l as usize * words);
        self.bits.resize(constraints.params.l as usize * words, 0);
        for (i, &column) in self.peeling.inactive.iter().enumerate() {
            self.bits[column as usize * words + i / 64] |= 1 << (i % 64);
        }
        self.express_pivots();
    }

    /// Each pivot as the sum of the other columns of its row. Its bits are zero before.
    fn express_pivots(&mut self) {
        for &(row, column) in &self.peeling.pivots {
            sum_bits(
                &mut self.bits,
                self.words,
                column,
                &self.peeling.columns[span(&self.peeling.ends, row)],
            );
        }
    }

    /// After a solution of full rank, expresses each column in the basis of [`InactiveSystem`] instead of
    /// the inactive columns. There is no going on with more symbols from here.
    pub(crate) fn solve_columns(&mut self) {
        let Self { peeling, system, bits, words, .. } = self;
        bits.fill(0);
        system.each_in_basis(|i, in_basis| {
            let column = peeling.inactive[i as usize] as usize;
            bits[column * *words..][..*words].copy_from_slice(in_basis);
        });
        self.express_pivots();
    }

    fn solve_inactive(&mut self, kernels: Kernels, constraints: &Constraints) {
        self.system.reset(self.peeling.inactive.len());
        for row in 0..self.peeling.ends.len() {
            if !self.peeling.is_pivot_row[row] {
                self.add_row(u32::try_from(row).expect("counted in 32 bits"));
                if self.system.free() == 0 {
                    break;
                }
            }
        }
        self.solve_free(kernels, constraints);
    }

    /// Solves for the inactive columns that binary rows leave free.
    fn solve_free(&mut self, kernels: Kernels, constraints: &Constraints) {
        let Self { peeling, system, bits, words, .. } = self;
        let params = &constraints.params;
        let (h, stride) = (params.h as usize, 64 * *words);
        let folded = (params.k_ext + params.s) as usize;
        system.solve_free(kernels, (h, stride), |rows| {
            kernels.fold_bits(&constraints.hdpc, &bits[..folded * *words], *words, rows);
            for (i, row) in rows.chunks_exact_mut(stride).enumerate() {
                // The identity part of the HDPC rows stands in the last H columns, all inactive.
                let own = peeling.state[folded + i] & !INACTIVE;
                row[own as usize] ^= 1;
            }
        });
    }

    /// Expresses a row that is no pivot in the inactive columns and adds it to their equations.
    fn add_row(&mut self, row: u32) -> bool {
        let columns = &self.peeling.columns[span(&self.peeling.ends, row)];
        self.equation.clear();
        self.equation.extend((0..self.words).map(|word| {
            columns.iter().fold(0, |sum, &c| sum ^ self.bits[c as usize * self.words + word])
        }));
        self.system.add_binary(row, &self.equation)
    }
}

/// `bits[column] = sum of bits[c] for the other columns c of the row`. A column's own bits are
/// zero before, so it may be among them.
#[inline]
fn sum_bits(bits: &mut [u64], words: usize, column: u32, row: &[u32]) {
    match words {
        1 => sum_words::<1>(bits, column, row),
        2 => sum_words::<2>(bits, column, row),
        3 => sum_words::<3>(bits, column, row),
        4 => sum_words::<4>(bits, column, row),
        _ => {
            for &other in row.iter().filter(|&&other| other != column) {
                let (from, to) = (other as usize * words, column as usize * words);
                for word in 0..words {
                    bits[to + word] ^= bits[from + word];
                }
            }
        }
    }
}

/// The same for rows of `N` words, with the sum in registers.
#[inline]
fn sum_words<const N: usize>(bits: &mut [u64], column: u32, row: &[u32]) {
    let (bits, _) = bits.as_chunks_mut::<N>();
    let mut sum = [0; N];
    for &other in row {
        for (sum, word) in sum.iter_mut().zip(bits[other as usize]) {
            *sum ^= word;
        }
    }
    bits[column as usize] = sum;
}
