//! Erasure codecs of Wellspring: bytes in and bytes out, no packets, clocks or sockets.
//!
//! [`raptorq`] is RFC 6330. Source symbols are received in place, memory is the caller's or kept
//! from block to block, and no input makes a codec panic or allocate beyond a stated bound.

#![forbid(unsafe_code)]

mod error;
pub mod raptorq;

pub use error::Error;
pub use wellspring_kernels as kernels;
