//! `wellspring serve`: objects of a directory, and its events on standard output.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::print_line;
use wellspring_console::units::{bytes, parse_rate, parse_size};
use wellspring_core::Rate;
use wellspring_net::socket::Interface;
use wellspring_net::store::{DigestCache, Limits};
use wellspring_net::{LONGEST_WAIT, Server, ServerConfig, ServerEvent};

use crate::exit;
use crate::keys::KeyArgs;
use crate::transfer::NetworkArgs;

/// Serve the files of a directory by every protocol; with --allow-put, receive files too.
///
/// Runs until Ctrl-C, on one port: by UDP, and by TCP for LTTP's control channel. The digest of a
/// file is computed once and cached, so that later fetches start
/// at once. Names cannot lead out of DIR: symbolic links are not followed, and
/// only regular files are objects.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring serve /srv/models
  wellspring serve --rate 900M /srv/models         # leave a tenth of a gigabit link to others
  wellspring serve --allow-put /srv/incoming       # with keys: who may, `wellspring key` says
  wellspring serve --insecure --bind 10.0.0.5:4711 /srv/models
  wellspring serve --json --bind 127.0.0.1:0 .     # prints the port it was given")]
pub struct ServeArgs {
    /// The directory whose files are served.
    dir: PathBuf,
    /// Address and port to listen at; port 0 lets the system choose [default: port 4711 of every address with keys
    /// or --insecure, of 127.0.0.1 without].
    #[arg(long, value_name = "ADDR")]
    bind: Option<SocketAddr>,
    /// Accept objects that clients put.
    #[arg(long)]
    allow_put: bool,
    /// Let a put replace an object of the same name (the client must ask for it with --force).
    #[arg(long, requires = "allow_put")]
    allow_overwrite: bool,
    /// Serve (and accept) files and directories whose names begin with a dot.
    #[arg(long)]
    allow_hidden: bool,
    /// Accept names that begin with a dash, or hold characters that are invisible or turn the
    /// direction of writing.
    #[arg(long, requires = "allow_put")]
    allow_odd_names: bool,
    /// Size of an object that is accepted, at most.
    #[arg(long, value_name = "SIZE", default_value = "1T", value_parser = parse_size)]
    max_object: u64,
    /// Objects being received at one time, at most.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_puts: usize,
    /// Size of all objects being received at one time, at most.
    #[arg(long, value_name = "SIZE", default_value = "4T", value_parser = parse_size)]
    max_reserved: u64,
    /// Space that must stay free on the disk.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    keep_free: u64,
    /// Time that what arrived of an object is kept for a put to go on with, in hours.
    #[arg(long, value_name = "HOURS", default_value_t = 168)]
    part_age: u64,
    /// Size of all that is kept so, at most; the oldest goes first. 0 keeps nothing.
    #[arg(long, value_name = "SIZE", default_value = "500G", value_parser = parse_size)]
    part_bytes: u64,
    /// Send no faster than this, over all transfers [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,
    /// Parts of objects being sent by LTTP at one time, at most.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_parts: usize,
    /// Directory of the digest cache [default: $XDG_CACHE_HOME/wellspring or ~/.cache/wellspring].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Interface that receives multicast: its name, or an address of it.
    #[arg(long, value_name = "IF")]
    interface: Option<Interface>,
    #[command(flatten)]
    keys: KeyArgs,
    /// With --insecure: listen at a public address, too.
    #[arg(long, requires = "insecure", help_heading = "Keys")]
    insecure_public: bool,
    #[command(flatten)]
    network: NetworkArgs,
    /// Print events as JSON objects, one a line.
    #[arg(long)]
    json: bool,
}

pub async fn run(args: &ServeArgs, quiet: bool) -> Result<(), Failed> {
    let mut interrupt = Interrupt::new()?;
    let cache = digest_cache(args.cache.as_deref())?;
    let json = args.json;
    let keys = args.keys.load()?;
    let bind = args.keys.bind_address(args.bind, keys.is_some(), args.insecure_public)?;
    let mut config = ServerConfig::new(bind, args.dir.clone());
    config.driver = args.network.server_driver(bind);
    let keyed = keys.is_some();
    config.driver.keys = keys;
    config.driver.scdp.peer_timeout = wellspring_core::Duration::from_millis(
        args.network.timeout.min(LONGEST_WAIT).as_millis() as u64,
    );
    config.driver.lttp.peer_timeout = config.driver.scdp.peer_timeout;
    config.driver.ndp.peer_timeout = config.driver.scdp.peer_timeout;
    config.driver.send_rate = args.rate;
    config.lttp.max_sessions = args.max_parts;
    config.lttp.timeout = args.network.timeout;
    config.driver.socket.multicast_interface = args.interface.clone();
    config.interface = args.interface.clone();
    config.allow_put = args.allow_put;
    config.allow_overwrite = args.allow_overwrite;
    config.allow_hidden = args.allow_hidden;
    config.allow_odd_names = args.allow_odd_names;
    config.cache = Arc::new(cache);
    config.limits = Limits {
        object_len: args.max_object,
        objects: args.max_puts,
        total_len: args.max_reserved,
        keep_free: args.keep_free,
    };
    config.parts.age = std::time::Duration::from_secs(args.part_age.saturating_mul(3_600));
    config.parts.bytes = args.part_bytes;
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
        let keys = if keyed { "" } else { ", without keys" };
        print_line(&format!("serving {} at {address}{takes}{keys}", args.dir.display()));
    }
    interrupt.wait().await;
    if let Ok(Some(counters)) = server.statistics().map(|statistics| statistics.trust) {
        tracing::info!("keys: {counters:?}");
    }
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
        ServerEvent::SentNdp { name, client, stats } => {
            format!("{name}: sent to {client} ({} packets by NDP)", stats.sent)
        }
        ServerEvent::SendingPart { name, client, offset, len } => {
            format!("{name}: sending {} from {offset} on to {client}", bytes(*len))
        }
        ServerEvent::SentPart { name, client, stats } => {
            let (sent, source) = (stats.sent, stats.source);
            format!("{name}: sent to {client} ({sent} symbols for {source})")
        }
        ServerEvent::SendFailed { name, client, reason } => {
            format!("{name}: not sent to {client}: {reason}")
        }
        ServerEvent::Receiving { name, client, size, multicast, resumed } => {
            let way = if *multicast { " by multicast" } else { "" };
            let had = match resumed {
                0 => String::new(),
                resumed => format!(", of which {} were left here", bytes(*resumed)),
            };
            format!("{name}: receiving {}{way} from {client}{had}", bytes(*size))
        }
        ServerEvent::Received { name, client, size, stats: None, .. } if *size > 0 => {
            format!("{name}: {client} offered {} that are here already", bytes(*size))
        }
        ServerEvent::Received { name, client, size, .. } => {
            format!("{name}: received {} from {client}, verified", bytes(*size))
        }
        ServerEvent::ReceiveFailed { name, client, reason } => {
            format!("{name}: not received from {client}: {reason}")
        }
        ServerEvent::Refused { name, client, reason } if name.is_empty() => {
            format!("refused to {client}: {reason}")
        }
        ServerEvent::Refused { name, client, reason } => {
            format!("{name}: refused to {client}: {reason}")
        }
        ServerEvent::Suppressed { what, count } => format!("{count} more events {what}"),
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
        ServerEvent::SentNdp { name, client, stats } => json!({
            "event": "sent", "object": name, "client": client.to_string(),
            "packets_sent": stats.sent, "retransmitted": stats.retransmitted,
            "timed_out": stats.timed_out,
        }),
        ServerEvent::SendingPart { name, client, offset, len } => json!({
            "event": "sending", "object": name, "client": client.to_string(),
            "offset": offset, "length": len,
        }),
        ServerEvent::SentPart { name, client, stats } => json!({
            "event": "sent", "object": name, "client": client.to_string(),
            "symbols_sent": stats.sent, "source_symbols": stats.source,
            "reports": stats.reports, "silences": stats.silences,
        }),
        ServerEvent::SendFailed { name, client, reason } => json!({
            "event": "send_failed", "object": name, "client": client.to_string(), "reason": reason,
        }),
        ServerEvent::Receiving { name, client, size, multicast, resumed } => json!({
            "event": "receiving", "object": name, "client": client.to_string(),
            "size": size, "multicast": multicast, "bytes_resumed": resumed,
        }),
        ServerEvent::Received { name, client, size, stats, socket_dropped } => json!({
            "event": "received", "object": name, "client": client.to_string(), "size": size,
            "symbols_useful": stats.as_ref().map(|s| s.senders.iter().map(|s| s.useful).sum::<u64>()),
            "symbols_redundant": stats.as_ref().map(|s| s.senders.iter().map(|s| s.redundant).sum::<u64>()),
            "symbols_lost": stats.as_ref().map(|s| s.senders.iter().map(|s| s.lost).sum::<u64>()),
            "datagrams_dropped": socket_dropped,
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
        ServerEvent::Suppressed { what, count } => {
            json!({"event": "suppressed", "what": what, "count": count})
        }
        _ => json!({"event": "other"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_here_already_was_not_received() {
        let client = SocketAddr::from(([192, 0, 2, 1], 5_000));
        let event = |stats| ServerEvent::Received {
            name: "x".into(),
            client,
            size: 1_000_000_000,
            stats,
            socket_dropped: 0,
        };
        let offered = to_text(&event(None));
        assert_eq!(offered, "x: 192.0.2.1:5000 offered 1.0 GB that are here already");
        assert!(to_text(&event(Some(Default::default()))).contains("received 1.0 GB"));
    }
}
