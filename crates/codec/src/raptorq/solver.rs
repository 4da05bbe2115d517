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
//! bits. The few equations in the inactive columns are then solved densely.

use std::collections::BinaryHeap;

use wellspring_kernels::Kernels;

use super::constraints::Constraints;
use super::elimination::Elimination;

/// What an active column has become.
const ACTIVE: u32 = u32::MAX;
/// Set in a column's state when it is inactive; the rest is its number among the inactive ones.
const INACTIVE: u32 = 1 << 31;

/// Most columns that may become inactive, beside twice the PI columns, before a set of symbols is
/// taken for hostile: random sets stay far below, and the dense part grows with the square of it.
const MAX_INACTIVE: usize = 2048;

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

/// An equation chosen for the inactive columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Equation {
    /// A row of the binary part.
    Row(u32),
    /// An HDPC row.
    Hdpc(u32),
}

/// What is left of a row: the number of its active columns, and their sum by XOR. With one left, the
/// sum is it.
#[derive(Clone, Copy, Debug)]
struct Active {
    degree: u32,
    sum: u32,
}

/// Rows that wait, each of which comes in once in a solution.
#[derive(Debug, Default)]
struct Queue {
    rows: Vec<u32>,
    len: usize,
}

impl Queue {
    /// Empties it, and makes room for `rows` rows and one that is not kept.
    fn reset(&mut self, rows: usize) {
        self.rows.clear();
        self.rows.resize(rows + 1, 0);
        self.len = 0;
    }

    /// Adds a row if `wanted`, without a branch: nobody can tell in advance which degrees come.
    #[inline]
    fn push_if(&mut self, wanted: bool, row: u32) {
        self.rows[self.len] = row;
        self.len += usize::from(wanted);
    }

    fn rows(&self) -> &[u32] {
        &self.rows[..self.len]
    }
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
    /// Each column's value as bits over the inactive columns, `words` words a column.
    bits: Vec<u64>,
    words: usize,
    /// The equations accepted for the inactive columns, in the order of the elimination.
    pub(crate) equations: Vec<Equation>,
    pub(crate) elimination: Elimination,
    hdpc: Vec<u8>,
    equation: Vec<u8>,
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
        match self.elimination.deficit() {
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
        self.add_row(kernels, u32::try_from(row).expect("rows are counted in 32 bits"));
        self.rank()
    }

    /// The columns of row `row`.
    pub(crate) fn row(&self, row: u32) -> &[u32] {
        let row = row as usize;
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        &self.columns[start..self.ends[row] as usize]
    }

    /// Those of the columns of row `row` that are below W: the others, PI columns, are inactive.
    pub(crate) fn row_below(&self, row: u32) -> &[u32] {
        let row = row as usize;
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        &self.columns[start..self.splits[row] as usize]
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

    /// Each column as bits over the inactive columns, and the words of each.
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
            + self.pairs.rows.capacity()
            + self.ripple.rows.capacity()
            + self.inactive.capacity();
        let pairs = self.components.capacity() + self.pivots.capacity() + self.equations.capacity();
        4 * words
            + 8 * (pairs + self.bits.capacity())
            + self.is_pivot_row.capacity()
            + self.elimination.memory()
            + self.hdpc.capacity()
            + self.equation.capacity()
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

    /// Counts degrees and lists the rows of each column, by counting sort.
    fn index_columns(&mut self, constraints: &Constraints) {
        let w = constraints.params.w as usize;
        let rows = self.ends.len();
        self.row_ends.clear();
        self.row_ends.resize(w + 1, 0);
        self.active.clear();
        let mut start = 0;
        let mut edges = 0;
        for (&end, &split) in self.ends.iter().zip(&self.splits) {
            let active = &self.columns[start as usize..split as usize];
            let mut sum = 0;
            for &column in active {
                self.row_ends[column as usize + 1] += 1;
                sum ^= column;
            }
            self.active.push(Active { degree: split - start, sum });
            edges += active.len();
            start = end;
        }
        for column in 0..w {
            self.row_ends[column + 1] += self.row_ends[column];
        }
        self.rows.clear();
        self.rows.resize(edges, 0);
        let mut start = 0;
        for row in 0..rows {
            for &column in &self.columns[start as usize..self.splits[row] as usize] {
                let place = &mut self.row_ends[column as usize];
                self.rows[*place as usize] = u32::try_from(row).expect("counted in 32 bits");
                *place += 1;
            }
            start = self.ends[row];
        }
    }

    /// Makes every column a pivot or inactive; gives up, returning false, beyond a bound.
    fn peel(&mut self, constraints: &Constraints) -> bool {
        let params = &constraints.params;
        let rows = self.ends.len();
        self.state.clear();
        self.state.resize(params.w as usize, ACTIVE);
        self.state.extend((0..params.p).map(|i| INACTIVE | i));
        self.inactive.clear();
        self.inactive.extend(params.w..params.l);
        self.parents.clear();
        self.parents.extend(0..params.w);
        self.sizes.clear();
        self.sizes.resize(params.w as usize, 1);
        self.components.clear();
        self.pairs.reset(rows);
        self.ripple.reset(rows);
        self.pivots.clear();
        self.is_pivot_row.clear();
        self.is_pivot_row.resize(rows, false);
        for (row, active) in (0..).zip(&self.active) {
            self.ripple.push_if(active.degree == 1, row);
            self.pairs.push_if(active.degree == 2, row);
        }
        // First come, first served: pivots that do not depend on each other then stand together,
        // and the processor works on several at a time.
        let mut next = 0;
        let mut left = params.w as usize;
        while left > 0 {
            while let Some(&row) = self.ripple.rows().get(next) {
                next += 1;
                let Active { degree: 1, sum: column } = self.active[row as usize] else {
                    continue;
                };
                self.is_pivot_row[row as usize] = true;
                let place = u32::try_from(self.pivots.len()).expect("counted in 32 bits");
                self.state[column as usize] = place;
                self.pivots.push((row, column));
                self.remove(column);
                left -= 1;
            }
            if left > 0 {
                if self.inactive.len() >= MAX_INACTIVE + 2 * params.p as usize {
                    return false;
                }
                let column = self.choose_inactive();
                let place = u32::try_from(self.inactive.len()).expect("counted in 32 bits");
                self.state[column as usize] = INACTIVE | place;
                self.inactive.push(column);
                self.remove(column);
                left -= 1;
            }
        }
        true
    }

    /// Takes a column that has become a pivot or inactive out of its rows.
    fn remove(&mut self, column: u32) {
        let Self { row_ends, rows, active, ripple, pairs, .. } = self;
        let start = if column == 0 { 0 } else { row_ends[column as usize - 1] };
        for &row in &rows[start as usize..row_ends[column as usize] as usize] {
            let active = &mut active[row as usize];
            active.degree -= 1;
            active.sum ^= column;
            ripple.push_if(active.degree == 1, row);
            pairs.push_if(active.degree == 2, row);
        }
    }

    /// Joins what rows of two active columns connect. Only now: most of these rows are peeled
    /// before components are asked for.
    fn join_pairs(&mut self) {
        for i in 0..self.pairs.rows().len() {
            let row = self.pairs.rows()[i];
            if self.active[row as usize].degree == 2 {
                self.join(row);
            }
        }
        self.pairs.len = 0;
    }

    /// Joins the components of the two active columns of a row.
    fn join(&mut self, row: u32) {
        let start = if row == 0 { 0 } else { self.ends[row as usize - 1] } as usize;
        let columns = &self.columns[start..self.splits[row as usize] as usize];
        let Some(&first) = columns.iter().find(|&&c| self.state[c as usize] == ACTIVE) else {
            return;
        };
        let second = self.active[row as usize].sum ^ first;
        let (mut a, mut b) = (self.root(first), self.root(second));
        if a == b {
            return;
        }
        if self.sizes[a as usize] < self.sizes[b as usize] {
            core::mem::swap(&mut a, &mut b);
        }
        self.parents[b as usize] = a;
        self.sizes[a as usize] += self.sizes[b as usize];
        self.components.push((self.sizes[a as usize], a));
    }

    fn root(&mut self, mut column: u32) -> u32 {
        while self.parents[column as usize] != column {
            let above = self.parents[column as usize];
            self.parents[column as usize] = self.parents[above as usize];
            column = above;
        }
        column
    }

    /// A column of the largest component. A component is peeled off whole as soon as one of its
    /// columns is gone, so it is there exactly if its root is active.
    fn choose_inactive(&mut self) -> u32 {
        self.join_pairs();
        while let Some((size, root)) = self.components.pop() {
            let root = root as usize;
            if self.state[root] == ACTIVE
                && self.parents[root] as usize == root
                && self.sizes[root] == size
            {
                return u32::try_from(root).expect("counted in 32 bits");
            }
        }
        // No row of degree two: take a column of a shortest row, or, where no row is left, any.
        let shortest = (0..self.active.len())
            .filter(|&row| self.active[row].degree > 0)
            .min_by_key(|&row| self.active[row].degree);
        let active = |column: &&u32| self.state[**column as usize] == ACTIVE;
        let column = match shortest {
            Some(row) => {
                let row = u32::try_from(row).expect("counted in 32 bits");
                self.row(row).iter().find(active).copied()
            }
            None => self.state.iter().position(|&s| s == ACTIVE).and_then(|c| c.try_into().ok()),
        };
        column.expect("there is an active column while some are left")
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
        for &(row, column) in &self.pivots {
            let start = if row == 0 { 0 } else { self.ends[row as usize - 1] } as usize;
            let row = &self.columns[start..self.ends[row as usize] as usize];
            sum_bits(&mut self.bits, words, column, row);
        }
    }

    fn solve_inactive(&mut self, kernels: Kernels, constraints: &Constraints) {
        self.equations.clear();
        self.elimination.reset(self.inactive.len());
        for row in 0..self.ends.len() {
            if !self.is_pivot_row[row] {
                self.add_row(kernels, u32::try_from(row).expect("counted in 32 bits"));
                if self.elimination.deficit() == 0 {
                    return;
                }
            }
        }
        let params = &constraints.params;
        let stride = 64 * self.words;
        let folded = (params.k_ext + params.s) as usize;
        self.hdpc.resize(params.h as usize * stride, 0);
        let bits = &self.bits[..folded * self.words];
        kernels.fold_bits(&constraints.hdpc, bits, self.words, &mut self.hdpc);
        for i in 0..params.h {
            let row = &mut self.hdpc[i as usize * stride..][..stride];
            // The identity part of the HDPC rows stands in the last H columns, all inactive.
            let own = self.state[folded + i as usize] & !INACTIVE;
            row[own as usize] ^= 1;
            if self.elimination.add(kernels, row) {
                self.equations.push(Equation::Hdpc(i));
            }
        }
    }

    /// Expresses a row that is no pivot in the inactive columns and adds it to the elimination.
    fn add_row(&mut self, kernels: Kernels, row: u32) {
        let start = if row == 0 { 0 } else { self.ends[row as usize - 1] } as usize;
        self.equation.clear();
        self.equation.resize(64 * self.words, 0);
        for word in 0..self.words {
            let bits = self.columns[start..self.ends[row as usize] as usize]
                .iter()
                .fold(0, |sum, &c| sum ^ self.bits[c as usize * self.words + word]);
            for (i, entry) in self.equation[64 * word..][..64].iter_mut().enumerate() {
                *entry = u8::from(bits >> i & 1 == 1);
            }
        }
        if self.elimination.add(kernels, &self.equation) {
            self.equations.push(Equation::Row(row));
        }
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
