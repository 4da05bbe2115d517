//! `wellspring-lab fec`: measurements of the codes.

mod bench;
mod failure_law;
mod isal;
mod lt;
mod peers;

use clap::{Args, Subcommand};
use wellspring_console::exit::Failed;

/// Measure the codes: RaptorQ beside other codecs, failure probability, and overhead of LT codes.
#[derive(Args, Clone, Debug)]
pub struct FecArgs {
    #[command(subcommand)]
    command: FecCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum FecCommand {
    Bench(bench::BenchArgs),
    FailureLaw(failure_law::FailureLawArgs),
    Lt(lt::LtArgs),
}

/// Runs the command; `quiet` hides progress.
pub fn run(args: &FecArgs, quiet: bool) -> Result<(), Failed> {
    match &args.command {
        FecCommand::Bench(args) => bench::run(args, quiet),
        FecCommand::FailureLaw(args) => failure_law::run(args, quiet),
        FecCommand::Lt(args) => lt::run(args, quiet),
    }
}
