//! Tests of the crate from outside: real sockets on loopback.

mod common;
mod conformance;
mod gone_hosts;
mod group_keys;
mod hostile;
mod keys;
mod link_down;
mod lttp;
mod lttp_hostile;
mod lttp_lost;
mod ndp;
mod paths;
mod process;
mod put_races;
mod put_resume;
mod relay;
mod resume;
mod served;
mod server_requests;
mod settings;
mod soak;
mod socket;
mod transfers;
mod trees;
mod trims;
mod verified;
