//! LTTP's part of `wellspring get`.

use clap::ValueEnum;
use serde_json::{Value, json};
use wellspring_console::output::table;
use wellspring_console::units::{bytes, percent};
use wellspring_core::DropReason;
use wellspring_net::{LttpReport, Method};

use crate::transfer::Fetched;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DecoderArg {
    /// Forgets what it knows when a symbol comes: needs ten times as many, as LTTP's Fig. 5 shows.
    Standard,
    /// Belief propagation in rounds over what has come.
    Rounds,
    /// Belief propagation with every symbol: LTTP's algorithm 2.
    Improved,
    /// Belief propagation, and Gaussian elimination where it stops: needs the fewest symbols.
    Elimination,
}

impl DecoderArg {
    pub fn method(self) -> Method {
        match self {
            DecoderArg::Standard => Method::Standard,
            DecoderArg::Rounds => Method::Rounds,
            DecoderArg::Improved => Method::Improved,
            DecoderArg::Elimination => Method::Elimination,
        }
    }
}

/// The account for programs. Times in seconds, rates in bit/s, overheads as parts.
pub fn account(fetched: &Fetched<'_>, report: &LttpReport) -> Value {
    let share = |share: &wellspring_net::PartReport| {
        json!({
            "host": share.host,
            "address": share.address.to_string(),
            "offset": share.offset,
            "length": share.len,
            "symbols_needed": share.stats.source,
            "symbols_used": share.stats.symbols,
            "symbols_redundant": share.stats.redundant,
            "symbols_twice": share.stats.duplicates,
            "reports": share.stats.reports,
        })
    };
    let unused =
        |host: &wellspring_net::HostError| json!({"host": host.host, "reason": host.reason});
    let lost = |lost: &wellspring_net::LostServer| json!({"host": lost.host.host, "reason": lost.host.reason, "bytes": lost.bytes});
    let received = &report.socket.received;
    fetched.account(json!({
        "transfer_bits_per_second": report.transfer_rate(),
        "symbol_size": report.symbol_size,
        "block_symbols": report.block_symbols,
        "decoder": report.method.name(),
        "symbols_needed": report.needed(),
        "symbols_used": report.used(),
        "symbols_redundant": report.redundant(),
        "overhead": report.overhead(),
        "datagrams_received": received.datagrams,
        "datagrams_malformed": received.malformed,
        "datagrams_unknown_cookie":
            received.dropped.get(&DropReason::UnknownSession).copied().unwrap_or(0),
        "datagrams_wrong_address": received.strangers,
        "shares": report.parts.iter().map(share).collect::<Vec<_>>(),
        "lost": report.lost.iter().map(lost).collect::<Vec<_>>(),
        "unused": report.unused.iter().map(unused).collect::<Vec<_>>(),
    }))
}

pub fn summary(fetched: &Fetched<'_>, report: &LttpReport) -> String {
    let mut text = fetched.line();
    if report.size == 0 {
        return text;
    }
    text.push_str(&format!(
        "{} symbols needed, {} used ({} over), {} redundant\n",
        report.needed(),
        report.used(),
        percent(report.overhead()),
        report.redundant(),
    ));
    if report.parts.len() > 1 {
        let head = ["server", "share", "used", "redundant", "reports"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for share in &report.parts {
            rows.push(vec![
                share.host.clone(),
                bytes(share.len),
                share.stats.symbols.to_string(),
                share.stats.redundant.to_string(),
                share.stats.reports.to_string(),
            ]);
        }
        text.push_str(&table(&rows));
    }
    text
}
