//! RaptorQ, the fountain code of RFC 6330.
//!
//! A source block of K symbols gives up to 2^24 encoding symbols, the first K of which are the
//! block itself; any K of them, and sometimes one or two more, give the block back.
//!
//! - [`Code`]: what depends on K alone, computed once and shared.
//! - [`CodeCache`]: codes in use, bounded.
//! - [`BlockEncoder`]: any encoding symbol of a block in the caller's memory.
//! - [`BlockDecoder`]: a block in the caller's memory from any mix of its symbols.
//! - [`ObjectTransmissionInformation`] and [`PayloadId`]: what goes on the wire (§3).
//! - [`ObjectEncoder`] and [`ObjectDecoder`]: objects of several blocks and sub-blocks (§4.4).

mod attempt;
mod block;
mod cache;
mod capacity;
mod code;
mod constraints;
mod cost;
mod decoder;
mod encoder;
mod gauss_jordan;
mod information;
mod inverse;
mod object;
mod outputs;
mod params;
mod plan;
mod random;
mod rank;
mod received;
mod reception;
mod recovery;
#[cfg(test)]
mod recovery_tests;
mod schedule;
mod solver;
mod systematic;

pub use block::MAX_SYMBOL_SIZE;
pub use cache::CodeCache;
pub use code::Code;
pub use cost::DecodingPath;
pub use decoder::BlockDecoder;
pub use encoder::BlockEncoder;
pub use information::{MAX_TRANSFER_LENGTH, ObjectTransmissionInformation, PayloadId, SourceBlock};
pub use object::{ObjectDecoder, ObjectEncoder, deinterleave, interleave};
pub use params::{ENCODING_SYMBOLS, MAX_SOURCE_SYMBOLS};
pub use rank::RankStudy;
pub use reception::Added;
pub use recovery::Decoded;
