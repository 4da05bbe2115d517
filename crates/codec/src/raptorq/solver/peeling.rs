//! Phase one, peeling: every column becomes a pivot or inactive.

use core::ops::Range;
use std::collections::BinaryHeap;

use crate::raptorq::capacity::{self, Capacity, LONGEST_ROW};
use crate::raptorq::constraints::Constraints;

/// What an active column has become.
const ACTIVE: u32 = u32::MAX;
/// Set in a column's state when it is inactive; the rest is its number among the inactive ones.
pub(super) const INACTIVE: u32 = 1 << 31;

/// Most columns that may become inactive, beside twice the PI columns, before a set of symbols is
/// taken for hostile: random sets stay far below, and the dense part grows with the square of it.
const MAX_INACTIVE: usize = 2048;

/// What is left of a row: the number of its active columns, and their sum by XOR. With one left, the
/// sum is it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    degree: u32,
    sum: u32,
}

/// Rows that wait, each of which comes in once in a solution.
#[derive(Debug, Default)]
pub(super) struct Queue {
    rows: Vec<u32>,
    len: usize,
}

impl Queue {
    /// Empties it, and reserves memory for `rows` rows and one that is not kept.
    fn reset(&mut self, rows: usize) {
        self.rows.clear();
        self.rows.resize(rows + 1, 0);
        self.len = 0;
    }

    pub(super) fn reserve(&mut self, rows: usize) {
        capacity::reserve(&mut self.rows, rows + 1);
    }

    /// Adds a row if `wanted`, without a branch, because the next degree cannot be predicted.
    #[inline]
    fn push_if(&mut self, wanted: bool, row: u32) {
        self.rows[self.len] = row;
        self.len += usize::from(wanted);
    }

    pub(super) fn capacity(&self) -> usize {
        self.rows.capacity()
    }

    fn rows(&self) -> &[u32] {
        &self.rows[..self.len]
    }
}

/// Rows and columns of a solution, and the order in which columns are computed; memory is kept
/// from one use to the next.
#[derive(Debug, Default)]
pub(crate) struct Peeling {
    /// Columns of all rows, LDPC rows first; `ends[r]` is where row `r` ends, and `splits[r]`
    /// where its columns from W on start.
    pub(super) columns: Vec<u32>,
    pub(super) ends: Vec<u32>,
    splits: Vec<u32>,
    active: Vec<Active>,
    /// Rows of each column below W: those of column `c` end at `row_ends[c]`.
    row_ends: Vec<u32>,
    rows: Vec<u32>,
    /// For each column: `ACTIVE`, its place among the pivots, or `INACTIVE` and its place there.
    pub(super) state: Vec<u32>,
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
    pub(super) is_pivot_row: Vec<bool>,
}

impl Peeling {
    /// Takes the LDPC rows and one LT row for each of `symbols`.
    pub(super) fn load(&mut self, constraints: &Constraints, symbols: impl Iterator<Item = u32>) {
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

    /// Adds the LT row of a symbol.
    pub(super) fn push_symbol(&mut self, constraints: &Constraints, symbol: u32) {
        let start = u32::try_from(self.columns.len()).expect("entries are counted in 32 bits");
        let below = constraints.lt_columns(symbol, &mut self.columns);
        self.splits.push(start + below);
        self.ends.push(u32::try_from(self.columns.len()).expect("counted in 32 bits"));
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

    pub(super) fn memory(&self) -> usize {
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
        4 * words + 8 * pairs + self.is_pivot_row.capacity()
    }

    /// Reserves memory for every solution of a code of that size.
    pub(super) fn reserve(&mut self, capacity: &Capacity) {
        let (l, rows) = (capacity.l, capacity.s + capacity.symbols);
        let entries = capacity.ldpc + capacity.symbols * LONGEST_ROW;
        capacity::reserve(&mut self.columns, entries);
        capacity::reserve(&mut self.ends, rows);
        capacity::reserve(&mut self.splits, rows);
        capacity::reserve(&mut self.active, rows);
        capacity::reserve(&mut self.row_ends, l);
        capacity::reserve(&mut self.rows, entries);
        capacity::reserve(&mut self.state, l);
        capacity::reserve(&mut self.parents, l);
        capacity::reserve(&mut self.sizes, l);
        self.components.reserve(l.saturating_sub(self.components.len()));
        self.pairs.reserve(rows);
        self.ripple.reserve(rows);
        capacity::reserve(&mut self.pivots, l);
        capacity::reserve(&mut self.inactive, l);
        capacity::reserve(&mut self.is_pivot_row, rows);
    }

    /// Counts degrees and lists the rows of each column, by counting sort.
    pub(super) fn index_columns(&mut self, constraints: &Constraints) {
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
    pub(super) fn peel(&mut self, constraints: &Constraints) -> bool {
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
        let mut columns = self.row_below(row).iter();
        let Some(&first) = columns.find(|&&c| self.state[c as usize] == ACTIVE) else {
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
}

/// Where rows that end at `ends` have the columns of row `row`.
#[inline]
pub(super) fn span(ends: &[u32], row: u32) -> Range<usize> {
    let row = row as usize;
    let start = if row == 0 { 0 } else { ends[row - 1] };
    start as usize..ends[row] as usize
}
