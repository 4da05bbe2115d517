//! `wellspring fec`: RFC 6330 objects in files, measurements of the codec, and what codes need.

mod bench;
mod decode;
mod digest_file;
mod encode;
mod failure_law;
mod index;
mod isal;
mod lt;
mod peers;
mod target;

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use clap::{Args, Subcommand};

pub use target::clean_up;

use crate::exit::Failed;

/// Work with the codes themselves: encode and decode files by RaptorQ, measure.
#[derive(Args, Clone, Debug)]
pub struct FecArgs {
    #[command(subcommand)]
    command: FecCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum FecCommand {
    Encode(encode::EncodeArgs),
    Decode(decode::DecodeArgs),
    Bench(bench::BenchArgs),
    FailureLaw(failure_law::FailureLawArgs),
    Lt(lt::LtArgs),
}

/// Runs the command; `quiet` hides progress and summaries.
pub fn run(args: &FecArgs, quiet: bool) -> Result<(), Failed> {
    match &args.command {
        FecCommand::Encode(args) => encode::run(args, quiet),
        FecCommand::Decode(args) => decode::run(args, quiet),
        FecCommand::Bench(args) => bench::run(args, quiet),
        FecCommand::FailureLaw(args) => failure_law::run(args, quiet),
        FecCommand::Lt(args) => lt::run(args, quiet),
    }
}

/// A progress bar on standard error, if somebody looks at it.
fn progress(quiet: bool, len: u64, what: &'static str) -> indicatif::ProgressBar {
    use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(len), target).with_style(style).with_message(what)
}

/// Opens a file to read from beginning to end, perhaps twice.
fn open(path: &Path) -> Result<(File, Metadata), Failed> {
    let error = |error| file_error(path, &error);
    // Asked before: opening a pipe would wait for who writes to it.
    if !std::fs::metadata(path).map_err(error)?.is_file() {
        return Err(Failed::usage(format!("{}: not a regular file", path.display())));
    }
    let file = File::open(path).map_err(error)?;
    let metadata = file.metadata().map_err(error)?;
    Ok((file, metadata))
}

fn file_error(path: &Path, error: &io::Error) -> Failed {
    Failed::other(format!("{}: {error}", path.display()))
}

/// As [`file_error`], of reading no more than the file had at first.
fn read_error(path: &Path, error: &io::Error) -> Failed {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Failed::other(format!("{}: became shorter while it was read", path.display()));
    }
    file_error(path, error)
}
