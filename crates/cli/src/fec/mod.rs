//! `wellspring fec`: RFC 6330 objects in files, measurements of the codec, and its failure law.

mod bench;
mod decode;
mod encode;
mod failure_law;
mod isal;
mod peers;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::{Args, Subcommand};

/// The file being written, not yet under its name.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Too few symbols to decode.
pub const TOO_FEW_SYMBOLS: u8 = 3;

/// Work with the RaptorQ code itself: encode and decode files, measure.
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
}

/// Why a `fec` command failed, and the exit status that says so.
#[derive(Debug)]
pub struct FecError {
    /// The exit status: 3 for too few symbols, 2 for impossible arguments, 1 for everything else.
    pub status: u8,
    message: String,
}

impl FecError {
    fn new(status: u8, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    fn usage(message: impl Into<String>) -> Self {
        Self::new(2, message)
    }

    fn file(path: &Path, error: &io::Error) -> Self {
        Self::new(1, format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for FecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FecError {}

impl From<wellspring_codec::Error> for FecError {
    fn from(error: wellspring_codec::Error) -> Self {
        Self::new(1, error.to_string())
    }
}

/// Runs the command; `quiet` hides progress and summaries.
pub fn run(args: &FecArgs, quiet: bool) -> Result<(), FecError> {
    match &args.command {
        FecCommand::Encode(args) => encode::run(args, quiet),
        FecCommand::Decode(args) => decode::run(args, quiet),
        FecCommand::Bench(args) => bench::run(args, quiet),
        FecCommand::FailureLaw(args) => failure_law::run(args, quiet),
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

/// A temporary file beside `path`, so that renaming it never crosses a file system.
fn temporary_beside(path: &Path) -> Result<tempfile::NamedTempFile, FecError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let file = tempfile::Builder::new()
        .prefix(".wellspring-")
        .tempfile_in(folder)
        .map_err(|error| FecError::file(folder, &error))?;
    remember(Some(file.path().to_owned()));
    Ok(file)
}

fn remember(path: Option<PathBuf>) -> Option<PathBuf> {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::mem::replace(&mut unfinished, path)
}

/// Removes the file being written, for a program that is about to end. Without it, work that goes
/// on meanwhile cannot give it its name.
pub fn clean_up() {
    if let Some(path) = remember(None) {
        // It is gone if the work has just ended.
        let _ = std::fs::remove_file(path);
    }
}

/// Writes what is buffered to the disk and gives the file its name.
fn finish(file: std::io::BufWriter<tempfile::NamedTempFile>, path: &Path) -> Result<(), FecError> {
    let file = file.into_inner().map_err(|error| FecError::file(path, error.error()))?;
    file.as_file().sync_all().map_err(|error| FecError::file(path, &error))?;
    file.persist(path).map_err(|error| FecError::file(path, &error.error))?;
    remember(None);
    Ok(())
}
