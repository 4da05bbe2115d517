//! The `wellspring-lab` command: simulations, figures and measurements.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod bench;
mod fec;
#[cfg(feature = "quic")]
mod quic;
mod report;
mod reproduce;
mod sim;
mod test_network;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tokio::runtime::Runtime;
use wellspring_console::children;
use wellspring_console::command::{self, Verbosity};
use wellspring_console::exit::{Failed, INTERRUPTED};
use wellspring_console::interrupt::{unless_signal, with_children};
use wellspring_console::manual::ManualCommand;

const AFTER_HELP: &str = "\
Exit status:
    0  done
    1  failed (disk, network, system error; a request of a simulation did not complete)
    2  the command line is wrong
  130  interrupted (Ctrl-C)

bench and reproduce run the command `wellspring` from the folder of this program, or from WELLSPRING=PATH.";

/// Simulations, the papers' figures, and measurements beside other programs.
#[derive(Parser)]
#[command(name = "wellspring-lab", version, after_help = AFTER_HELP, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(Subcommand)]
enum Command {
    Sim(sim::SimArgs),
    Reproduce(reproduce::ReproduceArgs),
    Bench(bench::BenchArgs),
    Fec(fec::FecArgs),
    Lab(test_network::LabArgs),
    #[cfg(feature = "quic")]
    Quic(quic::QuicArgs),
    #[command(flatten)]
    Manual(ManualCommand),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    command::start("wellspring-lab", cli.verbosity, |runtime| run(cli, runtime))
}

fn run(cli: Cli, runtime: Runtime) -> Result<(), Failed> {
    let Verbosity { quiet, verbose, .. } = cli.verbosity;
    let result = match cli.command {
        Command::Manual(manual) => manual.run(Cli::command()),
        Command::Lab(args) => runtime.block_on(test_network::run(&args)),
        #[cfg(feature = "quic")]
        Command::Quic(args) => quic::run(args, &runtime),
        Command::Bench(args) => runtime.block_on(with_children(move || bench::run(&args, quiet))),
        Command::Fec(args) => {
            let work = move || fec::run(&args, quiet);
            runtime.block_on(unless_signal(work, Failed::interrupted))
        }
        Command::Sim(args) => {
            let work = move || sim::run(&args, quiet, verbose > 0);
            runtime.block_on(unless_signal(work, clean_up))
        }
        Command::Reproduce(args) => {
            let work = move || reproduce::run(&args, quiet);
            runtime.block_on(unless_signal(work, clean_up))
        }
    };
    // A simulation or a measurement that was interrupted cannot do harm any more.
    runtime.shutdown_background();
    result
}

/// Asks programs that set up namespaces to clean up, waits for them, and removes files that a
/// simulation has begun. The simulation itself is not waited for.
fn clean_up() -> Failed {
    wellspring_store::atomic_file::discard_unfinished();
    children::end_all();
    Failed::new(
        INTERRUPTED,
        "interrupted; rows of runs that had ended are kept where --output says",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
