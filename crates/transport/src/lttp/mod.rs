//! LTTP (*LTTP: an LT-code based transport protocol for many-to-one communication in data
//! centers*, 2014): a client asks servers for blocks, each server streams encoding symbols at
//! TFRC's rate until it receives a stop.
//!
//! # How it works
//! - *Control channel* (§III-B): the client's [`LttpHeader::Request`], the server's
//!   [`LttpHeader::Parameters`], the client's [`LttpHeader::Stop`]. The paper has a TCP connection
//!   for these messages of one packet each; here each is answered and repeated until it is, after
//!   a time that is TCP's least retransmission timeout at first and doubles.
//! - *Data channel* (§III-C, §III-D): symbols 0, 1, 2, ... of one block after another, at the rate
//!   of [`tfrc`](crate::tfrc), in datagrams that are not retransmitted. Past the paper, the client may have one of
//!   SCDP's [controllers](crate::congestion) choose the rate ([`Config::congestion`]).
//! - The client counts the distinct symbols of the block under way. From the k-th on it asks for
//!   the block to be finished ([`Work`](wellspring_core::Work)); a decoder that needs more says so
//!   and is asked again with every further symbol (algorithm 2).
//! - A finished block is stopped, and the server goes on with the next one. What arrives of a
//!   block that is finished is counted as redundant: the price of stopping a stream from afar.
//!   [`Config::overlap`] goes past the paper and saves most of it: the server begins with the next
//!   block while it waits for the stop, and the client takes in symbols of both.
//!
//! # What is never lost
//! Every session ends under any loss, duplication and reordering: symbols do not end, requests and
//! stops are repeated, a server that has forgotten a session still confirms a stop, and both sides
//! give up on a peer that is silent for [`Config::peer_timeout`] (§III-A has such a timer at the
//! sender). A host sends only what its application offered, to the hosts it was offered to.

mod chosen_rate;
mod client;
mod command;
mod config;
mod endpoint;
mod event;
mod header;
mod order;
mod server;

pub use crate::transfer::FailReason;
pub use client::ReceiveStats;
pub use command::{Command, CommandError};
pub use config::Config;
pub use endpoint::Endpoint;
pub use event::Event;
pub use header::{LttpHeader, Parameters};
pub use server::SendStats;
