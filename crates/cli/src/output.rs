//! Numbers for people, accounts for programs, and the two streams they go to.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};
use wellspring_net::store::Digest;
use wellspring_net::{
    FetchReport, PutReport, ReceiverReport, ReceiverState, ReplicaReport, ReplicaState,
};

/// Standard output, for `write!` and `writeln!`: unlike `println!` it does not panic when its
/// reader goes away or the disk is full.
#[derive(Clone, Copy, Debug)]
pub struct Stdout;

impl Stdout {
    /// What `write!` calls.
    ///
    /// # Errors
    /// The system's; hand it on to [`main`](crate::main), where a closed pipe ends the program
    /// quietly.
    pub fn write_fmt(self, text: fmt::Arguments<'_>) -> Result<(), StdoutError> {
        io::stdout().lock().write_fmt(text).map_err(StdoutError)
    }
}

/// Standard error, for `write!` and `writeln!`: unlike `eprintln!` it does not panic. It may be
/// closed, and that is no reason to fail.
#[derive(Clone, Copy, Debug)]
pub struct Stderr;

impl Stderr {
    /// What `write!` calls.
    pub fn write_fmt(self, text: fmt::Arguments<'_>) {
        let _ = io::stderr().lock().write_fmt(text);
    }
}

/// Standard output cannot be written.
#[derive(Debug)]
pub struct StdoutError(io::Error);

impl StdoutError {
    /// Whether its reader has gone away, as `| head -1` does: it has what it wanted.
    pub fn is_closed(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

impl fmt::Display for StdoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output: {}", self.0)
    }
}

impl std::error::Error for StdoutError {}

/// Bytes in powers of a thousand.
pub fn bytes(count: u64) -> String {
    scaled(count as f64, "B")
}

/// A rate in bit/s.
pub fn bit_rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, "bit/s")
}

fn scaled(value: f64, unit: &str) -> String {
    let mut value = value;
    for prefix in ["", "k", "M", "G"] {
        if value < 999.5 {
            let digits = if prefix.is_empty() || value >= 99.95 { 0 } else { 1 };
            return format!("{value:.digits$} {prefix}{unit}");
        }
        value /= 1_000.0;
    }
    format!("{value:.1} T{unit}")
}

pub fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// What has been fetched, in a line.
pub fn fetched(
    (name, output): (&str, &str),
    (size, digest): (u64, &Digest),
    (elapsed, goodput): (Duration, f64),
) -> String {
    let to = if output == "-" { String::new() } else { format!(" -> {output}") };
    let (time, rate) = (seconds(elapsed), bit_rate(goodput));
    format!("{name}{to}: {} in {time}, {rate}, digest {digest}\n", bytes(size))
}

pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// The fetch's account for programs. Times in seconds, rates in bit/s, overheads as parts.
pub fn fetch_json(name: &str, output: &str, report: &FetchReport) -> Value {
    let useful: u64 = report.useful();
    let replica = |r: &ReplicaReport| {
        let (state, reason) = match &r.state {
            ReplicaState::Served => ("served", None),
            ReplicaState::Lost(reason) => ("lost", Some(reason)),
            ReplicaState::Unused(reason) => ("unused", Some(reason)),
        };
        json!({
            "host": r.host,
            "address": r.address.map(|a| a.to_string()),
            "state": state,
            "reason": reason,
            "losses": r.losses,
            "returns": r.returns,
            "share": part(r.stats.useful, useful),
            "symbols_asked": r.stats.granted,
            "symbols_useful": r.stats.useful,
            "symbols_needless": r.stats.needless,
            "symbols_lost": r.stats.lost,
            "symbols_trimmed": r.stats.trimmed,
        })
    };
    json!({
        "object": name,
        "output": output,
        "bytes": report.size,
        "digest": report.digest.to_string(),
        "seconds": report.elapsed.as_secs_f64(),
        "seconds_preparing": report.preparing.as_secs_f64(),
        "seconds_finishing": report.finishing.as_secs_f64(),
        "goodput_bits_per_second": report.goodput(),
        "symbol_size": report.symbol_size,
        "blocks": report.blocks,
        "blocks_decoded": report.stats.decoded_blocks,
        "blocks_decode_free": report.stats.decode_free_blocks,
        "failed_decodes": report.stats.failed_decodes,
        "symbols_needed": report.stats.needed,
        "symbols_useful": useful,
        "symbols_asked": report.asked(),
        "overhead_needed": report.overhead_needed(),
        "overhead_sent": report.overhead_sent(),
        "replicas": report.replicas.iter().map(replica).collect::<Vec<_>>(),
    })
}

/// The put's account for programs, in the same units.
pub fn put_json(name: &str, report: &PutReport) -> Value {
    let receiver = |r: &ReceiverReport| {
        let (state, after, reason) = match &r.state {
            ReceiverState::Complete(after) => ("complete", Some(after.as_secs_f64()), None),
            ReceiverState::Failed(reason) => ("failed", None, Some(reason)),
            ReceiverState::Unfinished => ("unfinished", None, None),
        };
        json!({
            "host": r.host,
            "address": r.address.map(|a| a.to_string()),
            "state": state,
            "seconds": after,
            "reason": reason,
            "detached": r.detached,
            "blocks_done": r.blocks.0,
            "blocks": r.blocks.1,
        })
    };
    let sent = report.stats.source_symbols + report.stats.repair_symbols;
    json!({
        "object": name,
        "bytes": report.size,
        "digest": report.digest.to_string(),
        "seconds": report.elapsed.as_secs_f64(),
        "seconds_to_quorum": report.quorum_after.map(|t| t.as_secs_f64()),
        "receivers_needed": report.needed,
        "receivers_complete": report.complete(),
        "goodput_bits_per_second": report.goodput(),
        "symbols_needed": report.symbols_needed,
        "symbols_sent": sent,
        "source_symbols_sent": report.stats.source_symbols,
        "repair_symbols_sent": report.stats.repair_symbols,
        "pulls": report.stats.pulls,
        "overhead_sent": report.overhead_sent(),
        "receivers": report.receivers.iter().map(receiver).collect::<Vec<_>>(),
    })
}

/// `count` of `whole`, from 0 to 1.
pub fn part(count: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { count as f64 / whole as f64 }
}

/// A table with its columns lined up: the first to the left, the others to the right.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_fitting_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(123_456_789), "123 MB");
        assert_eq!(bytes(2_000_000_000_000), "2.0 TB");
        assert_eq!(bit_rate(9.4e8), "940 Mbit/s");
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure_wherever_it_is_noticed() {
        use crate::exit::Failed;
        let gone = || StdoutError(io::ErrorKind::BrokenPipe.into());
        let deep = anyhow::Error::from(gone()).context("a table");
        for failed in [Failed::from(gone()), Failed::from(deep)] {
            assert_eq!((failed.status, failed.message), (0, None));
        }
        assert_eq!(Failed::from(StdoutError(io::ErrorKind::StorageFull.into())).status, 1);
    }

    #[test]
    fn tables_line_up() {
        let rows = [vec!["a".into(), "1".into()], vec!["long".into(), "22".into()]];
        assert_eq!(table(&rows), "a      1\nlong  22\n");
    }
}
