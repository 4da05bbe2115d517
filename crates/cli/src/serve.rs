//! `wellspring serve`.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::print_line;
use wellspring_console::units::{bytes, parse_size};
use wellspring_net::socket::Interface;
use wellspring_net::store::{DigestCache, Limits};
use wellspring_net::{DEFAULT_PORT, Server, ServerConfig, ServerEvent};

use crate::exit;
use crate::transfer::NetworkArgs;

/// Serve the files of a directory, and take files if allowed.
///
/// Runs until Ctrl-C. Digests are computed once and kept in the cache, so that the second fetch of
/// a large file starts at once. Names cannot lead out of DIR: symbolic links are not followed, and
/// only regular files are objects.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring serve /srv/models
  wellspring serve --allow-put --bind 0.0.0.0:4711 /srv/incoming
  wellspring serve --json --bind 127.0.0.1:0 .     # prints the port it was given")]
pub struct ServeArgs {
    /// The directory whose files are served.
    dir: PathBuf,
    /// Address and port to listen at; port 0 lets the system choose.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), DEFAULT_PORT))]
    bind: SocketAddr,
    /// Take objects that clients put.
    #[arg(long)]
    allow_put: bool,
    /// Let a put replace an object of the same name (the client must ask for it with --force).
    #[arg(long, requires = "allow_put")]
    allow_overwrite: bool,
    /// Largest object taken.
    #[arg(long, value_name = "SIZE", default_value = "1T", value_parser = parse_size)]
    max_object: u64,
    /// Objects taken at one time.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_puts: usize,
    /// Length of all objects taken at one time.
    #[arg(long, value_name = "SIZE", default_value = "4T", value_parser = parse_size)]
    max_reserved: u64,
    /// What must stay free on the disk.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    keep_free: u64,
    /// Where digests are kept [default: $XDG_CACHE_HOME/wellspring or ~/.cache/wellspring].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// The interface that multicast comes in by: a name or an address of it.
    #[arg(long, value_name = "IF")]
    interface: Option<Interface>,
    #[command(flatten)]
    network: NetworkArgs,
    /// Print what happens as one JSON object a line.
    #[arg(long)]
    json: bool,
}

pub async fn run(args: &ServeArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let cache = digest_cache(args.cache.as_deref())?;
    let json = args.json;
    let mut config = ServerConfig::new(args.bind, args.dir.clone());
    config.driver = args.network.driver(args.bind);
    config.driver.scdp.peer_timeout = wellspring_core::Duration::from_millis(
        (args.network.timeout.as_millis() as u64).clamp(100, 600_000),
    );
    config.driver.socket.multicast_interface = args.interface.clone();
    config.interface = args.interface.clone();
    config.allow_put = args.allow_put;
    config.allow_overwrite = args.allow_overwrite;
    config.cache = Arc::new(cache);
    config.limits = Limits {
        object_len: args.max_object,
        objects: args.max_puts,
        total_len: args.max_reserved,
        keep_free: args.keep_free,
    };
    config.events = Arc::new(move |event| match json {
        true => print_line(&to_json(&event).to_string()),
        false if quiet => {}
        false => print_line(&to_text(&event)),
    });
    let server = Server::bind(config).await.map_err(|error| exit::of_bind(&error))?;
    let address = server.local_addr();
    if json {
        print_line(&json!({"event": "listening", "address": address.to_string()}).to_string());
    } else if !quiet {
        let takes = if args.allow_put { ", taking objects" } else { "" };
        print_line(&format!("serving {} at {address}{takes}", args.dir.display()));
    }
    interrupt.wait().await;
    server.shut_down().await;
    Ok(())
}

/// Where digests are kept: in that directory, or in the user's own.
pub fn digest_cache(directory: Option<&Path>) -> Result<DigestCache, Failed> {
    match directory {
        Some(directory) => DigestCache::open(directory).map_err(|error| {
            Failed::other(format!("cannot keep digests in {}: {error}", directory.display()))
        }),
        None => Ok(DigestCache::of_user()),
    }
}

fn to_text(event: &ServerEvent) -> String {
    match event {
        ServerEvent::Hashing { name, size } => {
            format!("{name}: computing the digest of {}", bytes(*size))
        }
        ServerEvent::Sending { name, client, share: (index, count), resumed } => {
            let again = if *resumed { " again" } else { "" };
            format!("{name}: sending{again} to {client} (share {} of {count})", index + 1)
        }
        ServerEvent::Sent { name, client, stats } => {
            let symbols = stats.source_symbols + stats.repair_symbols;
            format!("{name}: sent to {client} ({symbols} symbols, {} repair)", stats.repair_symbols)
        }
        ServerEvent::SendFailed { name, client, reason } => {
            format!("{name}: not sent to {client}: {reason}")
        }
        ServerEvent::Receiving { name, client, size, multicast } => {
            let way = if *multicast { " by multicast" } else { "" };
            format!("{name}: receiving {}{way} from {client}", bytes(*size))
        }
        ServerEvent::Received { name, client, size, .. } => {
            format!("{name}: received {} from {client}, verified", bytes(*size))
        }
        ServerEvent::ReceiveFailed { name, client, reason } => {
            format!("{name}: not received from {client}: {reason}")
        }
        ServerEvent::Refused { name, client, reason } => {
            format!("{name}: refused to {client}: {reason}")
        }
        _ => String::new(),
    }
}

fn to_json(event: &ServerEvent) -> Value {
    match event {
        ServerEvent::Hashing { name, size } => {
            json!({"event": "hashing", "object": name, "size": size})
        }
        ServerEvent::Sending { name, client, share: (index, count), resumed } => json!({
            "event": "sending", "object": name, "client": client.to_string(),
            "share": index, "shares": count, "resumed": resumed,
        }),
        ServerEvent::Sent { name, client, stats } => json!({
            "event": "sent", "object": name, "client": client.to_string(),
            "source_symbols": stats.source_symbols, "repair_symbols": stats.repair_symbols,
            "pulls": stats.pulls,
        }),
        ServerEvent::SendFailed { name, client, reason } => json!({
            "event": "send_failed", "object": name, "client": client.to_string(), "reason": reason,
        }),
        ServerEvent::Receiving { name, client, size, multicast } => json!({
            "event": "receiving", "object": name, "client": client.to_string(),
            "size": size, "multicast": multicast,
        }),
        ServerEvent::Received { name, client, size, stats } => json!({
            "event": "received", "object": name, "client": client.to_string(), "size": size,
            "symbols_useful": stats.as_ref().map(|s| s.senders.iter().map(|s| s.useful).sum::<u64>()),
            "symbols_needed": stats.as_ref().map(|s| s.needed),
            "blocks_decoded": stats.as_ref().map(|s| s.decoded_blocks),
            "blocks_decode_free": stats.as_ref().map(|s| s.decode_free_blocks),
        }),
        ServerEvent::ReceiveFailed { name, client, reason } => json!({
            "event": "receive_failed", "object": name, "client": client.to_string(),
            "reason": reason,
        }),
        ServerEvent::Refused { name, client, reason } => json!({
            "event": "refused", "object": name, "client": client.to_string(), "reason": reason,
        }),
        _ => json!({"event": "other"}),
    }
}
