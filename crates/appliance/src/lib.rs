//! Maelstrom on Linux: the transparent box that hides packet loss.
//!
//! The kernel forwards the packets; the [`Appliance`] watches them pass the long link's interface
//! through a packet socket's ring, sends repairs beside them, and hands recovered packets to the
//! local network. So a stopped or killed appliance leaves the traffic flowing, only unprotected.
//! What must be so for that to work, and what offloads must be off, is checked or set at the start
//! ([`SetupError`]).
//!
//! The protocol is `wellspring-maelstrom`; this crate knows interfaces and sockets. [`link`] is a
//! long lossy link to try it on. [`switch`] is the switch that is simulated, run on real frames.
#![deny(unsafe_code)]

mod appliance;
mod capture;
mod carrier;
mod control;
mod detour;
mod engine;
mod filter;
mod glue;
mod inject;
mod interface;
pub mod link;
mod metrics;
mod offload;
mod partition;
mod prefix;
mod recall;
mod setup;
mod site;
mod split;
mod status;
pub mod switch;
mod system;

pub use appliance::Appliance;
pub use carrier::CarrierStatus;
pub use control::{Controls, ask};
pub use metrics::to_prometheus;
pub use prefix::Prefix;
pub use setup::{
    AggregateConfig, CacheConfig, Config, DEFAULT_PORT, MateConfig, SetupError, SplitConfig,
    read_key,
};
pub use split::SplitCounters;
pub use status::{LATE_BUCKETS_MS, Status, to_json};
