//! Deterministic simulation of the object store on a disk that fails, and of clients and servers on a network that does.
//!
//! The store's own code receives objects into a directory, in several processes and many sessions at once. Its calls
//! go through a virtual disk, which interrupts them, lets them fail, kills processes at any of them, and at a power cut
//! leaves no more than what was synced and a random part of the rest. All is chosen by one seed and runs in one
//! thread, so a seed that finds a breach finds it again.
//!
//! A run claims that no wrong byte is ever under an object's name; that an object which was said to be complete is
//! there afterwards, also after a power cut; that part files are taken up or cleaned away; that nothing outside of the
//! store's directory is touched; and that once faults are over every object can be put.
//!
//! `run_transfers`, behind the feature `transfers`, runs the client and the servers of `wellspring-client` and `wellspring-server` on such disks and on a virtual network, which
//! delays, loses, repeats and damages datagrams. It claims besides that what a client is told is true, that every
//! transfer ends in time, and that every transfer is done once faults are over. In one run of eight the machines have keys.
//!
//! A development tool: it may panic.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "transfers"),
    allow(dead_code, reason = "transfers use parts that the simulation of the store does not")
)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod account;
mod file_image;
mod ledger;
mod objects;
mod process;
mod session;
mod simulation;
#[cfg(feature = "transfers")]
mod transfers;
mod virtual_disk;

pub use account::Counters;
pub use simulation::{Run, run};
#[cfg(feature = "transfers")]
pub use transfers::{Datagrams, TransferCounters, TransferOptions, TransferRun, run_transfers};
