//! Erasure codecs of Wellspring: bytes in and bytes out, no packets, clocks or sockets.
//!
//! [`raptorq`] is RFC 6330: source symbols are received in place, memory is the caller's or kept
//! from block to block. [`lt`] is LTTP's LT code: XORs of source symbols, nothing else, and what
//! there is to gain from decoding them well. [`interleave`] is Maelstrom's layered interleaving: XORs
//! that protect a stream of packets. No input makes a codec panic or allocate beyond a stated bound:
//! what the caller allows for symbols, and beside that what follows from K (see `ObjectDecoder`).

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod binary;
mod error;
pub mod interleave;
pub mod lt;
pub mod raptorq;

pub use error::Error;
pub use wellspring_kernels as kernels;

/// The example of the README is compiled and run with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
