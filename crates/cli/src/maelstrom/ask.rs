//! `wellspring maelstrom ask`: requests to an appliance's packet cache.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use wellspring_console::exit::Failed;
use wellspring_console::output::Stdout;

/// Request datagrams from a local appliance that this host lost after they had crossed the link.
///
/// The appliance must run with --cache. It sends cached datagrams from --from to --port of this host
/// again, if their payload has the bytes --bytes at offset --at (usually a sequence number). They
/// arrive at the same socket as the first time. One request returns at most eight datagrams, and
/// each datagram is sent again at most three times. Programs send the same request as a datagram of JSON:
/// {"from": "10.1.0.2:5000", "port": 5001, "at": 0, "bytes": "0000002a"}. The answer is {"resent": 1}.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Example:
  wellspring maelstrom ask 10.2.0.1:4712 --from 10.1.0.2:5000 --port 5001 --bytes 0000002a")]
pub struct AskArgs {
    /// The address given to the appliance by --cache-at.
    appliance: SocketAddr,
    /// The source address of the datagrams.
    #[arg(long, value_name = "ADDR:PORT")]
    from: SocketAddr,
    /// The destination port on this host.
    #[arg(long)]
    port: u16,
    /// The offset in the payload, in bytes.
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    at: u32,
    /// The bytes at that offset, in hexadecimal digits; if not given, the newest datagrams match.
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
