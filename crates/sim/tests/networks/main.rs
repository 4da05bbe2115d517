//! Whole networks under a protocol without rules.

mod behaviour;
mod closed_forms;
mod multihomed;
mod toy;
