//! For tests of Wellspring's endpoints: a checker of their contract, and a network in virtual
//! time with loss, trimming, reordering, duplication, delay, dead and slow hosts.
//!
//! A development tool: it may panic, and does so on every breach it sees.
#![forbid(unsafe_code)]

mod checked;
mod network;

pub use checked::Checked;
pub use network::{Faults, HostConfig, Network, Payloads, Stop};
