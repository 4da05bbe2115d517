//! `wellspring lttp`: files by LT codes at TFRC's rate.

mod get;
mod serve;

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand};
use wellspring_console::exit::Failed;
use wellspring_console::units::{parse_loss, parse_seconds};
use wellspring_core::Rate;
use wellspring_net::LttpSettings;

/// Move files by LTTP: each of many servers streams its share as LT codes until told to stop.
///
/// The transport of an incast: a client asks many servers for a part each, all stream over UDP at
/// the rate of TFRC (RFC 5348), which is fair to TCP and has no timeouts to wait for. Requests and
/// stops go over a TCP connection to each server; closing it ends the session.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring lttp serve /srv/models                                      # on each server
  wellspring lttp get a.example,b.example,c.example/7b.bin -o 7b.bin     # a third from each")]
pub struct LttpArgs {
    #[command(subcommand)]
    command: LttpCommand,
}

#[derive(Subcommand)]
enum LttpCommand {
    Serve(serve::ServeArgs),
    Get(get::GetArgs),
}

pub async fn run(args: &LttpArgs, quiet: bool) -> Result<(), Failed> {
    match &args.command {
        LttpCommand::Serve(args) => serve::run(args, quiet).await,
        LttpCommand::Get(args) => get::run(args, quiet).await,
    }
}

/// What both sides can be told of the network.
#[derive(Args, Clone)]
struct NetworkArgs {
    /// How long the other side may be silent before it counts as gone, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds, help_heading = "Network")]
    timeout: Duration,
    /// Test aid: lose this part of all datagrams that arrive here, 0 to 0.9.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = parse_loss, help_heading = "Test aids")]
    inject_loss: f64,
    /// Test aid: seed of what is injected.
    #[arg(long, value_name = "S", default_value_t = 1, help_heading = "Test aids")]
    seed: u64,
}

impl NetworkArgs {
    /// Settings at that address, as these arguments say.
    fn settings(&self, bind: SocketAddr, rate_limit: Option<Rate>) -> LttpSettings {
        let mut settings = LttpSettings::new(bind);
        settings.timeout = self.timeout;
        settings.rate_limit = rate_limit;
        settings.faults.loss = self.inject_loss;
        settings.faults.seed = self.seed;
        settings
    }
}
