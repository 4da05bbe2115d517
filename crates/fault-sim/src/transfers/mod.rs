//! Simulation of transfers: client and servers on virtual machines, disks and network.

mod client;
mod faults;
mod keys;
mod machine;
mod network;
mod panics;
mod plan;
mod run;
mod server;
mod site;
mod world;

pub use network::Datagrams;
pub use plan::TransferOptions;
pub use run::run_transfers;
pub use world::{TransferCounters, TransferRun};
