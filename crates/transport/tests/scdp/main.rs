//! SCDP endpoints against each other on a virtual network.

mod delay;
mod hostile;
mod lab;
mod many_to_one;
mod neighbours;
mod one_to_many;
#[path = "../support/neighbours.rs"]
mod support;
mod unicast;
