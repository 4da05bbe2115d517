//! Accounts of transfers, and listings, as Python takes them: JSON.

use std::net::SocketAddr;

use serde_json::{Value, json};
use wellspring_client::{
    FetchReport, PutReport, PutTreeReport, ReceiverState, ReplicaReport, ReplicaState, TreeListing,
    TreeReport,
};
use wellspring_net::store::Digest;
use wellspring_net::store::tree::listing::{Content, Cursor, Entry, SkipReason};

pub fn of_report(report: &FetchReport) -> Value {
    let scdp = report.scdp();
    json!({
        "size": report.size,
        "start": report.range.start,
        "end": report.range.end,
        "digest": report.digest.to_string(),
        "seconds": report.elapsed.as_secs_f64(),
        "goodput": report.goodput(),
        "resumed": report.resumed,
        "symbol_size": report.symbol_size,
        "blocks": scdp.map(|scdp| scdp.blocks),
        "blocks_decoded": scdp.map(|scdp| scdp.stats.decoded_blocks),
        "overhead": scdp.map(|scdp| scdp.overhead_sent()),
        "replicas": report.replicas.iter().map(of_replica).collect::<Vec<_>>(),
    })
}

fn of_replica(replica: &ReplicaReport) -> Value {
    let (state, reason) = match &replica.state {
        ReplicaState::Served => ("served", None),
        ReplicaState::Lost(reason) => ("lost", Some(reason)),
        ReplicaState::Unused(reason) => ("unused", Some(reason)),
        ReplicaState::Excluded(reason) => ("excluded", Some(reason)),
    };
    json!({
        "host": replica.host,
        "address": replica.address.map(|address| address.to_string()),
        "state": state,
        "reason": reason,
        "symbols": replica.stats.map_or(0, |stats| stats.useful),
        "losses": replica.losses,
        "altered": replica.altered,
        "seconds_silent": replica.stats.map_or(0.0, |stats| stats.silent.as_secs_f64()),
    })
}

pub fn of_tree_report(report: &TreeReport) -> Value {
    json!({
        "files": report.files,
        "bytes": report.bytes,
        "files_fetched": report.fetched_files,
        "bytes_fetched": report.fetched_bytes,
        "removed": report.removed,
        "skipped": of_skipped(&report.skipped),
        "seconds": report.elapsed.as_secs_f64(),
    })
}

fn of_receiver(host: &str, address: Option<SocketAddr>, state: &ReceiverState) -> Value {
    let (state, reason, seconds) = match state {
        ReceiverState::Complete(after) => ("complete", None, Some(after.as_secs_f64())),
        ReceiverState::Failed(reason) => ("failed", Some(reason), None),
        ReceiverState::Unfinished => ("unfinished", None, None),
    };
    json!({
        "host": host,
        "address": address.map(|address| address.to_string()),
        "state": state,
        "reason": reason,
        "seconds": seconds,
    })
}

pub fn of_put_tree_report(report: &PutTreeReport) -> Value {
    let receivers = report.receivers.iter().map(|r| of_receiver(&r.host, None, &r.state));
    json!({
        "files": report.files,
        "bytes": report.bytes,
        "files_sent": report.sent_files,
        "bytes_sent": report.sent_bytes,
        "skipped": of_skipped(&report.skipped),
        "seconds": report.elapsed.as_secs_f64(),
        "complete": report.complete(),
        "receivers": receivers.collect::<Vec<_>>(),
    })
}

fn of_skipped(skipped: &[(String, SkipReason)]) -> Value {
    skipped.iter().map(|(path, reason)| json!([path, reason.to_string()])).collect()
}

pub fn of_put_report(report: &PutReport) -> Value {
    let receivers = report.receivers.iter().map(|r| of_receiver(&r.host, r.address, &r.state));
    json!({
        "size": report.size,
        "digest": report.digest.to_string(),
        "seconds": report.elapsed.as_secs_f64(),
        "goodput": report.goodput(),
        "complete": report.complete(),
        "overhead": report.overhead_sent(),
        "receivers": receivers.collect::<Vec<_>>(),
    })
}

pub fn entries(listing: &TreeListing) -> Result<Value, String> {
    let wrong = |error| format!("the host sent {error}");
    let mut cursor = Cursor::new(&listing.bytes).map_err(wrong)?;
    let mut entries = Vec::new();
    while let Some(entry) = cursor.next_entry().map_err(wrong)? {
        entries.push(of_entry(&entry));
    }
    Ok(Value::Array(entries))
}

fn of_entry(entry: &Entry<'_>) -> Value {
    let (kind, size, digest, more) = match entry.content {
        Content::Directory => ("directory", None, None, None),
        Content::File { size, digest } => {
            ("file", Some(size), digest.map(|digest| Digest(digest).to_string()), None)
        }
        Content::Link { target } => ("link", None, None, Some(target.to_owned())),
        Content::Skipped(reason) => ("skipped", None, None, Some(reason.to_string())),
    };
    let modified = entry.modified.seconds as f64 + f64::from(entry.modified.nanos) / 1e9;
    json!({
        "path": entry.path,
        "kind": kind,
        "size": size,
        "mode": entry.mode,
        "modified": modified,
        "digest": digest,
        "detail": more,
    })
}
