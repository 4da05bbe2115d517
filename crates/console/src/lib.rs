//! The parts that the commands `wellspring` and `wellspring-lab` share: errors with their exit
//! statuses, output streams, units, progress bars, signals, logs, child processes, completions and man pages.
//!
//! It knows no transfer, no codec and no simulator. What a command reports stands with the command.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod bar;
pub mod children;
pub mod command;
pub mod exit;
pub mod interrupt;
pub mod manual;
pub mod output;
pub mod random_file;
pub mod units;
pub mod usage;
pub mod wellspring;
