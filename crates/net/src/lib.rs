//! The real transport: SCDP endpoints on UDP sockets, objects, replicas and groups.

pub mod payload;
