//! Tests of the codes from outside of the crate.

mod blocks;
mod interop;
mod lt;
