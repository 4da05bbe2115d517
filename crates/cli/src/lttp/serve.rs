//! `wellspring lttp serve`.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::print_line;
use wellspring_console::units::{bytes, parse_rate};
use wellspring_core::Rate;
use wellspring_net::{DEFAULT_PORT, LttpServer, LttpServerConfig, LttpServerEvent};

use super::NetworkArgs;
use crate::exit;
use crate::serve::digest_cache;

/// Serve the files of a directory by LTTP.
///
/// Runs until Ctrl-C, and listens at one port by TCP and by UDP. Names cannot lead out of DIR:
/// symbolic links are not followed, and only regular files are objects. Symbols are sent only to
/// the host at the other end of a TCP connection.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring lttp serve /srv/models
  wellspring lttp serve --rate 900M /srv/models       # leave something of a gigabit link
  wellspring lttp serve --json --bind 127.0.0.1:0 .   # prints the port it was given")]
pub struct ServeArgs {
    /// The directory whose files are served.
    dir: PathBuf,
    /// Address and port to listen at, by TCP and by UDP; port 0 lets the system choose.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), DEFAULT_PORT))]
    bind: SocketAddr,
    /// Send no faster than this, over all sessions; TFRC finds its rate below [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = "Network")]
    rate: Option<Rate>,
    /// Parts sent at one time.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_sessions: usize,
    /// Where digests are kept [default: $XDG_CACHE_HOME/wellspring or ~/.cache/wellspring].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArgs,
    /// Print what happens as one JSON object a line.
    #[arg(long)]
    json: bool,
}

pub async fn run(args: &ServeArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let json = args.json;
    let mut config = LttpServerConfig::new(args.bind, args.dir.clone());
    config.settings = args.network.settings(args.bind, args.rate);
    config.max_sessions = args.max_sessions;
    config.cache = Arc::new(digest_cache(args.cache.as_deref())?);
    config.events = Arc::new(move |event| match json {
        true => print_line(&to_json(&event).to_string()),
        false if quiet => {}
        false => print_line(&to_text(&event)),
    });
    let server = LttpServer::bind(config).await.map_err(|error| exit::of_bind(&error))?;
    let address = server.local_addr();
    if json {
        print_line(&json!({"event": "listening", "address": address.to_string()}).to_string());
    } else if !quiet {
        print_line(&format!("serving {} by LTTP at {address}", args.dir.display()));
    }
    interrupt.wait().await;
    server.shut_down().await;
    Ok(())
}

fn to_text(event: &LttpServerEvent) -> String {
    match event {
        LttpServerEvent::Hashing { name, size } => {
            format!("{name}: computing the digest of {}", bytes(*size))
        }
        LttpServerEvent::Sending { name, client, offset, len } => {
            format!("{name}: sending {} from {offset} on to {client}", bytes(*len))
        }
        LttpServerEvent::Sent { name, client, stats } => {
            let (sent, source) = (stats.sent, stats.source);
            format!("{name}: sent to {client} ({sent} symbols for {source})")
        }
        LttpServerEvent::SendFailed { name, client, reason } => {
            format!("{name}: not sent to {client}: {reason}")
        }
        LttpServerEvent::Refused { client, reason } => format!("refused to {client}: {reason}"),
        _ => String::new(),
    }
}

fn to_json(event: &LttpServerEvent) -> Value {
    match event {
        LttpServerEvent::Hashing { name, size } => {
            json!({"event": "hashing", "object": name, "size": size})
        }
        LttpServerEvent::Sending { name, client, offset, len } => json!({
            "event": "sending", "object": name, "client": client.to_string(),
            "offset": offset, "length": len,
        }),
        LttpServerEvent::Sent { name, client, stats } => json!({
            "event": "sent", "object": name, "client": client.to_string(),
            "symbols_sent": stats.sent, "source_symbols": stats.source,
            "reports": stats.reports, "silences": stats.silences,
        }),
        LttpServerEvent::SendFailed { name, client, reason } => json!({
            "event": "send_failed", "object": name, "client": client.to_string(), "reason": reason,
        }),
        LttpServerEvent::Refused { client, reason } => json!({
            "event": "refused", "client": client.to_string(), "reason": reason,
        }),
        _ => json!({"event": "other"}),
    }
}
