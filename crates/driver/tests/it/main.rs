//! Tests of the crate from outside: real sockets on loopback.

mod common;
mod conformance;
mod fairness;
mod hostile;
#[cfg(target_os = "linux")]
mod loops;
mod memory;
mod priorities;
mod socket;
mod transfers;
mod trims;
