//! Experiments: a scenario file becomes runs over seeds, and runs become result tables.
//!
//! This is the only crate that joins the simulator and the protocols. A [`scenario::Scenario`]
//! names a network, a protocol and a workload; [`run::run`] runs it with one seed.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod adapter;
pub mod bench;
mod code_needs;
pub mod decode;
pub mod driver;
pub mod live;
#[cfg(feature = "long-link")]
pub mod long_link;
mod look;
pub mod merge;
pub mod observe;
mod outcome;
pub mod record;
pub mod results;
pub mod run;
pub mod stats;
mod store;
pub mod sweep;
mod table;
pub mod workload;

// Its types stand in signatures here.
pub use wellspring_scenario as scenario;
