//! Rows of symbols that live in the caller's memory, and aligned memory of our own.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// One row: where it starts and whether the table holds it exclusively.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) start: *mut u8,
    pub(crate) writable: bool,
}

/// Memory for the entries of a [`RowTable`], kept between uses so that a warm caller allocates
/// nothing.
#[derive(Debug, Default)]
pub struct RowStorage(Vec<Row>);

// SAFETY: the pointers are dereferenced only through a `RowTable`, which clears the storage when it
// is made and borrows every row it holds; between uses they are dead values.
unsafe impl Send for RowStorage {}
// SAFETY: as above; a shared reference to the storage gives access to nothing.
unsafe impl Sync for RowStorage {}

impl RowStorage {
    /// Makes room for so many entries.
    pub fn reserve(&mut self, rows: usize) {
        self.0.reserve_exact(rows.saturating_sub(self.0.len()));
    }

    /// Bytes held for entries.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.0.capacity() * size_of::<Row>()
    }
}

/// The external rows a [`Program`](crate::Program) reads and writes: equally long pieces of the
/// caller's buffers, numbered in the order they are added.
#[derive(Debug)]
pub struct RowTable<'s, 'd> {
    rows: &'s mut Vec<Row>,
    row_len: usize,
    borrowed: PhantomData<&'d mut [u8]>,
}

impl<'s, 'd> RowTable<'s, 'd> {
    /// An empty table of rows of `row_len` bytes.
    pub fn new(storage: &'s mut RowStorage, row_len: usize) -> Self {
        storage.0.clear();
        Self { rows: &mut storage.0, row_len, borrowed: PhantomData }
    }

    /// Bytes in each row.
    #[must_use]
    pub fn row_len(&self) -> usize {
        self.row_len
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row that programs may read.
    ///
    /// # Panics
    ///
    /// If `row` is shorter than the table's row length.
    pub fn push_shared(&mut self, row: &'d [u8]) {
        assert!(row.len() >= self.row_len, "row shorter than the table's rows");
        self.rows.push(Row { start: row.as_ptr().cast_mut(), writable: false });
    }

    /// Adds a row that programs may read and write.
    ///
    /// # Panics
    ///
    /// If `row` is shorter than the table's row length.
    pub fn push_exclusive(&mut self, row: &'d mut [u8]) {
        assert!(row.len() >= self.row_len, "row shorter than the table's rows");
        self.rows.push(Row { start: row.as_mut_ptr(), writable: true });
    }

    /// Adds `count` readable rows at distance `stride` in `rows`.
    ///
    /// # Panics
    ///
    /// If the rows do not fit into the slice.
    pub fn push_shared_rows(&mut self, rows: &'d [u8], stride: usize, count: usize) {
        self.check_fit(rows.len(), stride, count);
        let start = rows.as_ptr().cast_mut();
        // SAFETY: `check_fit` showed that the last row ends within the slice.
        let at = |i| unsafe { start.add(i * stride) };
        self.rows.extend((0..count).map(|i| Row { start: at(i), writable: false }));
    }

    /// Adds `count` readable and writable rows at distance `stride` in `rows`.
    ///
    /// # Panics
    ///
    /// If the rows overlap or do not fit into the slice.
    pub fn push_exclusive_rows(&mut self, rows: &'d mut [u8], stride: usize, count: usize) {
        assert!(stride >= self.row_len, "exclusive rows overlap");
        self.check_fit(rows.len(), stride, count);
        let start = rows.as_mut_ptr();
        // SAFETY: `check_fit` showed that the last row ends within the slice.
        let at = |i| unsafe { start.add(i * stride) };
        self.rows.extend((0..count).map(|i| Row { start: at(i), writable: true }));
    }

    /// Adds row `row` once more under a new number, for reading only.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn push_alias(&mut self, row: usize) {
        let start = self.rows[row].start;
        self.rows.push(Row { start, writable: false });
    }

    fn check_fit(&self, len: usize, stride: usize, count: usize) {
        let needed = match count {
            0 => 0,
            _ => (count - 1)
                .checked_mul(stride)
                .and_then(|n| n.checked_add(self.row_len))
                .expect("row positions exceed the address space"),
        };
        assert!(needed <= len, "rows do not fit into their buffer");
    }

    pub(crate) fn rows(&self) -> &[Row] {
        self.rows
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Zero-initialised bytes that start on a cache line.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedBuffer {
    /// Makes the buffer exactly `len` bytes long; bytes beyond the old length are zero, the
    /// others keep their values.
    pub fn resize(&mut self, len: usize) {
        if len < self.len {
            // What is cut off must read as zero if the buffer grows again.
            self[len..].fill(0);
        }
        self.lines.resize(len.div_ceil(64), Line([0; 64]));
        self.len = len;
    }

    /// Makes the buffer at least `len` bytes long without touching what is there.
    pub fn reserve_len(&mut self, len: usize) {
        if len > self.len {
            self.resize(len);
        }
    }

    /// Makes room to grow to `len` bytes without allocating.
    pub fn reserve(&mut self, len: usize) {
        self.lines.reserve_exact(len.div_ceil(64).saturating_sub(self.lines.len()));
    }

    /// Frees memory beyond `len` bytes and shortens the buffer to at most that.
    pub fn shrink_to(&mut self, len: usize) {
        if self.len > len {
            self.resize(len);
        }
        self.lines.shrink_to(len.div_ceil(64));
    }

    /// Bytes allocated.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.lines.capacity() * 64
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `lines` is `len.div_ceil(64)` initialised arrays of 64 bytes without padding.
        unsafe { core::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and the borrow is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}
