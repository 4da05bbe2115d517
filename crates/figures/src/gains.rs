//! The gains that SCDP's abstract states.

use super::lab::{Cases, Lab, Settings, over};
use super::plot::{BARS, Plot, SHIPPED_BARS, plain};
use super::shipped::SCDP_AS_SHIPPED;
use super::tcp::{PIAS, PIAS_READING};
use super::ways::{DAISY_CHAIN, Ways};
use anyhow::Result;
use wellspring_experiments::results::RunRow;

const STORAGE: Settings<'static> = &[("workload.sessions", "40"), ("background.warmup", "5ms")];
const FLOWS: Settings<'static> =
    &[("workload.sessions", "60"), ("background.warmup", "5ms"), ("run.limit", "80ms")];

/// What to measure: its name and its settings.
type Protocol = (&'static str, Settings<'static>);

const NDP: Protocol = ("ndp", &[("protocol.name", "ndp")]);
const PIAS_PROTOCOL: Protocol = ("pias", &PIAS);

/// What SCDP is held against, and SCDP itself.
const PROTOCOLS: [Protocol; 4] =
    [("scdp", &[("protocol.name", "scdp")]), NDP, PIAS_PROTOCOL, ("shipped", &SCDP_AS_SHIPPED)];

/// Ratios of one column to that of a protocol, over conditions: SCDP's and that of what is shipped.
struct Gains {
    scdp: Vec<f64>,
    shipped: Vec<f64>,
}

/// One value for each protocol, under one condition after another.
fn measured<const N: usize>(
    lab: &Lab,
    protocols: [Protocol; N],
    (scenario, quick): (&str, Settings<'_>),
    conditions: &[Vec<(&str, &str)>],
    column: fn(&RunRow) -> Option<f64>,
) -> Result<Vec<[f64; N]>> {
    let mut all = Vec::new();
    for condition in conditions {
        let settings = protocols.map(|(_, protocol)| [protocol, condition].concat());
        let cases: Vec<_> =
            protocols.iter().zip(&settings).map(|((name, _), s)| (*name, &s[..])).collect();
        let cases: Cases = lab.measure(scenario, quick, &cases)?;
        all.push(protocols.map(|(name, _)| over(&cases, name, column)));
    }
    Ok(all)
}

/// Goodput of writes under each load: NDP's and PIAS's by the better of their two ways.
fn writes(lab: &mut Lab, loads: &[Vec<(&str, &str)>]) -> Result<Vec<[f64; 4]>> {
    let figure = ("scdp-5", STORAGE);
    let goodput: fn(&RunRow) -> Option<f64> = |row| row.goodput_mean;
    let copies = measured(lab, PROTOCOLS, figure, loads, goodput)?;
    let loads: Vec<_> = loads.iter().map(|load| [&load[..], &[DAISY_CHAIN]].concat()).collect();
    let chains = measured(lab, [NDP, PIAS_PROTOCOL], figure, &loads, goodput)?;
    Ok(by_better_ways(lab, copies, &chains))
}

/// Says what NDP and PIAS have by a copy to each replica and by a chain, and takes the better of both.
fn by_better_ways(lab: &mut Lab, mut copies: Vec<[f64; 4]>, chains: &[[f64; 2]]) -> Vec<[f64; 4]> {
    for (place, protocol) in ["NDP", "PIAS"].into_iter().enumerate() {
        let mut texts = Vec::new();
        for (values, chain) in copies.iter_mut().zip(chains) {
            let ways = Ways { copies: values[place + 1], chain: chain[place] };
            texts.push(format!("{:.3}, {:.3}", ways.copies, ways.chain));
            values[place + 1] = ways.better().0;
        }
        let what = format!(
            "writes, {protocol} by multi-unicast, by daisy chain: goodput, light; heavy [Gbit/s]"
        );
        lab.note(&what, "read off Fig. 5", texts.join("; "));
    }
    copies
}

/// `gain` of SCDP, and of what is shipped, over the protocol of that place.
fn gains(values: &[[f64; 4]], place: usize, gain: fn(f64, f64) -> f64) -> Gains {
    Gains {
        scdp: values.iter().map(|of| gain(of[0], of[place])).collect(),
        shipped: values.iter().map(|of| gain(of[3], of[place])).collect(),
    }
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Gains of goodput in Figs. 5 and 6, and cuts in completion times of flows up to 100 KB in Figs. 7 and
/// 8: the greatest of each, as the abstract says "up to".
pub fn figure(lab: &mut Lab) -> Result<()> {
    let loads = [("1MB", "2000.0"), ("4MB", "4000.0")];
    let storage =
        loads.map(|(size, lambda)| vec![("workload.size", size), ("workload.lambda", lambda)]);
    let mut goodputs = writes(lab, &storage)?;
    let reads = ("scdp-6", STORAGE);
    goodputs.extend(measured(lab, PROTOCOLS, reads, &storage, |row| row.goodput_mean)?);
    let flows = ["0.5", "0.8"].map(|load| vec![("background.fraction", load)]);
    let of_flows =
        |scenario| measured(lab, PROTOCOLS, (scenario, FLOWS), &flows, |row| row.fct_mean_100kb);
    let mut times = of_flows("scdp-7")?;
    times.extend(of_flows("scdp-8")?);

    let more: fn(f64, f64) -> f64 = |scdp, other| scdp / other - 1.0;
    let less: fn(f64, f64) -> f64 = |scdp, other| 1.0 - scdp / other;
    let over_ndp = gains(&goodputs, 1, more);
    let over_pias = gains(&goodputs, 2, more);
    let cut_ndp = gains(&times, 1, less);
    let cut_pias = gains(&times, 2, less);
    // "Even when daisy-chaining is used" (§V-B).
    let what = "greatest gain of goodput over NDP by the better way to write, Figs. 5 and 6";
    lab.number(what, "up to ~0.50", most(&over_ndp.scdp), 0.30..=0.70);
    lab.shipped(format!("{:.3}", most(&over_ndp.shipped)));
    let what = "greatest gain of goodput over PIAS by the better way to write, Figs. 5 and 6";
    lab.reading(PIAS_READING, what, "up to ~0.60", most(&over_pias.scdp), 0.40..=0.80);
    lab.shipped(format!("{:.3}", most(&over_pias.shipped)));
    let what = "greatest cut of mean FCT 0-100 KB against NDP, Figs. 7 and 8";
    lab.number(what, "up to ~0.45", most(&cut_ndp.scdp), 0.25..=0.60);
    lab.shipped(format!("{:.3}", most(&cut_ndp.shipped)));
    let what = "greatest cut of mean FCT 0-100 KB against PIAS, Figs. 7 and 8";
    lab.reading(PIAS_READING, what, "up to ~0.70", most(&cut_pias.scdp), 0.50..=0.85);
    lab.shipped(format!("{:.3}", most(&cut_pias.shipped)));

    let conditions = ["writes, light", "writes, heavy", "reads, light", "reads, heavy"];
    draw(lab, "Gain of goodput", "gain [%]", &conditions, [&over_ndp, &over_pias]);
    let conditions = ["search, 0.5", "search, 0.8", "mining, 0.5", "mining, 0.8"];
    draw(
        lab,
        "Cut of mean completion time, 0-100 KB",
        "cut [%]",
        &conditions,
        [&cut_ndp, &cut_pias],
    );
    Ok(())
}

fn draw(lab: &mut Lab, title: &str, y: &str, conditions: &[&str], [ndp, pias]: [&Gains; 2]) {
    let bars = |gains: &[f64]| -> Vec<[f64; 3]> {
        let percent = gains.iter().enumerate().map(|(x, gain)| (x as f64, 100.0 * gain));
        plain(percent).collect()
    };
    lab.plot(
        Plot::over(title, "", y, conditions)
            .curve("NDP", BARS, bars(&ndp.scdp))
            .curve("PIAS", BARS, bars(&pias.scdp))
            .curve("NDP, as shipped", SHIPPED_BARS, bars(&ndp.shipped))
            .curve("PIAS, as shipped", SHIPPED_BARS, bars(&pias.shipped)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;
    use wellspring_experiments::sweep::Output;

    #[test]
    fn writes_are_compared_with_the_better_of_two_ways_under_each_load() {
        let mut lab = Lab::new(Scale::default(), Output::default(), &|_, _, _| {});
        let copies = vec![[0.6, 0.3, 0.5, 0.6], [0.6, 0.4, 0.2, 0.6]];
        let better = by_better_ways(&mut lab, copies, &[[0.5, 0.4], [0.3, 0.4]]);
        assert_eq!(better, [[0.6, 0.5, 0.5, 0.6], [0.6, 0.4, 0.4, 0.6]]);
        let rows: Vec<_> = lab.checks.iter().map(|check| check.ours.as_str()).collect();
        assert_eq!(rows, ["0.300, 0.500; 0.400, 0.300", "0.500, 0.400; 0.200, 0.400"]);
    }
}
