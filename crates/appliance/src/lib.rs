//! Maelstrom on Linux: a transparent appliance that hides packet loss.
//!
//! The kernel forwards the packets; the [`Appliance`] watches them pass the long link's interface
//! through a packet socket's ring, sends repairs beside them, and hands recovered packets to the
//! local network. So a stopped or killed appliance leaves the traffic flowing, only unprotected.
//! What must be so for that to work, and what offloads must be off, is checked or set at the start
//! ([`SetupError`]).
//!
//! The protocol is `wellspring-maelstrom`; this crate knows interfaces and sockets. [`link_emulator`]
//! is a long lossy link to try it on. [`switch`] is the switch that is simulated, run on real frames.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod addresses;
mod aggregation;
mod appliance;
mod bundle_peer;
mod cache_service;
mod capture;
mod clamp;
mod clock;
mod commands;
mod control;
mod engine;
mod failover;
mod failover_peers;
mod filter;
mod inject;
mod interface;
pub mod link_emulator;
mod metrics;
mod notify;
mod offload;
mod partition;
mod setup;
mod split;
mod status;
pub mod switch;
mod sys;
mod tun;

pub use addresses::parse_prefix;
pub use aggregation::AggregationStatus;
pub use appliance::Appliance;
pub use control::{Controls, ask, has_ended, running};
pub use failover::FailoverStatus;
pub use failover_peers::{FailoverError, FailoverPeers};
pub use ipnet::IpNet;
pub use metrics::to_prometheus;
pub use setup::{
    AggregateConfig, CacheConfig, Config, DEFAULT_PORT, SetupError, SplitConfig, read_key,
};
pub use split::SplitCounters;
pub use status::{LATE_BUCKETS_MS, Status, to_json};
