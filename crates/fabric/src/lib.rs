//! The switch service model as data structures: what a port does with packets it cannot send at
//! once, which of several equal paths a packet takes, and how a multicast packet is copied.
//!
//! Everything is generic over the packet through the small [`Packet`] trait, so the switch that
//! is simulated is the switch that is run on real frames. A port knows no time and no rate:
//! its driver offers packets and asks for the next one when the link is free.
//!
//! | switch | made by |
//! |---|---|
//! | drop-tail FIFO, with or without ECN marks | [`PortConfig::drop_tail`] |
//! | NDP and Polyraptor: header/pull queue and one trimmed data queue | [`PortConfig::trimming`] |
//! | SCDP and NDP+: the same with MLFQ data classes | [`PortConfig::trimming_classes`] |
//! | PIAS: strict-priority classes, dropped at the tail, marked | [`PortConfig::priorities`] |
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod config;
mod multicast;
mod packet;
mod path;
mod pool;
mod port;

pub use config::{ControlQueue, Limit, Overflow, PortConfig, Sharing, Victim};
pub use multicast::Replication;
pub use packet::Packet;
pub use path::{FlowKey, Spraying};
pub use pool::{Fifo, Handle, Pool};
pub use port::{Admission, Port};
