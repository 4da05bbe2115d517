//! Errors of parsing.

use core::fmt;

/// Why a datagram was not understood: a reason to count, never a reason to fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum ParseError {
    /// Shorter than its kind of header.
    TooShort {
        /// Bytes present.
        got: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// A version this build does not speak.
    UnknownVersion(u8),
    /// A packet kind this version does not have.
    UnknownKind(u8),
    /// The short check over the header does not match.
    BadCheck,
    /// A field holds a value that cannot be.
    BadField(&'static str),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::TooShort { got, needed } => {
                write!(f, "datagram of {got} bytes, its header needs {needed}")
            }
            ParseError::UnknownVersion(v) => write!(f, "unknown version {v}"),
            ParseError::UnknownKind(k) => write!(f, "unknown packet kind {k}"),
            ParseError::BadCheck => f.write_str("header check does not match"),
            ParseError::BadField(name) => write!(f, "impossible value in field {name}"),
        }
    }
}

impl core::error::Error for ParseError {}
