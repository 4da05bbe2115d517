//! Phase one: every column becomes a pivot or inactive.

use super::{ACTIVE, INACTIVE, Solver};
use crate::raptorq::constraints::Constraints;
use crate::raptorq::room;

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
    /// Empties it, and makes room for `rows` rows and one that is not kept.
    fn reset(&mut self, rows: usize) {
        self.rows.clear();
        self.rows.resize(rows + 1, 0);
        self.len = 0;
    }

    pub(super) fn reserve(&mut self, rows: usize) {
        room::reserve(&mut self.rows, rows + 1);
    }

    /// Adds a row if `wanted`, without a branch: nobody can tell in advance which degrees come.
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

impl Solver {
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
