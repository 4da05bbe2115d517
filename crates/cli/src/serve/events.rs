//! Events of a server as lines of text and as JSON.

use serde_json::{Value, json};
use wellspring_console::units::bytes;
use wellspring_server::ServerEvent;

pub fn to_text(event: &ServerEvent) -> String {
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

pub fn to_json(event: &ServerEvent) -> Value {
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
    use std::net::SocketAddr;

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
