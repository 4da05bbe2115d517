//! LTTP's part of `wellspring get`.

use clap::ValueEnum;
use serde_json::{Value, json};
use wellspring_client::{LttpReport, Method, PartReport};
use wellspring_console::output::table;
use wellspring_console::units::{bytes, percent};
use wellspring_core::DropReason;
use wellspring_net::driver::Statistics;

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

/// What LTTP adds to the object for programs. Times in seconds, overheads as parts.
pub fn to_json(report: &LttpReport, statistics: Option<&Statistics>) -> Value {
    let share = |share: &PartReport| {
        let stats = share.stats.as_ref();
        json!({
            "host": share.host,
            "address": share.address.to_string(),
            "offset": share.offset,
            "length": share.len,
            "symbols_needed": stats.map(|s| s.source),
            "symbols_used": stats.map(|s| s.symbols),
            "symbols_redundant": stats.map(|s| s.redundant),
            "symbols_twice": stats.map(|s| s.duplicates),
            "reports": stats.map(|s| s.reports),
        })
    };
    let received = statistics.map(|statistics| &statistics.received);
    let unknown = |reason| received.and_then(|r| r.dropped.get(&reason).copied()).unwrap_or(0);
    json!({
        "block_symbols": report.block_symbols,
        "decoder": report.method.name(),
        "symbols_needed": report.needed(),
        "symbols_used": report.used(),
        "symbols_redundant": report.redundant(),
        "overhead": report.overhead(),
        "datagrams_received": received.map(|r| r.datagrams),
        "datagrams_malformed": received.map(|r| r.malformed),
        "datagrams_unknown_cookie": unknown(DropReason::UnknownSession),
        "datagrams_wrong_address": received.map(|r| r.strangers),
        "shares": report.parts.iter().map(share).collect::<Vec<_>>(),
    })
}

/// What LTTP adds to the summary for people.
pub fn summary(report: &LttpReport) -> String {
    let mut text = format!(
        "{} symbols needed, {} used ({} over), {} redundant\n",
        report.needed(),
        report.used(),
        percent(report.overhead()),
        report.redundant(),
    );
    if report.parts.len() > 1 {
        let head = ["server", "share", "used", "redundant", "reports"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for share in &report.parts {
            let counters = share.stats.as_ref().map(|s| [s.symbols, s.redundant, s.reports]);
            let counters =
                counters.map_or([const { String::new() }; 3], |c| c.map(|n| n.to_string()));
            let (host, len) = (share.host.clone(), bytes(share.len));
            rows.push([host, len].into_iter().chain(counters).collect());
        }
        text.push_str(&table(&rows));
    }
    text
}
