//! The gains that SCDP's abstract states.

use super::lab::{Cases, Lab, Settings, over};
use super::plot::{BARS, Plot, SHIPPED_BARS, plain};
use super::shipped::SCDP_AS_SHIPPED;
use super::tcp::{PIAS, PIAS_READING};
use anyhow::Result;
use wellspring_experiments::results::RunRow;

const STORAGE: Settings<'static> = &[("workload.sessions", "40"), ("background.warmup", "5ms")];
const FLOWS: Settings<'static> =
    &[("workload.sessions", "60"), ("background.warmup", "5ms"), ("run.limit", "80ms")];

/// What SCDP is held against, and SCDP itself.
const PROTOCOLS: [(&str, Settings<'static>); 4] = [
    ("scdp", &[("protocol.name", "scdp")]),
    ("ndp", &[("protocol.name", "ndp")]),
    ("pias", &PIAS),
    ("shipped", &SCDP_AS_SHIPPED),
];

/// Ratios of one column to that of a protocol, over conditions: SCDP's and that of what is shipped.
struct Gains {
    scdp: Vec<f64>,
    shipped: Vec<f64>,
}

/// One value for each protocol, under one condition after another.
fn measured(
    lab: &Lab,
    scenario: &str,
    quick: Settings<'_>,
    conditions: &[Vec<(&str, &str)>],
    column: fn(&RunRow) -> f64,
) -> Result<Vec<[f64; 4]>> {
    let mut all = Vec::new();
    for condition in conditions {
        let settings = PROTOCOLS.map(|(_, protocol)| [protocol, condition].concat());
        let cases: Vec<_> =
            PROTOCOLS.iter().zip(&settings).map(|((name, _), s)| (*name, &s[..])).collect();
        let cases: Cases = lab.measure(scenario, quick, &cases)?;
        all.push(PROTOCOLS.map(|(name, _)| over(&cases, name, column)));
    }
    Ok(all)
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
    let mut goodputs = measured(lab, "scdp-5", STORAGE, &storage, |row| row.goodput_mean)?;
    goodputs.extend(measured(lab, "scdp-6", STORAGE, &storage, |row| row.goodput_mean)?);
    let flows = ["0.5", "0.8"].map(|load| vec![("background.fraction", load)]);
    let mut times = measured(lab, "scdp-7", FLOWS, &flows, |row| row.fct_mean_100kb)?;
    times.extend(measured(lab, "scdp-8", FLOWS, &flows, |row| row.fct_mean_100kb)?);

    let more: fn(f64, f64) -> f64 = |scdp, other| scdp / other - 1.0;
    let less: fn(f64, f64) -> f64 = |scdp, other| 1.0 - scdp / other;
    let over_ndp = gains(&goodputs, 1, more);
    let over_pias = gains(&goodputs, 2, more);
    let cut_ndp = gains(&times, 1, less);
    let cut_pias = gains(&times, 2, less);
    let what = "greatest gain of goodput over NDP, Figs. 5 and 6";
    lab.number(what, "up to ~0.50", most(&over_ndp.scdp), 0.30..=0.70);
    lab.shipped(format!("{:.3}", most(&over_ndp.shipped)));
    let what = "greatest gain of goodput over PIAS, Figs. 5 and 6";
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
