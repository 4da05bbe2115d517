//! `wellspring-lab sim`: simulated networks.

mod bench;
mod merge;
mod runs_bar;
mod scenarios;

use clap::{Args, Subcommand};
use wellspring_console::exit::Failed;

pub use runs_bar::RunsBar;

/// Simulate networks packet by packet, with the state machines that also run over UDP.
#[derive(Args, Clone, Debug)]
pub struct SimArgs {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum SimCommand {
    Run(scenarios::RunArgs),
    List(scenarios::ListArgs),
    Show(scenarios::ShowArgs),
    Merge(merge::MergeArgs),
    Bench(bench::BenchArgs),
}

/// Carries the command out. Progress is shown unless `quiet`; the state of stuck requests is
/// printed in full if `verbose`.
///
/// # Errors
/// A file, a scenario or a run is at fault.
pub fn run(args: &SimArgs, quiet: bool, verbose: bool) -> Result<(), Failed> {
    match &args.command {
        SimCommand::Run(args) => scenarios::run(args, quiet, verbose),
        SimCommand::List(args) => scenarios::list(args),
        SimCommand::Show(args) => scenarios::show(args),
        SimCommand::Merge(args) => merge::run(args),
        SimCommand::Bench(args) => bench::run(args),
    }
}
