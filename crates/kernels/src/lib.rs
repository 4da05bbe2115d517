//! XOR and GF(256) arithmetic over byte slices: the arithmetic under Wellspring's erasure codes.
//!
//! The field is that of RFC 6330 §5.7. Every kernel exists for scalar words, SSSE3, AVX2, AVX2
//! with GFNI, AVX-512 with GFNI, and NEON; [`Kernels`] is the proof that the CPU has the chosen one, taken once and
//! copied around freely.
//!
//! ```
//! use wellspring_kernels::{Kernels, gf256};
//!
//! let kernels = Kernels::detect();
//! let mut sum = [1, 2, 3];
//! kernels.mul_add(&mut sum, &[10, 20, 30], 7);
//! assert_eq!(sum, [1 ^ gf256::mul(7, 10), 2 ^ gf256::mul(7, 20), 3 ^ gf256::mul(7, 30)]);
//! ```
//!
//! [`UniversalHash`] is the hash under Maelstrom's packet names.
//!
//! [`Program`] records the symbol operations of an encoding or decoding and runs them over the
//! caller's buffers a strip of columns at a time.
//!
//! All `unsafe` of the codecs is here: one small file an instruction set ([`Isa`]), the kernels
//! written once over a vector trait, and the row table that turns borrowed buffers into pointers.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod clnh;
mod fold;
mod generic;
pub mod gf256;
#[cfg(target_arch = "x86_64")]
mod gfni;
mod instruction;
mod kernels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod prefetch;
mod program;
mod rows;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod ssse3;
mod strip;
mod vector;

pub use clnh::UniversalHash;
pub use fold::FoldColumns;
pub use instruction::{Operand, TABLE_ROWS};
pub use kernels::{Isa, KERNEL_VARIABLE, KernelError, Kernels};
pub use prefetch::prefetch;
pub use program::{Program, STRIPS, XorBuilder};
pub use rows::{AlignedBuffer, RowStorage, RowTable};
pub use strip::Workspace;

/// The example of the README is compiled and run with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
