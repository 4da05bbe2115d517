//! Convergence of flows that share a link: SCDP Fig. 17.

use super::{SCDP, wire_share};
use crate::lab::{Lab, Settings};
use crate::plot::{CURVE, Plot, plain};
use crate::shipped::SCDP_AS_SHIPPED;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use wellspring_experiments::record::Arrival;
use wellspring_experiments::run::Outcome;

/// How far the shares of Fig. 17's flows are from 1/n, over bins of half a second behind the first
/// 50 ms in which no flow starts or ends.
#[derive(Serialize, Deserialize)]
struct Shares {
    /// The largest distance, relative to 1/n.
    worst: f64,
    /// The start of that bin \[s\].
    worst_at: f64,
    /// The least sum of rates \[Gbit/s\].
    least_sum: f64,
    /// Each flow's rate over time: (s, Gbit/s).
    rates: Vec<Vec<(f64, f64)>>,
}

impl Shares {
    /// Of a run in which all is so many times as long as in the paper.
    fn of(outcome: &Outcome, scale: f64) -> Shares {
        let rates = (0..5).map(|flow| rates(outcome, flow, scale)).collect();
        let mut shares = Shares { worst: 0.0, worst_at: 0.0, least_sum: f64::MAX, rates };
        let bin = 0.5 * scale;
        for index in 0..(26.0 * scale / bin) as usize {
            let (from, to) = (index as f64 * bin + 0.05 * scale, (index + 1) as f64 * bin);
            let start = |flow: u32| f64::from(flow) * 2.0 * scale;
            let edges = (0..5).flat_map(|flow| [start(flow), start(flow) + 18.0 * scale]);
            let changing = edges.into_iter().any(|edge| edge > from && edge < to);
            let lasts = |flow: &u32| {
                start(*flow) <= from - 0.04 * scale && to <= start(*flow) + 18.0 * scale
            };
            let active: Vec<u32> = (0..5).filter(lasts).collect();
            if !active.is_empty() && !changing {
                let rates = active.iter().map(|flow| rate(outcome, *flow, from, to)).collect();
                shares.add(rates, from);
            }
        }
        shares
    }

    /// Takes in a bin: the rates of all flows that last.
    fn add(&mut self, rates: Vec<f64>, from: f64) {
        let sum: f64 = rates.iter().sum();
        self.least_sum = self.least_sum.min(sum);
        for rate in &rates {
            let distance = (rate / sum * rates.len() as f64 - 1.0).abs();
            if distance > self.worst {
                (self.worst, self.worst_at) = (distance, from);
            }
        }
    }

    /// Both runs' worst.
    fn and(self, other: Shares) -> Shares {
        let least_sum = self.least_sum.min(other.least_sum);
        let rates = self.rates.clone();
        let worse = if other.worst > self.worst { other } else { self };
        Shares { least_sum, rates, ..worse }
    }
}

/// What a timed flow delivered between two instants \[Gbit/s\].
fn rate(outcome: &Outcome, flow: u32, from: f64, to: f64) -> f64 {
    let within = |arrival: &&Arrival| (from..to).contains(&arrival.at);
    let its = outcome.timeline.iter().filter(|arrival| arrival.session == flow).filter(within);
    its.map(|arrival| arrival.bytes as f64 * 8.0).sum::<f64>() / (to - from) / 1e9
}

/// A timed flow's rate in bins of a fifth of a second, from its start to its end.
fn rates(outcome: &Outcome, flow: u32, scale: f64) -> Vec<(f64, f64)> {
    let (bin, start) = (0.2 * scale, f64::from(flow) * 2.0 * scale);
    let of = |place: u32| {
        let from = start + f64::from(place) * bin;
        (from + bin / 2.0, rate(outcome, flow, from, from + bin))
    };
    (0..90).map(of).collect()
}

/// Both runs' first seed: as in the paper, and as shipped.
fn draw(lab: &mut Lab, shares: &Shares, shipped: &Shares) {
    let title = "Rates of five flows, 2 s apart, 18 s each";
    let mut plot = Plot::new(title, "time [s]", "rate [Gbit/s]");
    for (number, rates) in shares.rates.iter().enumerate() {
        plot = plot.curve(format!("flow {}", number + 1), CURVE, plain(rates.iter().copied()));
    }
    lab.plot(plot);
    let mut plot = Plot::new(format!("{title}, as shipped"), "time [s]", "rate [Gbit/s]");
    for (number, rates) in shipped.rates.iter().enumerate() {
        plot = plot.curve(format!("flow {}", number + 1), CURVE, plain(rates.iter().copied()));
    }
    lab.plot(plot);
}

pub fn figure_17(lab: &mut Lab) -> Result<()> {
    let quick = [("workload.interval", "200ms"), ("workload.duration", "1800ms")];
    let scale = if lab.quick() { 0.1 } else { 1.0 };
    // A flow that starts is served before the others until it has sent 10 MB.
    let of = |lab: &Lab, settings: Settings<'_>| {
        let runs =
            lab.watch("scdp-17", &quick, settings, "shares", |run| Shares::of(run, scale))?;
        runs.into_iter().reduce(Shares::and).context("a seed at least")
    };
    let shares = of(lab, &[SCDP])?;
    let one_class = of(lab, &[SCDP, ("protocol.thresholds", "[\"1TB\"]")])?;
    let shipped = of(lab, &SCDP_AS_SHIPPED)?;
    let within = 0.0..=0.05;
    let at = shares.worst_at;
    let distance = format!("largest distance from 1/n in any bin (that from {at:.3} s on)");
    lab.number(&distance, "1/n each", shares.worst, within.clone());
    lab.cause(
        "a new flow is in a higher class until it has sent 10 MB",
        within.contains(&one_class.worst),
    );
    lab.shipped(format!("{:.3}", shipped.worst));
    let least = 0.93 * wire_share()..=f64::MAX;
    lab.number("least sum in any bin [Gbit/s]", "~1", shares.least_sum, least);
    lab.shipped(format!("{:.3}", shipped.least_sum));
    draw(lab, &shares, &shipped);
    let ours = format!("{:.3}; {:.3}", one_class.worst, one_class.least_sum);
    lab.variant("all in one class: largest distance; least sum [Gbit/s]", ours);
    Ok(())
}
