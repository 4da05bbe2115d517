//! The encoding symbols a decoder keeps, as rows of the equations they are.

use core::ops::Range;

/// Neighbours of the kept symbols, one row after the other.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Where each row ends in `columns`.
    ends: Vec<u32>,
    columns: Vec<u32>,
}

impl Rows {
    pub(super) fn clear(&mut self) {
        self.ends.clear();
        self.columns.clear();
    }

    /// Rows kept.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Neighbours kept, over all rows.
    pub(super) fn neighbours(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn push(&mut self, neighbours: &[u32]) {
        self.columns.extend_from_slice(neighbours);
        self.ends.push(u32::try_from(self.columns.len()).expect("the decoder bounds neighbours"));
    }

    /// Where a row's neighbours stand among all.
    pub(super) fn range(&self, row: u32) -> Range<usize> {
        let before = (row as usize).checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        before..self.ends[row as usize] as usize
    }

    /// A row's neighbours, ascending.
    pub(super) fn row(&self, row: u32) -> &[u32] {
        &self.columns[self.range(row)]
    }

    pub(super) fn memory(&self) -> usize {
        4 * (self.ends.capacity() + self.columns.capacity())
    }
}
