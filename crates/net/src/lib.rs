//! Shared parts of clients and servers: names of hosts, key files, manifests, requests and their answers.
//!
//! Below lies the [`driver`], a crate of its own, which runs the [`protocols`] over one socket for
//! whoever brings the bytes. Above are the crates `wellspring-client` and `wellspring-server`, neither of which knows the
//! other. For people who write a program these two are the interface; the modules here are theirs.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod address;
pub mod addresses;
pub mod clock;
pub mod disk;
mod host_error;
mod key_files;
pub mod manifest;
mod narrow_paths;
pub mod pages;
pub mod requester;
pub mod resume;
pub mod store_messages;
pub mod timeouts;

pub use wellspring_driver as driver;
pub use wellspring_store as store;
// Their types stand in signatures here.
pub use {wellspring_core, wellspring_transport, wellspring_trust, wellspring_wire};

#[cfg(feature = "simulation")]
pub use wellspring_driver::simulation;
pub use wellspring_driver::{ConfigError, canonical, protocols, random, socket, task};

pub use address::{DEFAULT_PORT, Host, NotAHost, without_missing_ipv6};
pub use host_error::{HostError, HostTrouble, NO_ANSWER};
pub use key_files::{KeyDirectory, KeyFileError};
pub use narrow_paths::NarrowPaths;
