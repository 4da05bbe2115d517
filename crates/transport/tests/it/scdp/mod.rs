//! SCDP endpoints against each other on a virtual network.

mod coexistence;
mod delay;
mod hostile;
mod lab;
mod long_groups;
mod long_puts;
mod many_to_one;
mod one_to_many;
mod paths;
mod priorities;
mod short_queue;
mod unicast;
mod verified;
