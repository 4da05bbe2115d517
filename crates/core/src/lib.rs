//! Types that all crates of Wellspring share: [`Time`] and [`Rate`], seeded random streams, the
//! [`Frame`] that simulated and real networks carry, and the [`Endpoint`] contract.
//!
//! An endpoint sees *identities* (which symbol of which block), never payload bytes; the bytes
//! live in a payload store that its driver keeps. So one compiled state machine runs in the
//! simulator and over real sockets.
//!
//! This crate is `no_std`, has no clock, no socket and no thread: time is an argument.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod endpoint;
mod frame;
mod priority;
mod rate;
mod rng;
mod time;
mod timer_queue;

pub use endpoint::{DropReason, Endpoint, Identity, Verdict, Work, WorkDone};
pub use frame::{Class, Destination, Ecn, Frame, GroupId, Header, HostId, SessionId};
pub use priority::{NoSuchPriority, Priority};
pub use rate::Rate;
pub use rng::{RandomStream, Seed};
pub use time::{Duration, Time};
pub use timer_queue::TimerQueue;
