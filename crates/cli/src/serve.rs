//! `wellspring serve`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use wellspring_net::store::{DigestCache, Limits};
use wellspring_net::{Server, ServerConfig, ServerEvent};

use crate::args::ServeArgs;
use crate::exit::Failed;
use crate::interrupt::Interrupt;
use crate::output::bytes;

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
    let server = Server::bind(config).await?;
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

/// Prints a line at once. Whoever read our output may have gone: the server goes on serving.
pub fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
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
