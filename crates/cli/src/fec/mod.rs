//! `wellspring fec`: RFC 6330 objects in files.

mod decode;
mod digest_file;
mod encode;
mod index;
mod target;

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use clap::{Args, Subcommand};
use wellspring_console::exit::Failed;

pub use target::clean_up;

/// Encode and decode files by RaptorQ (RFC 6330), without a network.
#[derive(Args, Clone, Debug)]
pub struct FecArgs {
    #[command(subcommand)]
    command: FecCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum FecCommand {
    Encode(encode::EncodeArgs),
    Decode(decode::DecodeArgs),
}

/// Runs the command; `quiet` hides progress and summaries.
pub fn run(args: &FecArgs, quiet: bool) -> Result<(), Failed> {
    match &args.command {
        FecCommand::Encode(args) => encode::run(args, quiet),
        FecCommand::Decode(args) => decode::run(args, quiet),
    }
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
    Failed::system(path.display(), error)
}

/// As [`file_error`], of reading no more than the file had at first.
fn read_error(path: &Path, error: &io::Error) -> Failed {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Failed::other(format!("{}: became shorter while it was read", path.display()));
    }
    file_error(path, error)
}

/// Misuse of the codec, which the checks before it should have caught.
fn codec_error(error: wellspring_codec::Error) -> Failed {
    Failed::other(error.to_string())
}
