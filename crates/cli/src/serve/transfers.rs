//! The transfers of a server as JSON, for `wellspring top`.

use serde_json::{Value, json};
use wellspring_net::protocols::Account;
use wellspring_server::{Direction, Protocol, RunningTransfer, Server, TransferState};

/// Transfers on a page, at most.
const MOST: usize = 256;
/// Longest name of an object on a page, in characters; what is longer is cut.
const LONGEST_NAME: usize = 256;

/// What the server does at this moment; `None` if it has stopped.
pub fn of(server: &Server) -> Option<String> {
    let (statistics, counters) = (server.statistics().ok()?, server.counters());
    let transfers = server.transfers(MOST).ok()?;
    let page = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "address": server.local_addr().to_string(),
        "stopping": server.is_draining(),
        "sending": counters.sending,
        "receiving": counters.receiving,
        "refused": counters.refused.values().sum::<u64>(),
        "sent_bytes": statistics.sent.bytes,
        "received_bytes": statistics.received.bytes,
        "transfers": transfers.iter().map(transfer).collect::<Vec<_>>(),
    });
    Some(page.to_string())
}

/// Sessions have no numbers here: whoever knows one can disturb its transfer.
fn transfer(transfer: &RunningTransfer) -> Value {
    let direction = match transfer.direction {
        Direction::Send => "send",
        Direction::Receive => "receive",
    };
    let protocol = match transfer.protocol {
        Protocol::Scdp => "SCDP",
        Protocol::Ndp => "NDP",
        Protocol::Lttp => "LTTP",
    };
    let state = match transfer.state {
        TransferState::Opening => "opening",
        TransferState::Checking => "checking",
        TransferState::Moving => "moving",
        TransferState::Verifying => "verifying",
    };
    let (sent, received) = match &transfer.account {
        None => (None, None),
        Some(Account::Sent(stats)) => (Some(stats), None),
        Some(Account::Received(stats)) => (None, Some(stats)),
    };
    let sum = |of: fn(&wellspring_transport::scdp::SenderStats) -> u64| {
        received.map(|stats| stats.senders.iter().map(of).sum::<u64>())
    };
    json!({
        "number": transfer.number,
        "client": transfer.client.to_string(),
        "object": transfer.name.chars().take(LONGEST_NAME).collect::<String>(),
        "direction": direction,
        "protocol": protocol,
        "state": state,
        "size": transfer.size,
        "done": transfer.done,
        "moved": transfer.moved,
        "multicast": transfer.multicast,
        "blocks_done": transfer.blocks.map(|(done, _)| done),
        "blocks": transfer.blocks.map(|(_, all)| all),
        "blocks_decoded": received.map(|stats| stats.decoded_blocks),
        "source_symbols": sent.map(|stats| stats.source_symbols),
        "repair_symbols": sent.map(|stats| stats.repair_symbols),
        "symbols_useful": sum(|sender| sender.useful),
        "symbols_redundant": sum(|sender| sender.redundant),
        "symbols_lost": sum(|sender| sender.lost + sender.trimmed),
    })
}
