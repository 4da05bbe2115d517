//! `wellspring fec`: RFC 6330 objects in files.

mod decode;
mod digest_file;
mod encode;
mod index;
mod input;
mod target;

use clap::{Args, Subcommand};
use wellspring_console::exit::Failed;

/// Encode and decode files with RaptorQ (RFC 6330), without a network.
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
