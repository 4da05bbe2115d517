//! Tests of scenarios from outside of the crate.

mod book;
mod bounds;
mod coexist;
mod dissector;
mod graphs;
mod groups;
mod htsim;
mod impairments;
#[cfg(feature = "long-link")]
mod long_link;
#[cfg(feature = "long-link")]
mod long_link_scenarios;
mod lttp;
mod many_paths;
mod runs;
mod senders;
mod smoke;
mod tcp;
