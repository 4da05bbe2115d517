//! The `wellspring` command.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod clean;
mod demo;
mod exit;
mod fec;
mod get;
mod key;
mod keys;
mod ls;
mod maelstrom;
mod progress;
mod put;
mod serve;
mod switch;
mod transfer;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use tokio::runtime::Runtime;
use wellspring_console::command::{self, Verbosity};
use wellspring_console::exit::{Failed, USAGE};
use wellspring_console::interrupt::{unless_signal, with_children};
use wellspring_console::manual::ManualCommand;

const EXIT_CODES: &str = "\
Exit status:
    0  done
    1  failed (disk, network, an error of the system)
    2  the command line is wrong
    3  too few symbols to decode (fec decode)
    4  no host has the object, or none takes it
    5  the replicas hold different bytes; nothing was written
    6  every replica was lost on the way
    7  the bytes received do not have the digest announced
    8  the target exists (give --force to replace it)
    9  fewer receivers than needed have the object
   10  symbols contradict each other: bytes have changed (fec decode)
  130  interrupted (Ctrl-C); the same get or put goes on from there when it is run again

An object is a file below a server's directory; its name is its path with `/`. Every object is
verified by its BLAKE3 digest before it takes its name. Set WELLSPRING_LOG=debug for logs.

Measurements, simulations and the papers' figures are in the command `wellspring-lab`.";

/// Moves real files with fountain codes: fetch from many, replicate to many, over UDP.
#[derive(Parser)]
#[command(name = "wellspring", version, after_help = EXIT_CODES, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Get(get::GetArgs),
    Put(put::PutArgs),
    Ls(ls::LsArgs),
    Clean(clean::CleanArgs),
    Key(key::KeyCommand),
    Demo(demo::DemoArgs),
    Fec(fec::FecArgs),
    Maelstrom(maelstrom::MaelstromArgs),
    Switch(switch::SwitchArgs),
    #[command(flatten)]
    Manual(ManualCommand),
}

/// Subcommands of `wellspring-lab`, for people who look for them here.
const OF_THE_LAB: [&str; 6] = ["sim", "reproduce", "bench", "lab", "failure-law", "lt"];

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| misparsed(error));
    command::start("wellspring", cli.verbosity, |runtime| run(cli, runtime))
}

/// Says what is wrong with the command line, and ends.
fn misparsed(error: clap::Error) -> ! {
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand)
        && OF_THE_LAB.contains(&name.as_str())
    {
        let message = format!("`{name}` is not here: measurements are in another command");
        let failed = Failed::usage(message).hint("Run `wellspring-lab --help`.");
        command::end("wellspring", Err(failed));
        std::process::exit(USAGE.into());
    }
    error.exit()
}

fn run(cli: Cli, runtime: Runtime) -> Result<(), Failed> {
    let quiet = cli.verbosity.quiet;
    let result = match cli.command {
        Command::Fec(args) => {
            let work = move || fec::run(&args, quiet);
            let result = runtime.block_on(unless_signal(work, || {
                wellspring_store::atomic_file::discard_unfinished();
                Failed::interrupted()
            }));
            // Work that was interrupted cannot do harm any more, and is not waited for.
            runtime.shutdown_background();
            return result;
        }
        Command::Serve(args) => runtime.block_on(serve::run(&args, quiet)),
        Command::Get(args) => runtime.block_on(get::run(&args, quiet)),
        Command::Ls(args) => runtime.block_on(ls::run(&args)),
        Command::Clean(args) => clean::run(&args, quiet),
        Command::Put(args) => runtime.block_on(put::run(&args, quiet)),
        Command::Key(args) => key::run(&args),
        Command::Demo(args) => runtime.block_on(with_children(move || demo::run(&args, quiet))),
        Command::Maelstrom(args) => runtime.block_on(maelstrom::run(&args, quiet)),
        Command::Switch(args) => runtime.block_on(switch::run(&args, quiet)),
        Command::Manual(manual) => manual.run(Cli::command()),
    };
    command::shut_down(runtime);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
