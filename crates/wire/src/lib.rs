//! Header values of the Wellspring protocols and their byte layout.
//!
//! Bytes are parsed once, into types that cannot hold nonsense; state machines only ever see the
//! values. Parsing never panics and never allocates more than the datagram holds; what does not
//! parse is a counted [`ParseError`], not an error of the program.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bytes;
pub mod control;
mod error;
pub mod lttp;
pub mod ndp;
pub mod scdp;
pub mod sealed;

pub use error::ParseError;
