//! `wellspring maelstrom`: an appliance that hides packet loss.

mod ask;
mod bench;
mod instance;
mod up;

use std::path::PathBuf;

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

/// `8,3`: packets in an XOR, and layers.
fn parse_rate(text: &str) -> Result<(u8, usize), String> {
    let parts = text.split_once(',').map(|(r, c)| (r.trim().parse(), c.trim().parse()));
    match parts {
        Some((Ok(r), Ok(c))) => Ok((r, c)),
        _ => Err("write packets in an XOR and layers, such as 8,3".into()),
    }
}

/// `1,20,40`: one interleave a layer.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Interleaves(Vec<u16>);

fn parse_interleaves(text: &str) -> Result<Interleaves, String> {
    let numbers: Result<Vec<u16>, _> = text.split(',').map(|i| i.trim().parse()).collect();
    numbers.map(Interleaves).map_err(|_| "write an interleave a layer, such as 1,20,40".into())
}

/// How packets are mixed into repairs.
#[derive(Args, Clone, Debug)]
struct CodeArgs {
    /// Packets in an XOR, r, and layers, c: c repairs leave for every r packets.
    #[arg(long, value_name = "R,C", default_value = "8,3", value_parser = parse_rate)]
    rate: (u8, usize),
    /// One interleave a layer, best without common divisors: bursts as long as the largest come
    /// back.
    #[arg(long, value_name = "I,I,...", default_value = "1,20,40", value_parser = parse_interleaves)]
    interleave: Interleaves,
    /// Hold each repair back until its bin is used again: slower, and no burst shorter than the
    /// interleave takes a repair with its last packet.
    #[arg(long)]
    delayed: bool,
}

impl CodeArgs {
    fn parameters(&self) -> Result<wellspring_codec::interleave::Parameters, Failed> {
        let ((rate, layers), Interleaves(interleaves)) = (self.rate, &self.interleave);
        if layers != interleaves.len() {
            return Err(Failed::usage(format!(
                "a rate of {layers} layers and {} interleaves",
                interleaves.len()
            ))
            .hint("Give as many interleaves as layers: --rate 8,3 --interleave 1,20,40."));
        }
        let parameters = wellspring_codec::interleave::Parameters::new(rate, interleaves);
        let mut parameters = parameters.map_err(|e| Failed::usage(e.to_string()))?;
        parameters.delayed = self.delayed;
        Ok(parameters)
    }
}

/// Which appliance of this machine.
#[derive(Args, Clone, Debug)]
struct InstanceArgs {
    /// What the appliance is called, where several run [default: the interface of the long link].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Folder of control sockets.
    #[arg(long, value_name = "DIR", default_value = "/run/wellspring/maelstrom")]
    run_dir: PathBuf,
}

impl InstanceArgs {
    fn name(&self, wan: &str) -> String {
        self.name.clone().unwrap_or_else(|| wan.to_owned())
    }
}
