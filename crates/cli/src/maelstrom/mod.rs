//! `wellspring maelstrom`: an appliance that hides packet loss.

mod ask;
mod bench;
mod code_args;
mod forged;
mod instance;
mod processor_time;
mod up;

use clap::{Args, Subcommand};
use wellspring_console::exit::Failed;

/// Repair packet loss on a long link, transparently to the hosts.
#[derive(Args, Clone, Debug)]
pub struct MaelstromArgs {
    #[command(subcommand)]
    command: MaelstromCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum MaelstromCommand {
    Up(Box<up::UpArgs>),
    Status(instance::StatusArgs),
    Down(instance::DownArgs),
    Key(instance::KeyArgs),
    Ask(ask::AskArgs),
    Bench(bench::BenchArgs),
}

/// Carries the command out.
///
/// # Errors
/// With the exit status and what to do about it.
pub async fn run(args: &MaelstromArgs, quiet: bool) -> Result<(), Failed> {
    match &args.command {
        MaelstromCommand::Up(args) => up::run(args, quiet).await,
        MaelstromCommand::Status(args) => instance::status(args),
        MaelstromCommand::Down(args) => instance::down(args),
        MaelstromCommand::Key(args) => instance::key(args),
        MaelstromCommand::Ask(args) => ask::run(args),
        MaelstromCommand::Bench(args) => bench::run(args),
    }
}
