//! The intermediate symbols as linear combinations of source symbols, written out.
//!
//! An encoding symbol is a sum of a few intermediate symbols, and these are fixed linear
//! combinations of the source symbols. Both the whole inverse and any few of its columns come from
//! running the encoding program on unit vectors in place of symbols: no second algorithm, and
//! nothing to keep consistent.

use wellspring_kernels::{AlignedBuffer, Kernels, Program, RowStorage, RowTable, Workspace};

use super::capacity::{self, Capacity};
use super::constraints::Constraints;
use super::plan::{Plan, strip_len};

/// A matrix with one row an intermediate symbol.
#[derive(Debug, Default)]
pub(crate) struct Inverse {
    rows: AlignedBuffer,
    stride: usize,
    columns: usize,
}

/// What making an inverse needs, kept between uses.
#[derive(Debug, Default)]
pub(crate) struct InverseScratch {
    units: Vec<u8>,
    store: Program,
    rows: RowStorage,
    workspace: Workspace,
}

impl InverseScratch {
    /// Reserves memory for any columns of a code of that size.
    pub(crate) fn reserve(&mut self, capacity: &Capacity) {
        capacity::reserve(&mut self.units, 3 * capacity.k);
        self.store.reserve(2 + 3 * capacity.l, 0, capacity.l);
        self.rows.reserve(capacity.k_ext + capacity.l);
        self.workspace.reserve(capacity.unit_workspace(), capacity.l);
    }

    pub(crate) fn memory(&self) -> usize {
        self.units.capacity() + self.store.memory() + self.rows.memory() + self.workspace.memory()
    }
}

impl Inverse {
    /// Bytes the whole inverse takes.
    pub(crate) fn size(constraints: &Constraints) -> usize {
        let params = &constraints.params;
        params.l as usize * (params.k_ext as usize).next_multiple_of(64)
    }

    /// Reserves memory for so many rows and columns.
    pub(crate) fn reserve(&mut self, rows: usize, columns: usize) {
        self.rows.reserve(rows * columns.next_multiple_of(64));
    }

    /// Makes the columns of the given source symbols, in ascending order.
    pub(crate) fn make(
        &mut self,
        kernels: Kernels,
        constraints: &Constraints,
        plan: &Plan,
        columns: impl ExactSizeIterator<Item = u32>,
        scratch: &mut InverseScratch,
    ) {
        let params = &constraints.params;
        let n = columns.len();
        self.columns = n;
        self.stride = n.next_multiple_of(64);
        // Exactly: doubled, it would be the largest part of a decoder's memory.
        self.rows.reserve(params.l as usize * self.stride);
        self.rows.reserve_len(params.l as usize * self.stride);
        // All unit vectors and the zero vector are pieces of one vector with a single one.
        scratch.units.clear();
        scratch.units.resize(3 * n, 0);
        scratch.units[n - 1] = 1;
        let (units, zero) = scratch.units.split_at(2 * n);
        scratch.store.clear();
        for (column, &place) in (0..).zip(&plan.schedule.places) {
            scratch.store.store(params.k_ext + column, place);
        }
        let mut rows = RowTable::new(&mut scratch.rows, n);
        let mut columns = columns.enumerate().peekable();
        for symbol in 0..params.k_ext {
            match columns.next_if(|&(_, column)| column == symbol) {
                Some((i, _)) => rows.push_shared(&units[n - 1 - i..]),
                None => rows.push_shared(zero),
            }
        }
        rows.push_exclusive_rows(&mut self.rows, self.stride, params.l as usize);
        Program::run_all(
            &[(&plan.forward, 0), (&plan.backward, 0), (&scratch.store, 0)],
            kernels,
            &rows,
            Some(&constraints.hdpc),
            &mut scratch.workspace,
            strip_len(kernels.isa(), plan.work_rows()),
        );
    }

    /// The coefficients of encoding symbol `isi`, one a column.
    pub(crate) fn generator(
        &self,
        kernels: Kernels,
        constraints: &Constraints,
        isi: u32,
        intermediate: &mut Vec<u32>,
        coefficients: &mut Vec<u8>,
    ) {
        intermediate.clear();
        constraints.params.lt_columns(isi, intermediate);
        // Rows are whole lines, which are quicker to add than what ends in the middle of a vector.
        coefficients.resize(self.stride, 0);
        kernels.gather(coefficients, &self.rows, self.stride, intermediate);
        coefficients.truncate(self.columns);
    }

    pub(crate) fn memory(&self) -> usize {
        self.rows.memory()
    }
}
