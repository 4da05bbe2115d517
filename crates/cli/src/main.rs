//! The `wellspring` command.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod demo;
mod exit;
mod fec;
mod get;
mod interrupt;
mod lab;
mod lttp;
mod maelstrom;
mod output;
mod process;
mod progress;
mod put;
mod serve;
mod sim;
mod switch;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use args::{Cli, Command};
use clap::Parser;
use exit::Failed;
use output::Stderr;
use tracing_subscriber::EnvFilter;

/// How long threads that wait for a disk are given to end.
const LAST_MOMENT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logs(&cli);
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            if let Some(message) = &failed.message {
                writeln!(Stderr, "wellspring: {message}");
            }
            if let Some(hint) = &failed.hint {
                writeln!(Stderr, "{hint}");
            }
            ExitCode::from(failed.status)
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failed> {
    let quiet = cli.quiet;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failed::other(format!("cannot start threads: {error}")))?;
    let result = match &cli.command {
        Command::Fec(args) => {
            let args = args.clone();
            let result = runtime.block_on(without_traces(move || fec::run(&args, quiet)));
            // Work that was interrupted cannot do harm any more, and is not waited for.
            runtime.shutdown_background();
            return result;
        }
        Command::Serve(args) => runtime.block_on(serve::run(args, quiet)),
        Command::Get(args) => runtime.block_on(get::run(args, quiet)),
        Command::Put(args) => runtime.block_on(put::run(args, quiet)),
        Command::Demo(args) => {
            let args = args.clone();
            runtime.block_on(with_children(move || demo::run(&args, quiet)))
        }
        Command::Bench(args) => {
            let args = args.clone();
            runtime.block_on(with_children(move || bench::run(&args, quiet)))
        }
        Command::Maelstrom(args) => runtime.block_on(maelstrom::run(args, quiet)),
        Command::Lttp(args) => runtime.block_on(lttp::run(args, quiet)),
        Command::Switch(args) => runtime.block_on(switch::run(args, quiet)),
        Command::Lab(args) => runtime.block_on(lab::run(args)),
        Command::Sim(args) => {
            let (args, verbose) = (args.clone(), cli.verbose > 0);
            let result = runtime.block_on(with_lab(move || sim::run(&args, quiet, verbose)));
            // A simulation that was interrupted cannot do harm any more.
            runtime.shutdown_background();
            return result;
        }
        Command::Reproduce(args) => {
            let args = args.clone();
            let result = runtime.block_on(with_lab(move || sim::run_reproduce(&args, quiet)));
            runtime.shutdown_background();
            return result;
        }
    };
    runtime.shutdown_timeout(LAST_MOMENT);
    result
}

/// Runs work on files. On a signal what is unfinished is removed.
async fn without_traces(
    work: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Result<(), Failed> {
    let mut interrupt = interrupt::Interrupt::new()?;
    tokio::select! {
        ended = tokio::task::spawn_blocking(work) => ended
            .map_err(|error| Failed::other(error.to_string()))?,
        () = interrupt.wait() => {
            fec::clean_up();
            Err(Failed::interrupted())
        }
    }
}

/// Runs simulations, and programs that set up namespaces. On a signal these programs are asked to
/// clean up, and waited for; the work itself is not, and files it has begun are removed.
async fn with_lab(
    work: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Result<(), Failed> {
    let mut interrupt = interrupt::Interrupt::new()?;
    tokio::select! {
        ended = tokio::task::spawn_blocking(work) => {
            ended.map_err(|error| Failed::other(error.to_string()))?
        }
        () = interrupt.wait() => {
            wellspring_experiments::whole::discard_unfinished();
            process::end_all();
            Err(Failed::new(
                exit::INTERRUPTED,
                "interrupted; rows of runs that had ended are kept where --output says",
            ))
        }
    }
}

/// Runs work that waits for child processes. On a signal these are killed, so that the work ends
/// with an error and cleans up behind itself.
async fn with_children(
    work: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Result<(), Failed> {
    let mut interrupt = interrupt::Interrupt::new()?;
    let mut work = tokio::task::spawn_blocking(work);
    let ended = tokio::select! {
        ended = &mut work => Some(ended),
        () = interrupt.wait() => None,
    };
    match ended {
        Some(ended) => ended.map_err(|error| Failed::other(error.to_string()))?,
        None => {
            process::stop_all();
            // It fails because of us: that is not what to report.
            let _ = work.await;
            Err(Failed::interrupted())
        }
    }
}

fn start_logs(cli: &Cli) {
    let level = match cli.verbose {
        _ if cli.quiet => "error",
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = std::env::var("WELLSPRING_LOG")
        .ok()
        .and_then(|text| EnvFilter::try_new(text).ok())
        .unwrap_or_else(|| EnvFilter::new(format!("wellspring={level},wellspring_net={level}")));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
