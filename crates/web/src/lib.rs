//! The simulator in a web page: several protocols side by side on one network and one seed.
//!
//! A [`setup::Setup`] is what the visitor has set, written as the fragment of a link. A
//! [`stage::Stage`] runs it: for each protocol a run that is played and looked at, and the same
//! run measured to its end. [`exports`] is the module's interface to JavaScript; everything else
//! runs, and is tested, on any machine.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod exports;
mod measure;
mod preset;
mod report;
pub mod scenario;
pub mod setup;
pub mod stage;
