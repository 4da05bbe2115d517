//! Reports of `wellspring get`: a summary for people, an object for programs.

use serde_json::{Value, json};
use wellspring_client::{FetchReport, ProtocolReport, ReplicaReport, ReplicaState, ScdpReport};
use wellspring_console::output::table;
use wellspring_console::units::{bit_rate, bytes, part, percent, seconds};
use wellspring_net::driver::{ReceivePath, Statistics};
use wellspring_transport::ndp;

use super::lttp;

/// Silence at the end of a transfer that is worth mentioning \[s\].
const SILENT: f64 = 0.5;

/// A fetch that has succeeded.
pub struct Fetched<'a> {
    /// The object's name.
    pub name: &'a str,
    /// Where it went; `-` is standard output.
    pub output: &'a str,
    pub report: &'a FetchReport,
}

impl Fetched<'_> {
    /// For people.
    pub fn summary(&self) -> String {
        let FetchReport { size, range, digest, elapsed, .. } = self.report;
        let to = if self.output == "-" { String::new() } else { format!(" -> {}", self.output) };
        let (len, time) = (bytes(self.report.len()), seconds(*elapsed));
        let rate = bit_rate(self.report.goodput());
        let part = match *range == (0..*size) {
            true => String::new(),
            false => format!(" (bytes {}-{} of {size})", range.start, range.end - 1),
        };
        let line = format!("{}{to}: {len}{part} in {time}, {rate}, digest {digest}\n", self.name);
        if self.report.size == 0 {
            return line;
        }
        line + &match &self.report.protocol {
            ProtocolReport::Scdp(scdp) => scdp_summary(self.report, scdp),
            ProtocolReport::Lttp(report) => lttp::summary(report),
            ProtocolReport::Ndp(stats) => format!(
                "{} packets, {} trimmed, {} came twice, {} pulls\n",
                stats.packets, stats.trimmed, stats.duplicates, stats.pulls,
            ),
            _ => String::new(),
        }
    }

    /// For programs. Times in seconds, rates in bit/s, overheads as parts.
    pub fn to_json(&self, statistics: Option<&Statistics>) -> Value {
        let report = self.report;
        let sees_trims = |s: &Statistics| s.receive_path == ReceivePath::SocketAndTap;
        let mut object = json!({
            "object": self.name,
            "output": self.output,
            "bytes": report.len(),
            "first_byte": report.range.start,
            "object_bytes": report.size,
            "bytes_resumed": report.resumed,
            "digest": report.digest.to_string(),
            "seconds": report.elapsed.as_secs_f64(),
            "seconds_preparing": report.preparing.as_secs_f64(),
            "seconds_finishing": report.finishing.as_secs_f64(),
            "goodput_bits_per_second": report.goodput(),
            "transfer_bits_per_second": report.transfer_rate(),
            "symbol_size": report.symbol_size,
            "trims_seen": statistics.is_some_and(sees_trims),
            "replicas": report.replicas.iter().map(|r| replica(r, report)).collect::<Vec<_>>(),
        });
        let added = match &report.protocol {
            ProtocolReport::Scdp(report) => scdp_json(report),
            ProtocolReport::Lttp(report) => lttp::to_json(report, statistics),
            ProtocolReport::Ndp(stats) => ndp_json(stats),
            _ => Value::Null,
        };
        if let (Some(object), Value::Object(added)) = (object.as_object_mut(), added) {
            object.extend(added);
        }
        object
    }
}

/// A host that took part to the end, as far as anybody knows: one that died in the last seconds of
/// a transfer was only silent.
fn served(useful: u64, silent: wellspring_core::Duration) -> String {
    let state = if useful == 0 { "sent nothing useful" } else { "served" };
    let seconds = silent.as_secs_f64();
    if seconds < SILENT {
        return state.to_owned();
    }
    format!("{state}, silent for the last {seconds:.1} s")
}

fn scdp_summary(report: &FetchReport, scdp: &ScdpReport) -> String {
    let mut text = format!(
        "{} symbols needed, {} useful ({} over), {} asked for ({} over); {} blocks, {} decoded\n",
        scdp.stats.needed,
        scdp.useful(),
        percent(scdp.overhead_needed()),
        scdp.asked(),
        percent(scdp.overhead_sent()),
        scdp.blocks,
        scdp.stats.decoded_blocks,
    );
    if report.resumed > 0 {
        let (had, size) = (bytes(report.resumed), bytes(report.size));
        text.push_str(&format!("{had} of {size} were there from an earlier fetch\n"));
    }
    if report.replicas.len() > 1 {
        let head = ["replica", "share", "useful", "redundant", "lost", "state"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for replica in &report.replicas {
            let stats = replica.stats.unwrap_or_default();
            let state = match &replica.state {
                ReplicaState::Served if replica.losses > 0 => {
                    format!("served (lost {}x, back {}x)", replica.losses, replica.returns)
                }
                ReplicaState::Served => served(stats.useful, stats.silent),
                ReplicaState::Lost(reason) => format!("lost: {reason}"),
                ReplicaState::Unused(reason) => format!("unused: {reason}"),
                ReplicaState::Excluded(reason) => format!("excluded: {reason}"),
            };
            rows.push(vec![
                replica.host.clone(),
                percent(part(stats.useful, scdp.useful())),
                stats.useful.to_string(),
                stats.redundant.to_string(),
                stats.lost.to_string(),
                state,
            ]);
        }
        text.push_str(&table(&rows));
    }
    text
}

fn replica(replica: &ReplicaReport, report: &FetchReport) -> Value {
    let (state, reason) = match &replica.state {
        ReplicaState::Served => ("served", None),
        ReplicaState::Lost(reason) => ("lost", Some(reason)),
        ReplicaState::Unused(reason) => ("unused", Some(reason)),
        ReplicaState::Excluded(reason) => ("excluded", Some(reason)),
    };
    let mut object = json!({
        "host": replica.host,
        "address": replica.address.map(|a| a.to_string()),
        "state": state,
        "reason": reason,
        "losses": replica.losses,
    });
    let Some(scdp) = report.scdp() else { return object };
    let stats = replica.stats.unwrap_or_default();
    object["returns"] = replica.returns.into();
    object["altered"] = replica.altered.into();
    object["seconds_silent"] = stats.silent.as_secs_f64().into();
    object["share"] = part(stats.useful, scdp.useful()).into();
    object["symbols_asked"] = stats.granted.into();
    object["symbols_useful"] = stats.useful.into();
    object["symbols_redundant"] = stats.redundant.into();
    object["symbols_lost"] = stats.lost.into();
    object["symbols_trimmed"] = stats.trimmed.into();
    object
}

fn scdp_json(report: &ScdpReport) -> Value {
    json!({
        "blocks": report.blocks,
        "blocks_decoded": report.stats.decoded_blocks,
        "blocks_decode_free": report.stats.decode_free_blocks,
        "failed_decodes": report.stats.failed_decodes,
        "symbols_needed": report.stats.needed,
        "symbols_useful": report.useful(),
        "symbols_asked": report.asked(),
        "overhead_needed": report.overhead_needed(),
        "overhead_sent": report.overhead_sent(),
    })
}

fn ndp_json(stats: &ndp::ReceiveStats) -> Value {
    json!({
        "packets": stats.packets,
        "packets_trimmed": stats.trimmed,
        "packets_twice": stats.duplicates,
        "pulls": stats.pulls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_fell_silent_at_the_end_is_said_to_be_silent() {
        let after = |useful, millis| served(useful, wellspring_core::Duration::from_millis(millis));
        assert_eq!(after(9, 3), "served");
        assert_eq!(after(9, 1_900), "served, silent for the last 1.9 s");
        assert_eq!(after(0, 2_200), "sent nothing useful, silent for the last 2.2 s");
    }
}
