//! Fairness of endless flows, LTTP's among themselves and beside TCP's (LTTP Fig. 10).

use super::curve::{least_of, most_of};
use crate::lab::{Lab, Settings};
use crate::plot::{CURVE, Plot, plain};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wellspring_experiments::run::Outcome;
use wellspring_experiments::scenario::ProtocolName;
use wellspring_experiments::stats::mean;

/// Bins of the paper's Fig. 10 \[s\], and how many of them are left out at the start.
const BIN: f64 = 0.2;
const FIRST_BIN: usize = 1;
const QUICK: Settings<'static> = &[("workload.duration", "1s")];
/// Packets of 1,068 bytes, and TCP's of 1,064, carry so much.
const PAYLOAD: f64 = 1_024.0;

/// A flow's share of the mean of all, bin by bin.
#[derive(Serialize, Deserialize)]
struct Share {
    protocol: ProtocolName,
    bins: Vec<f64>,
}

/// What one run shows.
#[derive(Serialize, Deserialize)]
pub(crate) struct Sharing {
    flows: Vec<Share>,
    /// Part of the client's link that carried what arrived.
    utilisation: f64,
    /// Retransmission timeouts.
    timeouts: usize,
}

impl Sharing {
    pub(crate) fn of(outcome: &Outcome) -> Sharing {
        let on_the_wire = |arrival: &wellspring_experiments::record::Arrival| {
            let packet = if arrival.protocol.is_tcp() { 1_064.0 } else { 1_068.0 };
            arrival.bytes as f64 * packet / PAYLOAD * 8.0
        };
        let bits: f64 = outcome.timeline.iter().map(on_the_wire).sum();
        Sharing {
            flows: shares(outcome),
            utilisation: bits / outcome.simulated / 1e9,
            timeouts: outcome.timeouts.len(),
        }
    }

    /// Means over flows and bins, of LTTP's flows and of TCP's, 1 being an equal share.
    pub(crate) fn means(&self) -> [f64; 2] {
        let of = |is_tcp: bool| {
            let flows = self.flows.iter().filter(|flow| flow.protocol.is_tcp() == is_tcp);
            mean(&flows.map(|flow| mean(&flow.bins)).collect::<Vec<_>>())
        };
        [of(false), of(true)]
    }

    /// Part of the client's link that carried what arrived.
    pub(crate) fn utilisation(&self) -> f64 {
        self.utilisation
    }
}

fn shares(outcome: &Outcome) -> Vec<Share> {
    let mut flows = BTreeMap::new();
    for arrival in &outcome.timeline {
        let (_, bins) = flows.entry(arrival.session).or_insert((arrival.protocol, Vec::new()));
        let bin = (arrival.at / BIN) as usize;
        if bin >= bins.len() {
            bins.resize(bin + 1, 0.0);
        }
        bins[bin] += arrival.bytes as f64;
    }
    // A flow that starves may have nothing in the last bins.
    let len = flows.values().map(|flow| flow.1.len()).max().unwrap_or(0).saturating_sub(1);
    flows.values_mut().for_each(|flow| flow.1.resize(len, 0.0));
    let fair = |bin: usize| mean(&flows.values().map(|flow| flow.1[bin]).collect::<Vec<_>>());
    let fair: Vec<f64> = (0..len).map(fair).collect();
    let share = |(protocol, bins): &(ProtocolName, Vec<f64>)| Share {
        protocol: *protocol,
        bins: (FIRST_BIN..len).map(|bin| bins[bin] / fair[bin]).collect(),
    };
    flows.values().map(share).collect()
}

fn range(values: &[f64]) -> String {
    format!("{:.2} to {:.2}", least_of(values), most_of(values))
}

/// All flows' bins, and all flows' means, of those of one kind.
fn bins_and_means(runs: &[Sharing], of: impl Fn(ProtocolName) -> bool) -> (Vec<f64>, Vec<f64>) {
    let flows = || runs.iter().flat_map(|run| &run.flows).filter(|flow| of(flow.protocol));
    (flows().flat_map(|flow| flow.bins.clone()).collect(), flows().map(|f| mean(&f.bins)).collect())
}

fn check(lab: &mut Lab, what: &str, runs: &[Sharing], least_used: f64) {
    let (bins, means) = bins_and_means(runs, |_| true);
    let within = least_of(&bins) >= 0.5 && most_of(&bins) <= 1.5;
    let shares = format!("{what}: each 200 ms, normalised throughput within 0.5 to 1.5 (paper ~1)");
    lab.holds(&shares, range(&bins), within);
    let within = least_of(&means) >= 0.9 && most_of(&means) <= 1.1;
    let shares = format!("{what}: each flow's mean within 0.9 to 1.1 (paper ~1)");
    lab.holds(&shares, range(&means), within);
    let used = mean(&runs.iter().map(|run| run.utilisation).collect::<Vec<_>>());
    let utilisation = format!("{what}: utilisation of the client's link");
    lab.number(&utilisation, "> 0.99", used, least_used..=1.0);
}

/// LTTP's and TCP's mean shares, for people.
fn split(runs: &[Sharing]) -> String {
    let (_, lttp) = bins_and_means(runs, |protocol| !protocol.is_tcp());
    let (_, tcp) = bins_and_means(runs, ProtocolName::is_tcp);
    let timeouts: usize = runs.iter().map(|run| run.timeouts).sum();
    format!("{:.3} / {:.3}; {timeouts}", mean(&lttp), mean(&tcp))
}

/// The first seed's shares over time.
fn draw(lab: &mut Lab, what: &str, runs: &[Sharing]) {
    let title = format!("{what}: share of the mean, each 0.2 s");
    let mut plot = Plot::new(title, "time [s]", "normalised throughput");
    for flow in runs.first().map(|run| run.flows.as_slice()).unwrap_or_default() {
        let name = if flow.protocol.is_tcp() { "TCP, each flow" } else { "LTTP, each flow" };
        let at = |bin: usize| (bin + FIRST_BIN) as f64 * BIN + BIN / 2.0;
        let points = flow.bins.iter().enumerate().map(|(bin, share)| (at(bin), *share));
        plot = plot.curve(name, CURVE, plain(points));
    }
    let last = runs.iter().flat_map(|run| &run.flows).map(|flow| flow.bins.len()).max();
    let end = (last.unwrap_or(0) + FIRST_BIN) as f64 * BIN;
    lab.plot(plot.paper([(FIRST_BIN as f64 * BIN, 1.0), (end, 1.0)]));
}

pub fn figure_10(lab: &mut Lab) -> Result<()> {
    let alone = lab.watch("lttp-10", QUICK, &[], "shares", Sharing::of)?;
    check(lab, "10 LTTP flows", &alone, 0.985);
    draw(lab, "Ten LTTP flows", &alone);
    let beside = |lab: &Lab, settings: Settings<'_>| {
        lab.watch("lttp-10-beside-tcp", QUICK, settings, "shares", Sharing::of)
    };
    let runs = beside(lab, &[])?;
    check(lab, "5 TCP and 5 LTTP flows", &runs, 0.985);
    draw(lab, "Five TCP and five LTTP flows", &runs);
    let what = "5 TCP and 5 LTTP flows: mean share of LTTP / TCP; timeouts";
    lab.note(what, "~1 / ~1", split(&runs));
    for (name, settings) in UNSTATED {
        let runs = beside(lab, settings)?;
        lab.note(&format!("... with {name}"), "~1 / ~1", split(&runs));
    }
    Ok(())
}

/// What the paper does not state of its TCP and its port.
const UNSTATED: [(&str, Settings<'static>); 5] = [
    ("TCP's windows not limited", &[("beside.protocol.tcp.receive_window", "4MiB")]),
    ("a port of 32 KiB", &[("switch.buffer", "32KiB")]),
    ("a port of 128 KiB", &[("switch.buffer", "128KiB")]),
    ("a port of 256 KiB", &[("switch.buffer", "256KiB")]),
    ("TCP's least timeout 1 ms", &[("beside.protocol.tcp.min_timeout", "1ms")]),
];
