//! Transport protocols as sans-I/O state machines.
//!
//! Each protocol is an [`Endpoint`](wellspring_core::Endpoint): one host, all its sessions. None
//! knows bytes, sockets, clocks or codecs; the same code runs in the simulator and over UDP.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod congestion;
mod levels;
pub mod lttp;
pub mod ndp;
mod priority;
mod pull_queue;
mod rtt;
pub mod scdp;
mod slots;
pub mod tcp;
pub mod tfrc;
mod transfer;

pub use priority::Priority;
pub use pull_queue::PullQueue;
pub use rtt::RttEstimator;
pub use transfer::{Command, Event as TransferEvent, FailReason, SendTransfer};
