//! The driver: one thread that runs the SCDP endpoint of a host over UDP sockets.
//!
//! # Parts
//! The *loop* owns the endpoint, the sockets, the table of peers and the payload stores. *Workers*
//! read blocks, decode and write: the loop never waits for a disk or a decoder. *Handles* send the
//! loop requests from any thread; events come back by callbacks that put them into a channel of
//! the caller's choice.
//!
//! # Back-pressure
//! A received block counts as open at the endpoint until a worker has written it, and the endpoint
//! keeps a bounded number of blocks open in each session ([`Limits::open_blocks`]): when disks or
//! decoders fall behind, it stops granting credits for new blocks and senders fall silent. Memory
//! over all sessions is bounded by [`DriverConfig::receive_memory`]: a symbol of a block that
//! would pass it is dropped before the endpoint sees it, which is a loss like any other.
//!
//! [`Limits::open_blocks`]: wellspring_transport::scdp::Limits::open_blocks

pub(crate) mod clock;
mod config;
mod engine;
mod event;
pub(crate) mod faults;
mod groups;
mod handle;
mod inbound;
mod outbound;
mod outbox;
mod peers;
mod progress;
mod receive_store;
mod requests;
mod run;
mod send_store;
mod sessions;
mod shared;
mod statistics;
mod strangers;
mod taps;
pub(crate) mod wait;
mod worker;

pub use config::{DriverConfig, DscpMap, Faults, TrimTaps};
pub use event::{ControlMessage, ControlSink, EventSink, Failure, SessionEvent};
pub use handle::{
    DriverHandle, HandleError, MAX_CONTROL_LEN, OutgoingControl, ReceiveObject, Recipients,
    SendObject,
};
pub use progress::SessionProgress;
pub use run::Driver;
pub use statistics::{Injected, ReceivePath, Received, Sent, Statistics};

use shared::Shared;
