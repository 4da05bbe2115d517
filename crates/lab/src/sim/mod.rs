//! `wellspring-lab sim`: simulated networks.

mod bench;
mod runs_bar;
mod scenarios;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use wellspring_console::exit::Failed;

pub use runs_bar::RunsBar;

use crate::report::seed;

/// Simulate networks packet by packet, with the very state machines that run over UDP.
#[derive(Args, Clone, Debug)]
pub struct SimArgs {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum SimCommand {
    Run(RunArgs),
    List(ListArgs),
    Show(ShowArgs),
    Bench(BenchArgs),
}

/// Run a scenario over its seeds and print one row a run.
///
/// Combinations and seeds run in parallel. With `--output`, results are kept as CSV, and runs that
/// are there already, with every file asked for, are not run again: an interrupted sweep goes on
/// where it was. With `--set run.sample=100us`, queues and rates are looked at that often and
/// written there too. The exit status is 1 if a request failed or did not finish.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  wellspring-lab sim run scdp-12a --set workload.senders=70 --seeds 1,2"
)]
struct RunArgs {
    /// A scenario file, or the name of one that comes with Wellspring.
    scenario: String,
    /// Set a key of the scenario: `workload.sessions=100`, `topology.delay=1us`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seeds, instead of the scenario's.
    #[arg(long, value_delimiter = ',', value_parser = seed())]
    seeds: Vec<u64>,
    /// Threads; all cores if not given, and never more than runs.
    #[arg(long, short = 'j')]
    threads: Option<usize>,
    /// A folder for runs.csv.
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Also write every flow, compressed, into that folder.
    #[arg(long, requires = "output")]
    flows: bool,
    /// Write the packets that one host sends and receives to a file that Wireshark opens.
    #[arg(long, value_name = "FILE.pcapng")]
    capture: Option<PathBuf>,
    /// That host.
    #[arg(long, value_name = "HOST", default_value_t = 0)]
    capture_host: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// List the scenarios that come with Wellspring.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring-lab sim list")]
struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Print a scenario file that comes with Wellspring.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring-lab sim show scdp-5 > mine.toml")]
struct ShowArgs {
    /// Its name.
    scenario: String,
}

/// Time fixed scenarios.
///
/// Answers are checked before times count: every request completes, and repeated runs agree.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring-lab sim bench ndp-perm-128 scdp-perm-250")]
struct BenchArgs {
    /// Benchmarks; all but the largest if none is given.
    names: Vec<String>,
    /// Repeats; the best counts.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Carries the command out. Progress is shown unless `quiet`; what is known of stuck requests is
/// told at length if `verbose`.
///
/// # Errors
/// A file, a scenario or a run is at fault.
pub fn run(args: &SimArgs, quiet: bool, verbose: bool) -> Result<(), Failed> {
    match &args.command {
        SimCommand::Run(args) => scenarios::run(args, quiet, verbose),
        SimCommand::List(args) => scenarios::list(args),
        SimCommand::Show(args) => scenarios::show(args),
        SimCommand::Bench(args) => bench::run(args),
    }
}
