//! Result tables: one row a run, one row a flow.

use crate::observe::{end, table};
use crate::record::{FlowRecord, Reason};
use crate::run::{Outcome, Stuck};
use crate::scenario::{Run, Scenario, Topology, TopologyKind, Workload};
use crate::stats::{RANKS, mean, of_some, quantile, share_above};
use anyhow::Result;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One run in a row. `requests` are all that were announced; those that did not complete are in
/// `missing`, in words by their reasons, and `failed` counts those of them that were not merely cut
/// off by the end of the run. Rates in Gbit/s, times in milliseconds, queues in packets (0 unless
/// `run.sample` is set). Of two protocols in one run, what requests attained, from `goodput_mean` to
/// `trimmed_per_request`, is of those over `protocol`; of those over the TCP beside it `beside_...`.
/// A statistic of no requests is none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "column names")]
pub struct RunRow {
    pub version: String,
    pub scenario: String,
    pub hash: String,
    pub seed: u64,
    pub protocol: String,
    pub beside: String,
    pub window: u16,
    pub delay_us: Option<f64>,
    pub lambda: f64,
    pub size: u64,
    pub background: f64,
    pub requests: usize,
    pub completed: usize,
    pub failed: usize,
    pub missing: String,
    pub stuck: bool,
    pub simulated_s: f64,
    #[serde(deserialize_with = "above_zero")]
    pub goodput_mean: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub goodput_p5: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub goodput_p25: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub goodput_p50: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub goodput_p75: Option<f64>,
    pub share_above_0_9: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub fct_mean: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub fct_p50: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub fct_p99: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub fct_max: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub fct_mean_10kb: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub fct_p99_10kb: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub fct_mean_100kb: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub fct_p99_100kb: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub fct_mean_1mb: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub goodput_1mb_10mb: Option<f64>,
    pub background_goodput: Option<f64>,
    pub decoded_share: Option<f64>,
    pub redundant: u64,
    pub trimmed_per_request: Option<f64>,
    pub beside_requests: usize,
    pub beside_completed: usize,
    pub beside_failed: usize,
    #[serde(deserialize_with = "above_zero")]
    pub beside_goodput_mean: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub beside_fct_mean: Option<f64>,
    #[serde(deserialize_with = "above_zero")]
    pub beside_fct_p99: Option<f64>,
    pub downlink_utilisation: f64,
    pub queue_mean: f64,
    pub queue_max: u32,
    pub events: u64,
    pub packet_hops: u64,
    pub trimmed: u64,
    pub marked: u64,
    pub dropped: u64,
    pub timeouts: usize,
    pub digest: String,
    pub parameters: String,
    /// What the scenario's sweep varies, as (key, value): further columns of the table.
    #[serde(skip)]
    pub swept: Vec<(String, String)>,
    /// What is known of requests that were stuck.
    #[serde(skip)]
    pub stuck_state: Option<Stuck>,
    /// Goodputs of completed requests by rank, worst first, and their completion times, shortest
    /// first: a table of its own.
    #[serde(skip)]
    pub goodputs: Vec<f64>,
    #[serde(skip)]
    pub times: Vec<f64>,
    /// Whether it was made now, and not read from a table.
    #[serde(skip)]
    pub fresh: bool,
}

impl RunRow {
    /// Sums a run up.
    pub fn new(scenario: &Scenario, outcome: &Outcome) -> RunRow {
        let is_done = |f: &&FlowRecord| f.completion().is_some() && f.reason.is_none();
        let (tcp, done): (Vec<_>, Vec<_>) =
            outcome.foreground().filter(is_done).partition(|f| f.beside);
        let goodputs: Vec<f64> = done.iter().map(|f| f.goodput() / 1e9).collect();
        let times = |least: u64, most: u64| -> Vec<f64> {
            let within = done.iter().filter(|f| f.bytes > least && f.bytes <= most);
            within.filter_map(|f| f.completion()).map(|t| t * 1e3).collect()
        };
        let (all, medium) = (times(0, u64::MAX), times(0, 1_000_000));
        let (shortest, short) = (times(0, 10_000), times(0, 100_000));
        let long = done.iter().filter(|f| f.bytes > 1_000_000 && f.bytes <= 10_000_000);
        let long: Vec<f64> = long.map(|f| f.goodput() / 1e9).collect();
        let background: Vec<f64> =
            outcome.background_goodputs().iter().map(|goodput| goodput / 1e9).collect();
        let decoded = done.iter().filter(|f| f.account.decoded_blocks > 0).count();
        let (lambda, size) = match &scenario.workload {
            Workload::Flows { lambda, .. } => (*lambda, 0),
            Workload::Storage { lambda, size, .. } => (*lambda, size.0),
            Workload::Permutation { size }
            | Workload::Single { size, .. }
            | Workload::Incast { size, .. }
            | Workload::Outcast { size, .. } => (0.0, size.0),
            Workload::Convergence { .. } | Workload::Trace { .. } => (0.0, 0),
        };
        let tcp_times: Vec<f64> =
            tcp.iter().filter_map(|f| f.completion()).map(|t| t * 1e3).collect();
        let tcp_goodputs: Vec<f64> = tcp.iter().map(|f| f.goodput() / 1e9).collect();
        let beside = scenario.beside.as_ref().map_or("", |beside| beside.protocol.name.as_str());
        let reasons = reasons(outcome);
        let failed = |counts: fn(bool) -> bool| {
            let those = reasons.iter().filter(|((of, why), _)| counts(*of) && has_failed(*why));
            those.map(|(_, count)| count).sum()
        };
        let trims: Vec<f64> = done.iter().map(|f| f.account.trimmed as f64).collect();
        RunRow {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.name.clone(),
            hash: scenario.hash(),
            seed: outcome.seed,
            protocol: scenario.protocol.name.as_str().to_owned(),
            beside: beside.to_owned(),
            window: scenario.protocol.initial_window(),
            delay_us: delay_us(&scenario.topology),
            lambda,
            size,
            background: scenario.background.fraction,
            requests: outcome.foreground().count() + outcome.not_made as usize,
            completed: done.len() + tcp.len(),
            failed: failed(|_| true),
            missing: missing(&reasons, beside, outcome),
            stuck: outcome.stuck.is_some(),
            simulated_s: outcome.simulated,
            goodput_mean: of_some(&goodputs, mean),
            goodput_p5: of_some(&goodputs, |all| quantile(all, 0.05)),
            goodput_p25: of_some(&goodputs, |all| quantile(all, 0.25)),
            goodput_p50: of_some(&goodputs, |all| quantile(all, 0.5)),
            goodput_p75: of_some(&goodputs, |all| quantile(all, 0.75)),
            share_above_0_9: of_some(&goodputs, |all| share_above(all, 0.9)),
            fct_mean: of_some(&all, mean),
            fct_p50: of_some(&all, |all| quantile(all, 0.5)),
            fct_p99: of_some(&all, |all| quantile(all, 0.99)),
            fct_max: of_some(&all, |all| quantile(all, 1.0)),
            fct_mean_10kb: of_some(&shortest, mean),
            fct_p99_10kb: of_some(&shortest, |all| quantile(all, 0.99)),
            fct_mean_100kb: of_some(&short, mean),
            fct_p99_100kb: of_some(&short, |all| quantile(all, 0.99)),
            fct_mean_1mb: of_some(&medium, mean),
            goodput_1mb_10mb: of_some(&long, mean),
            background_goodput: of_some(&background, mean),
            decoded_share: of_some(&done, |all| decoded as f64 / all.len() as f64),
            redundant: done.iter().map(|f| f.account.redundant).sum(),
            trimmed_per_request: of_some(&trims, mean),
            beside_requests: beside_requests(outcome),
            beside_completed: tcp.len(),
            beside_failed: failed(|is_beside| is_beside),
            beside_goodput_mean: of_some(&tcp_goodputs, mean),
            beside_fct_mean: of_some(&tcp_times, mean),
            beside_fct_p99: of_some(&tcp_times, |all| quantile(all, 0.99)),
            downlink_utilisation: outcome.downlink_utilisation,
            queue_mean: outcome.series.queue_packets().0,
            queue_max: outcome.series.queue_packets().1,
            events: outcome.counters.events,
            packet_hops: outcome.counters.packet_hops,
            trimmed: outcome.counters.trimmed,
            marked: outcome.counters.marked,
            dropped: outcome.counters.dropped(),
            timeouts: outcome.timeouts.len(),
            digest: format!("{:016x}", outcome.counters.digest),
            parameters: parameters(scenario, outcome.seed),
            swept: scenario.swept.clone(),
            stuck_state: outcome.stuck.clone(),
            goodputs: ranks(&goodputs),
            times: ranks(&all),
            fresh: true,
        }
    }

    /// What the table of runs holds of it.
    pub(crate) fn bare(&self) -> RunRow {
        RunRow {
            swept: Vec::new(),
            stuck_state: None,
            goodputs: Vec::new(),
            times: Vec::new(),
            fresh: false,
            ..self.clone()
        }
    }

    /// The protocol, and the one beside it if there is one, for people.
    pub fn protocols(&self) -> String {
        match self.beside.as_str() {
            "" => self.protocol.clone(),
            beside => format!("{} with {beside} beside it", self.protocol),
        }
    }

    /// Requests that neither completed nor failed.
    pub fn unfinished(&self) -> usize {
        self.requests.saturating_sub(self.completed + self.failed)
    }
}

/// Of every link; links of a graph have their own.
fn delay_us(topology: &Topology) -> Option<f64> {
    let picos = topology.delay.0.as_picos() as f64;
    (topology.kind != TopologyKind::Graph).then_some(picos / 1e6)
}

/// A time or a goodput, which cannot be 0: earlier versions wrote that where there was none.
fn above_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.filter(|value| *value > 0.0))
}

/// The values at equally many steps of rank, from the least to the greatest; none of none.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    (0..=RANKS).map(|rank| sorted[rank * last / RANKS]).collect()
}

/// Requests that were announced over the TCP beside the protocol.
fn beside_requests(outcome: &Outcome) -> usize {
    outcome.foreground().filter(|flow| flow.beside).count() + outcome.not_made_beside as usize
}

/// Whether it ended a request, and not the run did.
fn has_failed(reason: Reason) -> bool {
    !matches!(reason, Reason::Stuck | Reason::Limit)
}

/// How many requests did not complete, those of the protocol before those of the TCP beside it.
fn reasons(outcome: &Outcome) -> BTreeMap<(bool, Reason), usize> {
    let mut counts = BTreeMap::new();
    for flow in outcome.foreground() {
        if let Some(reason) = flow.reason {
            *counts.entry((flow.beside, reason)).or_default() += 1;
        }
    }
    counts
}

/// Requests that did not complete, in words: those over the TCP `beside` the protocol say so.
fn missing(reasons: &BTreeMap<(bool, Reason), usize>, beside: &str, outcome: &Outcome) -> String {
    let line = |((is_beside, reason), count): (&(bool, Reason), &usize)| match is_beside {
        false => format!("{count} {}", reason.as_str()),
        true => format!("{count} beside, over {beside}, {}", reason.as_str()),
    };
    let mut words: Vec<String> = reasons.iter().map(line).collect();
    let Outcome { not_made, not_made_beside, .. } = outcome;
    let ended = "not made before the run ended";
    if not_made > not_made_beside {
        words.push(format!("{} {ended}", not_made - not_made_beside));
    }
    if *not_made_beside > 0 {
        words.push(format!("{not_made_beside} beside, over {beside}, {ended}"));
    }
    words.join("; ")
}

/// Everything that a run was made of, with its own seed: a scenario's list may be long.
fn parameters(scenario: &Scenario, seed: u64) -> String {
    let run = Run { seeds: vec![seed], ..scenario.run.clone() };
    let one = Scenario { run, ..scenario.clone() };
    toml::to_string(&one).unwrap_or_default().replace('\n', ";")
}

/// Columns of a table of flows.
pub const FLOW_COLUMNS: [&str; 17] = [
    "version",
    "hash",
    "seed",
    "protocol",
    "beside",
    "kind",
    "host",
    "peer",
    "bytes",
    "start_s",
    "end_s",
    "goodput_gbps",
    "trimmed",
    "redundant",
    "decoded_blocks",
    "failed",
    "reason",
];

/// Writes one row a flow, compressed.
///
/// # Errors
/// Those of the file.
pub fn write_flows(path: &Path, scenario: &Scenario, outcome: &Outcome) -> Result<()> {
    let mut table = table(path)?;
    table.write_record(FLOW_COLUMNS)?;
    let (hash, seed) = (scenario.hash(), outcome.seed.to_string());
    for flow in &outcome.flows {
        table.write_record([
            env!("CARGO_PKG_VERSION"),
            &hash,
            &seed,
            flow.protocol.as_str(),
            &flow.beside.to_string(),
            flow.kind,
            &flow.host.to_string(),
            &flow.peer.to_string(),
            &flow.bytes.to_string(),
            &format!("{:.9}", flow.start),
            &flow.end.map_or(String::new(), |end| format!("{end:.9}")),
            &format!("{:.6}", flow.goodput() / 1e9),
            &flow.account.trimmed.to_string(),
            &flow.account.redundant.to_string(),
            &flow.account.decoded_blocks.to_string(),
            &flow.failed.to_string(),
            flow.reason.map_or("", Reason::as_str),
        ])?;
    }
    end(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row as a table has it.
    fn table(row: &RunRow) -> String {
        let mut table = csv::Writer::from_writer(Vec::new());
        table.serialize(row).unwrap();
        String::from_utf8(table.into_inner().unwrap()).unwrap()
    }

    fn read(text: &str) -> RunRow {
        csv::Reader::from_reader(text.as_bytes()).deserialize().next().unwrap().unwrap()
    }

    #[test]
    fn links_of_a_graph_have_no_common_delay() {
        let graph = Topology { kind: TopologyKind::Graph, ..Topology::default() };
        assert_eq!([delay_us(&Topology::default()), delay_us(&graph)], [Some(10.0), None]);
    }

    #[test]
    fn what_no_request_has_is_empty_in_a_table_and_was_0_in_earlier_ones() {
        let row =
            RunRow { fct_mean: Some(0.25), trimmed_per_request: Some(0.0), ..RunRow::default() };
        let text = table(&row);
        assert!(text.contains(",,") && text.contains(",0.25,"), "{text}");
        assert_eq!(read(&text), row);
        let zeros = serde_json::to_value(&row).unwrap();
        let zeros = zeros.as_object().unwrap().iter().map(|(name, value)| match value.is_null() {
            true => (name.clone(), 0.0.into()),
            false => (name.clone(), value.clone()),
        });
        let earlier: RunRow = serde_json::from_value(zeros.collect()).unwrap();
        assert_eq!((earlier.fct_mean, earlier.fct_mean_10kb), (Some(0.25), None));
        assert_eq!((earlier.goodput_mean, earlier.beside_fct_p99), (None, None));
    }
}
