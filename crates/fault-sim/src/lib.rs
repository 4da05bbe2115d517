//! Deterministic simulation of the object store on a disk that fails.
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
//! A development tool: it may panic.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod account;
mod file_image;
mod ledger;
mod objects;
mod process;
mod session;
mod simulation;
mod virtual_disk;

pub use account::Counters;
pub use simulation::{Run, run};
