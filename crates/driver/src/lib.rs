//! The driver: a thread, or several, that runs the endpoints of a host over UDP sockets.
//!
//! It knows sessions, and no files, requests or servers: who uses it brings the bytes to send, as an
//! [`ObjectSource`](store::ObjectSource), and takes those that arrive, as an
//! [`ObjectSink`](store::ObjectSink).
//!
//! # Parts
//! The event loop (`event_loop`) owns the sockets and gives each protocol its turns. A
//! runner (`runner`) owns one protocol's endpoint and sessions; what a protocol brings is written in
//! `protocol`, and [`protocols`] are SCDP, LTTP and NDP. They share the stores of payload and the workers
//! (`payload`), and the table of peers and the way out (`network`), by [`socket`]s. *Workers* read blocks,
//! decode and write: the loop never waits for a disk or a decoder. *Handles* send the loop calls from any
//! thread; events come back by callbacks that put them into a channel of the caller's choice.
//!
//! With several loops ([`DriverConfig::loops`]) each has all of these, for the hosts whose addresses are its
//! ([`Steering`]): the kernel gives it their datagrams, and handles their calls. Loops know nothing of each other.
//!
//! # Back-pressure
//! A received block counts as open at the endpoint until a worker has written it, and the endpoint
//! keeps a bounded number of blocks open in each session ([`Limits::open_blocks`]): when disks or
//! decoders fall behind, it stops granting credits for new blocks and senders fall silent. Memory
//! over all sessions is bounded by [`DriverConfig::receive_memory`]: a symbol of a block that
//! would pass it is dropped before the endpoint sees it, which is a loss like any other.
//!
//! [`Limits::open_blocks`]: wellspring_transport::scdp::Limits::open_blocks
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod address;
#[cfg(feature = "simulation")]
mod as_tasks;
mod boxed;
pub mod clock;
mod config;
mod config_error;
mod each_loop;
mod event;
mod event_loop;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handle;
mod memory_limit;
mod network;
mod payload;
mod progress;
mod protocol;
mod protocol_handle;
pub mod protocols;
pub mod random;
mod run;
mod runner;
mod setters;
mod shared;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod socket;
mod start_error;
mod statistics;
mod steering;
pub mod task;
mod wait;

pub use wellspring_store as store;
// Their types stand in signatures here.
pub use {
    wellspring_codec, wellspring_core, wellspring_transport, wellspring_trust, wellspring_wire,
};

pub use address::canonical;
pub use config::{DriverConfig, DscpMap, Faults, MAX_PORTS, TrimTaps};
pub use config_error::ConfigError;
pub(crate) use each_loop::EachLoop;
pub use event::{
    ControlMessage, ControlSink, EventSink, Failure, KeyTrouble, PeerChannel, Refusal, SessionEvent,
};
pub(crate) use handle::{Call, GroupKeyCall};
pub use handle::{GroupKeyChange, HandleError, MAX_CONTROL_LEN, OutgoingControl};
pub use progress::SessionProgress;
pub(crate) use protocol_handle::ProtocolHandle;
pub(crate) use run::{Builder, RunningDriver};
pub(crate) use shared::Shared;
pub use start_error::StartError;
pub use statistics::{Injected, ReceivePath, Received, Sent, Statistics};
pub(crate) use steering::Place;
pub use steering::{MAX_LOOPS, Steering};
