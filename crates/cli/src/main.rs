//! The `wellspring` command.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod clean;
mod config;
mod connect;
mod demo;
mod doctor;
mod exit;
mod fec;
mod get;
mod key;
mod keys;
mod ls;
#[cfg(target_os = "linux")]
mod maelstrom;
mod progress;
mod put;
mod serve;
mod stat;
#[cfg(target_os = "linux")]
mod switch;
mod top;
mod transfer;
mod tree_args;
mod tree_changes;
mod ui;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tokio::runtime::Runtime;
use wellspring_console::command::{self, Verbosity};
use wellspring_console::exit::{Failed, USAGE};
use wellspring_console::interrupt::{unless_signal, with_children};
use wellspring_console::manual::ManualCommand;
use wellspring_console::output::{Stderr, Stdout};

use crate::config::{ConfigArgs, Configured, Problem};

const EXIT_CODES: &str = "\
Exit status:
    0  done
    1  failed (disk, network, an error of the system)
    2  the command line is wrong
    3  too few symbols to decode (fec decode)
    4  no host has the object, or none takes it
    5  the replicas hold different bytes; nothing was written
    6  every replica was lost on the way
    7  bytes do not have the digest announced, or the one expected (verify)
    8  the target exists (give --force to replace it)
    9  fewer receivers than needed have the object
   10  symbols contradict each other: bytes have changed (fec decode)
   11  a transfer with that host would fail (doctor)
  130  interrupted (Ctrl-C); the same get or put goes on from there when it is run again

An object is a file below a server's directory; its name is its path with `/`. Every object is
verified by its BLAKE3 digest before it takes its name. Set WELLSPRING_LOG=debug for logs.

Each option may also stand in a configuration file, below the command's name, and in an environment
variable: `serve --max-puts 8` is `max-puts = 8` below `[serve]`, and WELLSPRING_SERVE_MAX_PUTS=8. The
command line comes before the variable, and that before the file. `wellspring serve --print-config`
prints what is in force, where it comes from, and the names of all variables.

Measurements, simulations and the papers' figures are in the command `wellspring-lab`.";

/// Moves real files with fountain codes: fetch from many, replicate to many, over UDP.
#[derive(Parser)]
#[command(name = "wellspring", version, after_help = EXIT_CODES, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(flatten)]
    _config: ConfigArgs,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Get(get::GetArgs),
    Put(put::PutArgs),
    Ls(ls::LsArgs),
    Stat(stat::StatArgs),
    Verify(verify::VerifyArgs),
    Doctor(doctor::DoctorArgs),
    Top(top::TopArgs),
    Clean(clean::CleanArgs),
    Key(key::KeyCommand),
    Demo(demo::DemoArgs),
    Fec(fec::FecArgs),
    #[cfg(target_os = "linux")]
    Maelstrom(maelstrom::MaelstromArgs),
    #[cfg(target_os = "linux")]
    Switch(switch::SwitchArgs),
    #[command(flatten)]
    Manual(ManualCommand),
}

/// Subcommands of `wellspring-lab`, for people who look for them here.
const OF_THE_LAB: [&str; 6] = ["sim", "reproduce", "bench", "lab", "failure-law", "lt"];

fn main() -> ExitCode {
    wellspring_server::socket::map_large_blocks();
    let cli = match parse().unwrap_or_else(|problem| misparsed(problem)) {
        Parsed::Run(cli) => *cli,
        Parsed::Print(settings) => {
            let printed = write!(Stdout, "{settings}").map_err(Failed::from);
            return command::end("wellspring", printed);
        }
    };
    command::start("wellspring", cli.verbosity, |runtime| run(cli, runtime))
}

/// What a command line asks for.
enum Parsed {
    Run(Box<Cli>),
    /// The settings are to be printed: these.
    Print(String),
}

/// Reads the command line with what stands beside it.
fn parse() -> Result<Parsed, Problem> {
    let args: Vec<OsString> = std::env::args_os().collect();
    let configured = Configured::read(Cli::command(), &args)?;
    if let Some(settings) = configured.to_print() {
        return Ok(Parsed::Print(settings));
    }
    let cli = Cli::from_arg_matches(configured.matches());
    cli.map(|cli| Parsed::Run(Box::new(cli))).map_err(|error| Problem::CommandLine(error, None))
}

/// The arguments of the server that runs, read again.
fn server_arguments() -> Result<serve::ServeArgs, Failed> {
    let no_server = || Failed::usage("the command line is not that of a server");
    match parse() {
        Ok(Parsed::Run(cli)) => match cli.command {
            Command::Serve(args) => Ok(args),
            _ => Err(no_server()),
        },
        Ok(Parsed::Print(_)) => Err(no_server()),
        Err(Problem::File(failed)) => Err(failed),
        Err(Problem::CommandLine(error, origin)) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().to_owned();
            Err(Failed::usage(first).hint(origin.unwrap_or_default()))
        }
    }
}

/// Says what is wrong with the command line or what stands beside it, and ends.
fn misparsed(problem: Problem) -> ! {
    let error = match problem {
        Problem::CommandLine(error, None) => error,
        Problem::CommandLine(error, Some(origin)) => {
            // Without standard error there is nobody to tell.
            let _ = error.print();
            writeln!(Stderr, "{origin}");
            std::process::exit(USAGE.into());
        }
        Problem::File(failed) => {
            let status = failed.status;
            command::end("wellspring", Err(failed));
            std::process::exit(status.into());
        }
    };
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
        Command::Serve(args) => runtime.block_on(serve::run(&args, quiet, server_arguments)),
        Command::Get(args) => runtime.block_on(get::run(&args, quiet)),
        Command::Ls(args) => runtime.block_on(ls::run(&args)),
        Command::Stat(args) => runtime.block_on(stat::run(&args)),
        Command::Verify(args) => runtime.block_on(verify::run(&args, quiet)),
        Command::Doctor(args) => runtime.block_on(doctor::run(&args, quiet)),
        Command::Top(args) => runtime.block_on(top::run(&args)),
        Command::Clean(args) => clean::run(&args, quiet),
        Command::Put(args) => runtime.block_on(put::run(&args, quiet)),
        Command::Key(args) => key::run(&args),
        Command::Demo(args) => runtime.block_on(with_children(move || demo::run(&args, quiet))),
        #[cfg(target_os = "linux")]
        Command::Maelstrom(args) => runtime.block_on(maelstrom::run(&args, quiet)),
        #[cfg(target_os = "linux")]
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

    /// The names of all commands that run something, below a command.
    fn names(command: &clap::Command) -> Vec<Vec<String>> {
        if !command.has_subcommands() {
            return vec![Vec::new()];
        }
        let below = |sub: &clap::Command| {
            let name = sub.get_name().to_owned();
            names(sub).into_iter().map(move |rest| [vec![name.clone()], rest].concat())
        };
        command.get_subcommands().flat_map(below).collect()
    }

    #[test]
    fn every_command_prints_its_settings_without_what_it_needs_to_run() {
        let all = names(&Cli::command());
        assert!(all.contains(&vec!["key".to_owned(), "change".to_owned(), "add".to_owned()]));
        for name in all {
            let line = [&["wellspring".to_owned()][..], &name[..], &["--print-config".to_owned()]];
            let line: Vec<OsString> = line.concat().into_iter().map(OsString::from).collect();
            let no_file = [&line[..], &["--config".into(), "".into()]].concat();
            match Configured::read(Cli::command(), &no_file) {
                Ok(configured) => assert!(configured.to_print().is_some(), "{name:?}"),
                Err(Problem::CommandLine(error, _)) => panic!("{name:?}: {error}"),
                Err(Problem::File(failed)) => panic!("{name:?}: {:?}", failed.message),
            }
        }
    }
}
