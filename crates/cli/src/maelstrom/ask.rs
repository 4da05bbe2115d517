//! `wellspring maelstrom ask`: requests to an appliance's packet cache.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use wellspring_console::exit::Failed;
use wellspring_console::output::Stdout;

/// Ask a local appliance for datagrams that this host lost after they had come over the link.
///
/// The appliance, started with --cache, sends again what it still has of the datagrams from --from to
/// --port of this host in whose payload, at --at, the bytes --bytes stand: a sequence number, as a
/// rule. They arrive at the socket that they were for, as they did the first time; at most eight a
/// question, and each three times at most. Programs ask the same by a datagram of JSON:
/// {"from": "10.1.0.2:5000", "port": 5001, "at": 0, "bytes": "0000002a"}, answered by {"resent": 1}.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Example:
  wellspring maelstrom ask 10.2.0.1:4712 --from 10.1.0.2:5000 --port 5001 --bytes 0000002a")]
pub struct AskArgs {
    /// The appliance's --cache-at.
    appliance: SocketAddr,
    /// Who sent the datagrams.
    #[arg(long, value_name = "ADDR:PORT")]
    from: SocketAddr,
    /// The port of this host that they went to.
    #[arg(long)]
    port: u16,
    /// Where in the payload to look, in bytes.
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    at: u32,
    /// What stands there, in hexadecimal digits; without it the newest fit.
    #[arg(long, value_name = "HEX", default_value = "")]
    bytes: String,
}

pub fn run(args: &AskArgs) -> Result<(), Failed> {
    let any = match args.appliance {
        SocketAddr::V4(_) => SocketAddr::from(([0_u8; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], 0)),
    };
    let unreachable = |error| Failed::system(args.appliance, &error);
    let socket = UdpSocket::bind(any).map_err(unreachable)?;
    socket.connect(args.appliance).map_err(unreachable)?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).map_err(unreachable)?;
    let question =
        json!({ "from": args.from, "port": args.port, "at": args.at, "bytes": args.bytes });
    socket.send(question.to_string().as_bytes()).map_err(unreachable)?;
    let mut answer = [0; 1_024];
    let silent = |error: std::io::Error| {
        Failed::other(format!("{} does not answer ({error})", args.appliance))
            .hint("The appliance needs --cache and --cache-at with that address.")
    };
    let len = socket.recv(&mut answer).map_err(silent)?;
    let answer: Value = serde_json::from_slice(&answer[..len])
        .map_err(|_| Failed::other("an answer that makes no sense"))?;
    match answer["resent"].as_u64() {
        Some(0) => Err(Failed::other("the appliance has no such datagram, or no more")),
        Some(count) => Ok(writeln!(Stdout, "{count} sent again")?),
        None => Err(Failed::usage(answer["error"].as_str().unwrap_or("refused"))),
    }
}
