//! `wellspring sim` and `wellspring reproduce`: simulated networks, and the papers' figures on them.

mod bench;
mod long_link;
mod reproduce;
mod scenarios;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::exit::{Failed, USAGE};
use crate::output::Stdout;

pub use reproduce::{ReproduceArgs, run as run_reproduce};

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
    after_help = "Example:\n  wellspring sim run scdp-12a --set workload.senders=70 --seeds 1,2"
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
#[command(after_help = "Example:\n  wellspring sim list")]
struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Print a scenario file that comes with Wellspring.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring sim show scdp-5 > mine.toml")]
struct ShowArgs {
    /// Its name.
    scenario: String,
}

/// Time fixed scenarios.
///
/// Answers are checked before times count: every request completes, and repeated runs agree.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring sim bench ndp-perm-128 scdp-perm-250")]
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

/// Scenarios are TOML, whose numbers end there.
fn seed() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(..=i64::MAX as u64)
}

/// The command line asks for what there is not.
fn usage(error: anyhow::Error) -> Failed {
    Failed::new(USAGE, format!("{error:#}"))
}

fn print_json(what: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(what).context("JSON")?;
    Ok(writeln!(Stdout, "{text}")?)
}

/// Prints columns, numbers to the right.
fn print_table(rows: &[Vec<String>]) -> Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| {
            let number = cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
            if number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        writeln!(Stdout, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
