//! Errors of callers and senders. Nothing in this module panics on input.

use core::fmt;

/// Why an input was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum LtError {
    /// A block has no symbols, or more than an LT code here may have.
    SourceSymbols {
        /// The number of source symbols given.
        got: u64,
        /// The largest allowed.
        limit: u32,
    },
    /// The constant c is not above zero, or beyond the largest allowed.
    Constant {
        /// The constant given.
        got: f64,
        /// The largest allowed.
        limit: f64,
    },
    /// The failure probability delta is not between zero and one.
    FailureProbability(f64),
    /// The symbol size is zero or more than 65,535 bytes.
    SymbolSize {
        /// The size given \[bytes\].
        got: usize,
        /// The largest allowed \[bytes\].
        limit: usize,
    },
    /// A symbol, or room for one, is not as long as the symbol size.
    SymbolLength {
        /// The length given \[bytes\].
        got: usize,
        /// The symbol size \[bytes\].
        expected: usize,
    },
    /// A block's buffer has a length that k symbols, the last one perhaps cut short, cannot have.
    BlockLength {
        /// The length given \[bytes\].
        got: usize,
        /// k times the symbol size \[bytes\].
        expected: usize,
    },
    /// An encoding symbol of no source symbols, or of more than the block has.
    Degree {
        /// The degree given.
        got: usize,
        /// The number of source symbols.
        limit: u32,
    },
    /// A neighbour is not a source symbol of the block.
    Neighbour {
        /// The index given.
        got: u32,
        /// The number of source symbols, which it must be below.
        limit: u32,
    },
    /// Neighbours do not ascend, or one of them stands twice.
    Order {
        /// The index given.
        got: u32,
        /// The index before it, which it must be above.
        before: u32,
    },
    /// An encoding packet ends within its description.
    Truncated {
        /// Bytes there were.
        got: usize,
        /// Bytes there must be.
        needed: usize,
    },
}

impl fmt::Display for LtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SourceSymbols { got, limit } => {
                write!(f, "{got} source symbols a block, allowed are 1 to {limit}")
            }
            Self::Constant { got, limit } => {
                write!(f, "constant c = {got}, it must be above 0 and at most {limit}")
            }
            Self::FailureProbability(got) => {
                write!(f, "failure probability delta = {got}, it must be between 0 and 1")
            }
            Self::SymbolSize { got, limit } => {
                write!(f, "symbol size of {got} bytes, allowed are 1 to {limit}")
            }
            Self::SymbolLength { got, expected } => {
                write!(f, "symbol of {got} bytes where {expected} are expected")
            }
            Self::BlockLength { got, expected } => {
                write!(f, "block of {got} bytes where {expected} are expected")
            }
            Self::Degree { got, limit } => {
                write!(f, "encoding symbol of degree {got}, allowed are 1 to {limit}")
            }
            Self::Neighbour { got, limit } => {
                write!(f, "neighbour {got} of a block of {limit} source symbols")
            }
            Self::Order { got, before } => {
                write!(f, "neighbour {got} after {before}: neighbours must ascend")
            }
            Self::Truncated { got, needed } => write!(f, "{got} bytes where {needed} are needed"),
        }
    }
}

impl core::error::Error for LtError {}
