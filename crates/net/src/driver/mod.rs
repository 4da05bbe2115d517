//! The driver: one thread that runs the endpoints of a host over UDP sockets.
//!
//! # Parts
//! The event loop (`event_loop`) owns the sockets and gives each protocol its turns. A
//! runner (`runner`) owns one protocol's endpoint and sessions; what a protocol brings is written in
//! `protocol`. They share the table of peers, the stores of payload, the way out to the network
//! and the workers. *Workers* read blocks, decode and write: the loop never waits for a disk or a
//! decoder. *Handles* send the loop calls from any thread; events come back by callbacks that
//! put them into a channel of the caller's choice.
//!
//! # Back-pressure
//! A received block counts as open at the endpoint until a worker has written it, and the endpoint
//! keeps a bounded number of blocks open in each session ([`Limits::open_blocks`]): when disks or
//! decoders fall behind, it stops granting credits for new blocks and senders fall silent. Memory
//! over all sessions is bounded by [`DriverConfig::receive_memory`]: a symbol of a block that
//! would pass it is dropped before the endpoint sees it, which is a loss like any other.
//!
//! [`Limits::open_blocks`]: wellspring_transport::scdp::Limits::open_blocks

mod clock;
mod codecs;
pub(crate) mod coding;
mod config;
mod culprit;
mod event;
mod event_loop;
mod faults;
pub(crate) mod geometry;
mod groups;
mod guard;
mod handle;
mod key;
mod network;
mod outbox;
mod pace;
pub(crate) mod peers;
mod ports;
mod progress;
pub(crate) mod protocol;
mod protocol_handle;
mod receive_store;
mod run;
mod runner;
#[cfg(not(any(test, feature = "fuzzing")))]
mod send_store;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod send_store;
mod sessions;
mod shared;
mod start_error;
mod statistics;
mod strangers;
mod taps;
mod wait;
mod worker;

#[cfg(feature = "simulation")]
mod as_tasks;

pub use config::{DriverConfig, DscpMap, Faults, TrimTaps};
pub use event::{
    ControlMessage, ControlSink, EventSink, Failure, KeyTrouble, PeerChannel, Refusal, SessionEvent,
};
pub(crate) use handle::{Call, GroupKeyCall, GroupKeyChange};
pub use handle::{HandleError, MAX_CONTROL_LEN, OutgoingControl};
pub(crate) use ports::FirstPorts;
pub use progress::SessionProgress;
pub(crate) use protocol_handle::ProtocolHandle;
pub(crate) use run::{Builder, RunningDriver};
pub(crate) use shared::Shared;
pub use start_error::StartError;
pub use statistics::{Injected, ReceivePath, Received, Sent, Statistics};
