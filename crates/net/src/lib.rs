//! The real transport: SCDP endpoints on UDP sockets, objects, replicas and groups.
#![deny(unsafe_code)]

pub mod driver;
pub mod payload;
mod random;
pub mod socket;
pub mod store;
