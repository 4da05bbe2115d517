//! Encoding of a program's instructions in words.

/// Flag of operands that name an external row.
pub(crate) const EXTERNAL: u32 = 1 << 31;

/// Inputs of a product that do not stay in the second cache while all else passes through it \[bytes\].
pub(crate) const MANY_INPUTS: usize = 256 << 10;

/// Rows whose sums a table of [`Program::tables`](crate::Program::tables) holds.
pub const TABLE_ROWS: u32 = 4;

/// Words before the sources of a sum, and before the sums of a block.
pub(crate) const HEAD: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    /// `[Sums, words, (to, sources, source..)..]`; `to` and the first source may be external.
    Sums,
    /// `[Product, outputs, bases, inputs, first coefficient, output.., base.., input..]`
    Product,
    /// `[Fold, columns, first sum, first row of pairs, column..]`
    Fold,
    /// `[Tables, rows, first row, first row of the tables]`
    Tables,
}

impl Opcode {
    #[inline(always)]
    pub(crate) fn from_word(word: u32) -> Self {
        match word {
            0 => Self::Sums,
            1 => Self::Product,
            2 => Self::Fold,
            _ => Self::Tables,
        }
    }
}

/// A row an instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A row of the workspace.
    Work(u32),
    /// A row of the caller's [`RowTable`](crate::RowTable).
    External(u32),
}

impl Operand {
    pub(crate) fn row(self) -> u32 {
        match self {
            Self::Work(row) | Self::External(row) => row,
        }
    }

    pub(crate) fn flag(self) -> u32 {
        match self {
            Self::Work(_) => 0,
            Self::External(_) => EXTERNAL,
        }
    }

    pub(crate) fn word(self) -> u32 {
        work_word(self.row()) | self.flag()
    }
}

/// The word of a work row.
#[inline]
pub(crate) fn work_word(row: u32) -> u32 {
    assert!(row < EXTERNAL, "row number too large");
    row
}
