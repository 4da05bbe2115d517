//! The objects that a host serves and takes: files below one directory. Knows no protocol.
//!
//! Whatever a stranger names, nothing outside the directory is opened and nothing inside it is
//! overwritten without leave: names are checked component by component ([`ObjectName`]), opened
//! without following a symbolic link anywhere below the root, and only regular files are objects.
//! A received object is a hidden part file until its digest is verified and it is synced; then
//! it takes its name in one step.
//!
//! [`atomic_file`] writes whole files in the same way and builds on every system. The rest is for Unix
//! and behind the feature `objects`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod atomic_file;
mod existing;
#[cfg(feature = "objects")]
mod objects;
#[cfg(feature = "objects")]
pub mod tree;

pub use existing::Existing;
#[cfg(feature = "objects")]
pub use objects::*;
