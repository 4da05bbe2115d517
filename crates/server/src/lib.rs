//! A server of files: sends the objects of a directory to whoever asks, and takes objects if allowed.
//!
//! [`Server`] answers clients of all protocols by one port. What it shares with clients lies in the crate
//! [`wellspring_net`], and below that the [`driver`], which runs the [`protocols`] over one socket.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod address_limit;
mod answer;
mod checking;
mod config;
mod cookie;
mod counters;
mod digests;
mod event;
mod event_limit;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod give_way;
mod groups;
mod handler;
#[cfg(test)]
mod limit_tests;
mod listed;
mod manifests;
#[cfg(any(test, feature = "fuzzing"))]
mod model;
mod operation;
mod pace;
mod page_turns;
mod parts;
mod paths;
mod probes;
mod put_check;
mod put_groups;
mod put_pages;
mod put_requests;
mod put_space;
mod puts;
mod quotas;
mod recent_clients;
mod requests;
mod running;
mod samples;
mod send_requests;
mod sends;
mod server;
mod settings;
mod shelf;
mod taken_tree;
mod taking;
mod tree_puts;
mod tree_requests;
mod tree_swaps;
mod tree_walks;
mod trees;
mod turns;

#[cfg(feature = "simulation")]
pub use wellspring_net::simulation;
pub use wellspring_net::{ConfigError, driver, protocols, socket, store};
use wellspring_net::{
    clock, disk, manifest, pages, random, requester, resume, store_messages, task,
};
// Their types stand in signatures here.
pub use wellspring_net;
pub use wellspring_net::{
    wellspring_core, wellspring_transport, wellspring_trust, wellspring_wire,
};

pub use config::{LONGEST_WAIT, LttpLimits, MAX_PATHS, ServerConfig};
pub use counters::{ReceivedObjects, RequestsDropped, ServerCounters, Transfers};
pub use event::ServerEvent;
pub use groups::{BadRange, GroupRange};
pub use quotas::QuotaRefusals;
pub use running::{Direction, Protocol, RunningTransfer, TransferState};
pub use server::{BindError, Server};
pub use settings::{Permissions, ReloadError, Settings};
