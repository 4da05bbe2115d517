//! Test tools for Wellspring's endpoints: a checker of their contract, and a network in virtual
//! time with loss, trimming, reordering, duplication, delay, dead and slow hosts. [`wait`] and [`loopback`] serve tests
//! of real processes and sockets, [`reach`] those of which `lab/trust` prints a table.
//!
//! A development tool: it may panic, and does so on every breach it sees.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod checked;
mod dumbbell;
mod host_config;
pub mod loopback;
mod network;
mod objects;
mod payloads;
pub mod reach;
pub mod wait;

/// The Rust examples of README and of the book are compiled and run with the doctests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/src/raptorq.md")]
    struct RaptorQ;
}

pub use checked::Checked;
pub use dumbbell::{Bottleneck, Dumbbell, Pair};
pub use host_config::{Faults, HostConfig};
pub use network::{Network, Stop};
pub use objects::random_bytes;
pub use payloads::Payloads;
