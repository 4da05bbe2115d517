//! A packet-level discrete-event simulator of networks.
//!
//! Hosts run any [`Endpoint`](wellspring_core::Endpoint), the very state machines that run over
//! real sockets; switches are [`Port`](wellspring_fabric::Port)s; links have a rate and a delay.
//! This crate knows no protocol and no payload: the work and events of endpoints go to an
//! [`Application`].
//!
//! ```text
//! endpoint --NIC--> link --> switch port --> link --> ... --> endpoint
//! ```
//!
//! # How it is fast
//! One event a packet and hop. A link has one pending event, for the packet that arrives next. A
//! port has none: a packet leaves a queue when the link falls free, but nobody can see that
//! before the next packet comes to the queue, or before the packet ahead reaches the other end;
//! so departures are worked out then, in arrears. A host has one timer, ignored if stale. Queues
//! and links hold 24 bytes a packet, all in one pool; frames lie still from end to end.
//!
//! # Determinism
//! Same network, endpoints, application and seed: same events in the same order and the same
//! [`Counters::digest`], on every machine. Events of one instant go in the order in which they
//! were scheduled, or in a random one ([`Config::shuffle_ties`]): a result that moves with that
//! is not a result.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod application;
mod config;
mod counters;
mod event_list;
mod faults;
mod network;
mod parcel;
pub mod pcapng;
mod routing;
mod simulator;
pub mod topology;
pub mod units;

pub use application::{Actions, Application};
pub use config::{Config, LossRule, Multicast};
pub use counters::{Counters, Imbalance, PortCounters};
pub use faults::Fault;
pub use parcel::WireModel;
pub use simulator::{OnLink, Simulator, Status, TapPoint};
