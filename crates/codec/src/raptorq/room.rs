//! What blocks of a small code can need at most, whatever is lost and whichever symbols come.
//!
//! Decoders reserve it once and then allocate nothing. For larger codes the same would take far more
//! than nearly all blocks need: it grows with the square of K.

use super::block::BlockShape;
use super::gathered::default_max_repairs;
use super::swept::TABLES_BEYOND;

/// The largest K' for which everything is reserved: about 2.2 MB for it, without repair symbols.
pub(crate) const MAX_RESERVED: u32 = 257;

/// Most bytes reserved for copies of repair symbols.
const MAX_COPIES: usize = 1 << 20;

/// Sizes of what is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
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

/// Terms of the longest LT row: degree 30, and three PI symbols (RFC 6330 §5.3.5.4).
pub(crate) const LONGEST_ROW: usize = 33;

impl Room {
    /// Room for blocks of that shape, unless they are too large.
    pub(crate) fn of(shape: &BlockShape, max_repairs: u32) -> Option<Self> {
        if !is_small(shape) {
            return None;
        }
        let constraints = shape.code.constraints();
        let params = &constraints.params;
        Some(Self {
            k: shape.k as usize,
            k_ext: params.k_ext as usize,
            l: params.l as usize,
            s: params.s as usize,
            h: params.h as usize,
            ldpc: constraints.ldpc_columns.len(),
            symbols: params.k_ext as usize + reserved_repairs(shape, max_repairs),
            stride: shape.stride(),
        })
    }

    /// Words of a program: each of up to L rows in both sweeps, the inactive symbols in the second, each
    /// wanted symbol, and a product for every eight of them.
    pub(crate) fn program_words(&self) -> usize {
        let (tables, inactive) = (self.tables() / 16, self.tables() / 4);
        let sweeps = 2 * (self.l * LONGEST_ROW + self.ldpc) + 14 * self.l + inactive * tables;
        let outputs = self.k * (LONGEST_ROW + 16 + tables) + (self.k / 8 + 1) * (self.l + 24);
        sweeps + outputs + 64
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

/// Repair symbols whose IDs there is room for.
pub(crate) fn reserved_repairs(shape: &BlockShape, max_repairs: u32) -> usize {
    if is_small(shape) { max_repairs.min(default_max_repairs(shape.k)) as usize } else { 0 }
}

/// Repair symbols that there is room for to be copied.
pub(crate) fn reserved_copies(shape: &BlockShape, max_repairs: u32) -> usize {
    let repairs = reserved_repairs(shape, max_repairs);
    if repairs * shape.stride() <= MAX_COPIES { repairs } else { 0 }
}

fn is_small(shape: &BlockShape) -> bool {
    shape.code.extended_symbols() <= MAX_RESERVED
}

/// Makes room for exactly `len` elements, if there is not.
pub(crate) fn reserve<T>(buffer: &mut Vec<T>, len: usize) {
    buffer.reserve_exact(len.saturating_sub(buffer.len()));
}
