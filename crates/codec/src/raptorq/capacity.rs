//! Memory reserved for blocks of small codes.
//!
//! A decoder of a small code reserves once what any of its blocks can need, whatever is lost and
//! whichever symbols come, and then allocates nothing. For larger codes that would take far more
//! than nearly all blocks need: it grows with the square of K.

/// Sizes of what is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) k: usize,
    pub(crate) k_ext: usize,
    pub(crate) l: usize,
    pub(crate) s: usize,
    pub(crate) h: usize,
    /// Entries of the LDPC rows.
    pub(crate) ldpc: usize,
    /// Symbols received and padding.
    pub(crate) symbols: usize,
    /// Bytes a symbol takes in memory of our own.
    pub(crate) stride: usize,
}

/// Work rows that tables may take beyond L.
pub(crate) const TABLES_BEYOND: u32 = 32;

/// Terms of the longest LT row: degree 30, and three PI symbols (RFC 6330 §5.3.5.4).
pub(crate) const LONGEST_ROW: usize = 33;

impl Capacity {
    /// Words of a program: each of up to L rows in forward elimination and in back-substitution, the
    /// inactive symbols in the latter, each wanted symbol, and a product for every eight of them.
    pub(crate) fn program_words(&self) -> usize {
        let (tables, inactive) = (self.tables() / 16, self.tables() / 4);
        let intermediate = 2 * (self.l * LONGEST_ROW + self.ldpc) + 14 * self.l + inactive * tables;
        let outputs = self.k * (LONGEST_ROW + 16 + tables) + (self.k / 8 + 1) * (self.l + 24);
        intermediate + outputs + 64
    }

    /// Rows of tables, at most, of sixteen sums of four symbols each.
    fn tables(&self) -> usize {
        self.l + TABLES_BEYOND as usize
    }

    /// Work rows: intermediate symbols, HDPC sums and residuals, tables or a batch of outputs, and an
    /// equation for each missing symbol.
    fn work_rows(&self) -> usize {
        2 * self.l + self.h + self.tables() + self.k
    }

    /// Bytes of a workspace, in strips of at most 512 bytes.
    pub(crate) fn workspace(&self) -> usize {
        self.work_rows() * self.stride.min(512)
    }

    /// The same where the symbols are unit vectors.
    pub(crate) fn unit_workspace(&self) -> usize {
        self.work_rows() * self.k.next_multiple_of(64).min(512)
    }
}

/// Reserves memory for `len` elements in all.
pub(crate) fn reserve<T>(buffer: &mut Vec<T>, len: usize) {
    buffer.reserve_exact(len.saturating_sub(buffer.len()));
}
