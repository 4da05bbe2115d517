//! Work rows, and one strip of columns, of a running program.

use crate::instruction::EXTERNAL;
use crate::rows::{AlignedBuffer, Row};

/// Memory a program runs in, kept between runs.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(crate) buffer: AlignedBuffer,
    pub(crate) pointers: Pointers,
}

impl Workspace {
    /// Makes room for programs whose work rows take `bytes` bytes, and whose products have at most
    /// `inputs` inputs.
    pub fn reserve(&mut self, bytes: usize, inputs: usize) {
        self.buffer.reserve(bytes);
        let pointers = &mut self.pointers.0;
        pointers.reserve_exact(inputs.saturating_sub(pointers.len()));
    }

    /// Bytes allocated.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.buffer.memory() + self.pointers.0.capacity() * size_of::<*const u8>()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pointers(pub(crate) Vec<*const u8>);

// SAFETY: the vector is cleared before it is filled and read within one run; between runs its
// contents are dead values that nothing dereferences.
unsafe impl Send for Pointers {}
// SAFETY: as above.
unsafe impl Sync for Pointers {}

/// One strip of columns of a running program.
pub(crate) struct Strip<'a> {
    pub(crate) code: &'a [u32],
    pub(crate) coefficients: &'a [u8],
    pub(crate) rows: &'a [Row],
    pub(crate) workspace: *mut u8,
    pub(crate) stride: usize,
    pub(crate) column: usize,
    pub(crate) width: usize,
    /// The pair of sums of each column that is folded, and the number of sums.
    pub(crate) pairs: &'a [u16],
    pub(crate) sums: usize,
    pub(crate) pointers: &'a mut Vec<*const u8>,
}

impl Strip<'_> {
    /// Where this strip of external row `row` starts.
    ///
    /// # Safety
    ///
    /// The row is in the table.
    #[inline(always)]
    pub(crate) unsafe fn external(&self, row: u32) -> *mut u8 {
        // SAFETY: the row is in the table, and `column` is below the row length.
        unsafe { self.rows.get_unchecked(row as usize).start.add(self.column) }
    }

    /// Where work row `row` starts.
    ///
    /// # Safety
    ///
    /// The row is within the workspace.
    #[inline(always)]
    pub(crate) unsafe fn work(&self, row: u32) -> *mut u8 {
        // SAFETY: as the caller vouches.
        unsafe { self.workspace.add(row as usize * self.stride) }
    }

    /// Where the row of an operand word starts.
    ///
    /// # Safety
    ///
    /// The operand was checked by `Program::run`.
    #[inline(always)]
    pub(crate) unsafe fn row(&self, word: u32) -> *mut u8 {
        // SAFETY: as the caller vouches.
        unsafe {
            if word & EXTERNAL == 0 { self.work(word) } else { self.external(word & !EXTERNAL) }
        }
    }
}
