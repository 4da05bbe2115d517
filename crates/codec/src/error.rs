//! Errors of callers and senders. Every variant carries what was given and what is
//! allowed; nothing in this crate panics on input.

use core::fmt;

/// Why an input was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A source block of so many symbols does not exist: K is 1 to 56,403 (RFC 6330 §5.1.2).
    SourceSymbols {
        /// The number of source symbols given.
        got: u64,
        /// The largest allowed.
        limit: u64,
    },
    /// The code given is for blocks of other sizes.
    CodeSymbols {
        /// The number of source symbols given.
        got: u32,
        /// The smallest number the code is for.
        least: u32,
        /// The largest.
        limit: u32,
    },
    /// The object is empty: it has no encoding symbols.
    EmptyObject,
    /// The symbol size T is zero or more than 65,535 bytes.
    SymbolSize {
        /// The size given \[bytes\].
        got: usize,
        /// The largest allowed \[bytes\].
        limit: usize,
    },
    /// The transfer length F is more than RFC 6330 §3.3.2 allows.
    TransferLength {
        /// The length given \[bytes\].
        got: u64,
        /// The largest allowed \[bytes\].
        limit: u64,
    },
    /// The number of source blocks Z is zero, or more than there are source symbols.
    SourceBlocks {
        /// The number given.
        got: u64,
        /// The largest allowed.
        limit: u64,
    },
    /// The number of sub-blocks N is zero, or more than T / Al (RFC 6330 §4.4.1.2).
    SubBlocks {
        /// The number given.
        got: u64,
        /// The largest allowed.
        limit: u64,
    },
    /// The symbol alignment Al is zero or does not divide T.
    Alignment {
        /// The alignment given \[bytes\].
        got: u64,
        /// The symbol size it must divide \[bytes\].
        symbol_size: u64,
    },
    /// A field of fixed length was cut short.
    Truncated {
        /// Bytes there were.
        got: usize,
        /// Bytes there must be.
        needed: usize,
    },
    /// The source block number is not below the number of source blocks.
    SourceBlockNumber {
        /// The number given.
        got: u32,
        /// The number of source blocks.
        limit: u32,
    },
    /// The encoding symbol ID does not exist here: it is below 2^24, and below K where a source
    /// symbol is meant, and not below K where a repair symbol is.
    SymbolId {
        /// The ID given.
        got: u32,
        /// The bound it breaks.
        limit: u32,
    },
    /// A symbol, or room for one, is not as long as the symbol size.
    SymbolLength {
        /// The length given \[bytes\].
        got: usize,
        /// The symbol size \[bytes\].
        expected: usize,
    },
    /// A source block's buffer has a length that K symbols of T bytes, the last one perhaps cut
    /// short, cannot have.
    BlockLength {
        /// The length given \[bytes\].
        got: usize,
        /// K times T \[bytes\].
        expected: usize,
    },
    /// The input needs more memory than the caller allowed.
    Memory {
        /// What it needs \[bytes\].
        got: u64,
        /// What the caller allowed \[bytes\].
        limit: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SourceSymbols { got, limit } => {
                write!(f, "{got} source symbols a block, allowed are 1 to {limit}")
            }
            Self::CodeSymbols { got, least, limit } => {
                write!(f, "{got} source symbols a block, the code given is for {least} to {limit}")
            }
            Self::EmptyObject => f.write_str("an empty object has no encoding symbols"),
            Self::SymbolSize { got, limit } => {
                write!(f, "symbol size of {got} bytes, allowed are 1 to {limit}")
            }
            Self::TransferLength { got, limit } => {
                write!(f, "transfer length of {got} bytes, at most {limit} are allowed")
            }
            Self::SourceBlocks { got, limit } => {
                write!(f, "{got} source blocks, allowed are 1 to {limit}")
            }
            Self::SubBlocks { got, limit } => {
                write!(f, "{got} sub-blocks, allowed are 1 to {limit}")
            }
            Self::Alignment { got, symbol_size } => {
                write!(f, "alignment of {got} bytes does not divide symbols of {symbol_size}")
            }
            Self::Truncated { got, needed } => write!(f, "{got} bytes where {needed} are needed"),
            Self::SourceBlockNumber { got, limit } => {
                write!(f, "source block {got} of {limit} source blocks")
            }
            Self::SymbolId { got, limit } => {
                write!(f, "encoding symbol ID {got} against the bound {limit}")
            }
            Self::SymbolLength { got, expected } => {
                write!(f, "symbol of {got} bytes where {expected} are expected")
            }
            Self::BlockLength { got, expected } => {
                write!(f, "source block of {got} bytes where {expected} are expected")
            }
            Self::Memory { got, limit } => {
                write!(f, "{got} bytes of memory needed, {limit} allowed")
            }
        }
    }
}

impl core::error::Error for Error {}
