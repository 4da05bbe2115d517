//! Tests of the endpoints on virtual networks.

mod coexistence;
mod lttp;
mod lttp_overlap;
mod ndp;
mod scdp;
mod tcp;
