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

use core::ops::Range;
use std::collections::BinaryHeap;

use wellspring_kernels::Kernels;

use super::constraints::Constraints;
use super::elimination::Elimination;
use super::room::{self, LONGEST_ROW, Room};
pub(crate) use inactive::InactiveSystem;
use peeling::{Active, Queue};

/// What an active column has become.
const ACTIVE: u32 = u32::MAX;
/// Set in a column's state when it is inactive; the rest is its number among the inactive ones.
const INACTIVE: u32 = 1 << 31;

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
    /// Columns of all rows, LDPC rows first; `ends[r]` is where row `r` ends, and `splits[r]`
    /// where its columns from W on start.
    columns: Vec<u32>,
    ends: Vec<u32>,
    splits: Vec<u32>,
    active: Vec<Active>,
    /// Rows of each column below W: those of column `c` end at `row_ends[c]`.
    row_ends: Vec<u32>,
    rows: Vec<u32>,
    /// For each column: `ACTIVE`, its place among the pivots, or `INACTIVE` and its place there.
    state: Vec<u32>,
    /// Union-find over active columns that share a row of degree two; roots hold sizes.
    parents: Vec<u32>,
    sizes: Vec<u32>,
    components: BinaryHeap<(u32, u32)>,
    /// Rows that have come to two active columns, or had them, since components were last joined.
    pairs: Queue,
    /// Rows that have come to one active column, or had it.
    ripple: Queue,
    /// Row and column of each pivot, in order.
    pub(crate) pivots: Vec<(u32, u32)>,
    /// The inactive columns, PI columns first.
    pub(crate) inactive: Vec<u32>,
    is_pivot_row: Vec<bool>,
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
        self.load(constraints, symbols);
        self.index_columns(constraints);
        if !self.peel(constraints) {
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
        let row = self.ends.len();
        self.push_symbol(constraints, symbol);
        self.is_pivot_row.push(false);
        if self.add_row(u32::try_from(row).expect("rows are counted in 32 bits")) {
            self.solve_free(kernels, constraints);
        }
        self.rank()
    }

    /// The columns of row `row`.
    pub(crate) fn row(&self, row: u32) -> &[u32] {
        &self.columns[span(&self.ends, row)]
    }

    /// Those of the columns of row `row` that are below W: the others, PI columns, are inactive.
    pub(crate) fn row_below(&self, row: u32) -> &[u32] {
        &self.columns[span(&self.ends, row).start..self.splits[row as usize] as usize]
    }

    /// The place of a column in the order of computation: pivots, then inactive columns.
    #[inline]
    pub(crate) fn place(&self, column: u32) -> u32 {
        let state = self.state[column as usize];
        if state & INACTIVE == 0 {
            return state;
        }
        // Together they are all columns, whose number fits 32 bits.
        u32::try_from(self.pivots.len()).unwrap_or(u32::MAX) + (state & !INACTIVE)
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
        let words = self.columns.capacity()
            + self.ends.capacity()
            + self.splits.capacity()
            + 2 * self.active.capacity()
            + self.row_ends.capacity()
            + self.rows.capacity()
            + self.state.capacity()
            + self.parents.capacity()
            + self.sizes.capacity()
            + self.pairs.capacity()
            + self.ripple.capacity()
            + self.inactive.capacity();
        let pairs = self.components.capacity() + self.pivots.capacity();
        4 * words
            + 8 * (pairs + self.bits.capacity() + self.equation.capacity())
            + self.is_pivot_row.capacity()
            + self.system.memory()
    }

    /// Makes room for every solution of a code of that size, whichever symbols come.
    pub(crate) fn reserve(&mut self, room: &Room) {
        let (l, rows, words) = (room.l, room.s + room.symbols, room.l.div_ceil(64));
        let entries = room.ldpc + room.symbols * LONGEST_ROW;
        room::reserve(&mut self.columns, entries);
        room::reserve(&mut self.ends, rows);
        room::reserve(&mut self.splits, rows);
        room::reserve(&mut self.active, rows);
        room::reserve(&mut self.row_ends, l);
        room::reserve(&mut self.rows, entries);
        room::reserve(&mut self.state, l);
        room::reserve(&mut self.parents, l);
        room::reserve(&mut self.sizes, l);
        self.components.reserve(l.saturating_sub(self.components.len()));
        self.pairs.reserve(rows);
        self.ripple.reserve(rows);
        room::reserve(&mut self.pivots, l);
        room::reserve(&mut self.inactive, l);
        room::reserve(&mut self.is_pivot_row, rows);
        room::reserve(&mut self.bits, l * words);
        self.system.reserve(room);
        room::reserve(&mut self.equation, words);
    }

    fn load(&mut self, constraints: &Constraints, symbols: impl Iterator<Item = u32>) {
        self.columns.clear();
        self.columns.extend_from_slice(&constraints.ldpc_columns);
        self.ends.clear();
        self.ends.extend_from_slice(&constraints.ldpc_ends);
        self.splits.clear();
        self.splits.extend(constraints.ldpc_ends.iter().map(|end| end - 2));
        for symbol in symbols {
            self.push_symbol(constraints, symbol);
        }
    }

    fn push_symbol(&mut self, constraints: &Constraints, symbol: u32) {
        let start = u32::try_from(self.columns.len()).expect("entries are counted in 32 bits");
        let below = constraints.lt_columns(symbol, &mut self.columns);
        self.splits.push(start + below);
        self.ends.push(u32::try_from(self.columns.len()).expect("counted in 32 bits"));
    }

    /// Each column as a sum of inactive columns (and symbols, which do not show here).
    fn express_columns(&mut self, constraints: &Constraints) {
        let words = self.inactive.len().div_ceil(64);
        self.words = words;
        self.bits.clear();
        self.bits.resize(constraints.params.l as usize * words, 0);
        for (i, &column) in self.inactive.iter().enumerate() {
            self.bits[column as usize * words + i / 64] |= 1 << (i % 64);
        }
        self.express_pivots();
    }

    /// Each pivot as the sum of the other columns of its row. Its bits are zero before.
    fn express_pivots(&mut self) {
        for &(row, column) in &self.pivots {
            sum_bits(&mut self.bits, self.words, column, &self.columns[span(&self.ends, row)]);
        }
    }

    /// After a solution of full rank, expresses each column in the basis of [`InactiveSystem`] instead of
    /// the inactive columns. There is no going on with more symbols from here.
    pub(crate) fn solve_columns(&mut self) {
        let Self { system, bits, words, inactive, .. } = self;
        bits.fill(0);
        system.each_in_basis(|i, in_basis| {
            let column = inactive[i as usize] as usize;
            bits[column * *words..][..*words].copy_from_slice(in_basis);
        });
        self.express_pivots();
    }

    fn solve_inactive(&mut self, kernels: Kernels, constraints: &Constraints) {
        self.system.reset(self.inactive.len());
        for row in 0..self.ends.len() {
            if !self.is_pivot_row[row] {
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
        let Self { system, bits, words, state, .. } = self;
        let params = &constraints.params;
        let (h, stride) = (params.h as usize, 64 * *words);
        let folded = (params.k_ext + params.s) as usize;
        system.solve_free(kernels, (h, stride), |rows| {
            kernels.fold_bits(&constraints.hdpc, &bits[..folded * *words], *words, rows);
            for (i, row) in rows.chunks_exact_mut(stride).enumerate() {
                // The identity part of the HDPC rows stands in the last H columns, all inactive.
                let own = state[folded + i] & !INACTIVE;
                row[own as usize] ^= 1;
            }
        });
    }

    /// Expresses a row that is no pivot in the inactive columns and adds it to their equations.
    fn add_row(&mut self, row: u32) -> bool {
        let columns = &self.columns[span(&self.ends, row)];
        self.equation.clear();
        self.equation.extend((0..self.words).map(|word| {
            columns.iter().fold(0, |sum, &c| sum ^ self.bits[c as usize * self.words + word])
        }));
        self.system.add_binary(row, &self.equation)
    }
}

/// Where rows that end at `ends` have the columns of row `row`.
#[inline]
fn span(ends: &[u32], row: u32) -> Range<usize> {
    let row = row as usize;
    let start = if row == 0 { 0 } else { ends[row - 1] };
    start as usize..ends[row] as usize
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
