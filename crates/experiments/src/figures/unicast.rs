//! Unicast flows: SCDP Figs. 7 to 15 and 17.

use super::lab::{Lab, over, shown};
use crate::catalogue;
use crate::results::RunRow;
use crate::run::run;
use anyhow::Result;

const QUICK: &[(&str, &str)] = &[("workload.sessions", "400"), ("background.warmup", "20ms")];

/// Payload's share of a full packet.
pub(super) fn wire_share() -> f64 {
    1_436.0 / 1_500.0
}

/// An incast's aggregate goodput over the link's rate.
pub(super) fn incast_share(row: &RunRow) -> f64 {
    row.requests as f64 * row.size as f64 * 8.0 / (row.fct_max * 1e-3) / 1e9
}

const SCDP: (&str, &str) = ("protocol.name", "scdp");
const NDP: (&str, &str) = ("protocol.name", "ndp");
const PLUS: (&str, &str) = ("protocol.name", "ndp+");

fn realistic(lab: &mut Lab, scenario: &str, loads: &[&str]) -> Result<super::lab::Cases> {
    let labels: Vec<(String, [(&str, &str); 2])> = loads
        .iter()
        .flat_map(|load| {
            [("scdp", SCDP), ("ndp", NDP), ("ndp+", PLUS)].map(|(name, protocol)| {
                (format!("{name} {load}"), [protocol, ("background.fraction", *load)])
            })
        })
        .collect();
    let cases: Vec<_> = labels.iter().map(|(label, s)| (label.as_str(), &s[..])).collect();
    lab.measure(scenario, QUICK, &cases)
}

pub fn figure_7(lab: &mut Lab) -> Result<()> {
    let loads: &[&str] =
        if lab.quick { &["0.5"] } else { &["0.3", "0.4", "0.5", "0.6", "0.7", "0.8"] };
    let cases = realistic(lab, "scdp-7", loads)?;
    for load in loads {
        let short = |name: &str| shown(&cases, &format!("{name} {load}"), |r| r.fct_mean_100kb);
        let medium = |name: &str| shown(&cases, &format!("{name} {load}"), |r| r.fct_mean_1mb);
        lab.note(
            &format!("mean FCT 0-100 KB at load {load}, SCDP / NDP / NDP+ [ms]"),
            if *load == "0.8" { "0.31 / - / 0.292" } else { "-" },
            format!("{} / {} / {}", short("scdp"), short("ndp"), short("ndp+")),
        );
        lab.note(
            &format!("mean FCT 0-1 MB at load {load} [ms]"),
            "-",
            format!("{} / {} / {}", medium("scdp"), medium("ndp"), medium("ndp+")),
        );
        let p99 = |name: &str| over(&cases, &format!("{name} {load}"), |r| r.fct_p99_100kb);
        let mean = over(&cases, &format!("scdp {load}"), |r| r.fct_mean_100kb);
        let what = format!("SCDP p99 over mean, 0-100 KB, load {load}");
        lab.number(&what, "close", p99("scdp") / mean, 0.0..=3.0);
        if *load == "0.5" {
            let ours = format!("{:.3} / {:.3}", p99("scdp"), p99("ndp"));
            lab.note("p99 0-100 KB at 0.5, SCDP / NDP [ms]", "0.277 / 0.306", ours);
            lab.number("NDP over SCDP", "1.10", p99("ndp") / p99("scdp"), 1.0..=1.2);
        }
    }
    if !lab.quick {
        let at = |name: &str| over(&cases, &format!("{name} 0.8"), |row| row.fct_mean_100kb);
        lab.number(
            "mean FCT 0-100 KB at 0.8, SCDP over NDP+",
            "1.06",
            at("scdp") / at("ndp+"),
            0.98..=1.14,
        );
        let long = |name: &str| shown(&cases, &format!("{name} 0.8"), |row| row.goodput_1mb_10mb);
        let ours = format!("{} / {}", long("scdp"), long("ndp"));
        lab.note("goodput of 1-10 MB at 0.8, SCDP / NDP [Gbit/s]", "SCDP better", ours);
    }
    Ok(())
}

pub fn figure_8(lab: &mut Lab) -> Result<()> {
    let loads: &[&str] = if lab.quick { &["0.5"] } else { &["0.3", "0.5", "0.8"] };
    let cases = realistic(lab, "scdp-8", loads)?;
    for load in loads {
        let at = |name: &str| over(&cases, &format!("{name} {load}"), |row| row.fct_mean_1mb);
        lab.holds(
            &format!("mean FCT 0-1 MB at load {load}: SCDP <= NDP [ms]"),
            format!("{:.3} / {:.3}", at("scdp"), at("ndp")),
            at("scdp") <= at("ndp"),
        );
    }
    Ok(())
}

pub fn figure_9(lab: &mut Lab) -> Result<()> {
    let load = ("background.fraction", "0.5");
    let fast = lab.measure("scdp-9", QUICK, &[("scdp", &[SCDP, load]), ("ndp", &[NDP, load])])?;
    let slow = lab.measure("scdp-7", QUICK, &[("scdp", &[SCDP, load])])?;
    let at = |label| over(&fast, label, |row| row.fct_mean_1mb);
    let factor = over(&slow, "scdp", |row| row.fct_mean_1mb) / at("scdp");
    lab.number("SCDP mean FCT 0-1 MB: 1 over 10 Gbit/s", "~10", factor, 6.0..=12.0);
    let ours = format!("{:.3} / {:.3}", at("scdp"), at("ndp"));
    lab.holds("10 Gbit/s, load 0.5: SCDP < NDP [ms]", ours, at("scdp") < at("ndp"));
    Ok(())
}

pub fn figure_10(lab: &mut Lab) -> Result<()> {
    let load = ("background.fraction", "0.5");
    let before = lab.measure("scdp-7", QUICK, &[("scdp", &[SCDP, load]), ("ndp", &[NDP, load])])?;
    let after = lab.measure("scdp-10", QUICK, &[("scdp", &[SCDP, load]), ("ndp", &[NDP, load])])?;
    let ratio = |label| {
        let p99 = |row: &RunRow| row.fct_p99_100kb;
        over(&after, label, p99) / over(&before, label, p99)
    };
    lab.number("SCDP p99 0-100 KB over Fig. 7's", "1.04", ratio("scdp"), 0.98..=1.10);
    lab.number("NDP p99 0-100 KB over Fig. 7's", "1.25", ratio("ndp"), 1.13..=1.37);
    Ok(())
}

pub fn figure_11(lab: &mut Lab) -> Result<()> {
    let load = ("background.fraction", "0.5");
    let case = [("ndp", &[NDP, load][..])];
    let p99 = |row: &RunRow| row.fct_p99_100kb;
    let mut effect = Vec::new();
    for (plain, storage) in [("scdp-8", "scdp-11"), ("scdp-7", "scdp-10")] {
        let before = over(&lab.measure(plain, QUICK, &case)?, "ndp", p99);
        effect.push(over(&lab.measure(storage, QUICK, &case)?, "ndp", p99) / before);
    }
    lab.holds(
        "NDP p99 grows less in data mining than in web search",
        format!("{:.2}, {:.2}", effect[0], effect[1]),
        effect[0] <= effect[1],
    );
    Ok(())
}

pub fn figure_12a(lab: &mut Lab) -> Result<()> {
    for size in ["70KB", "256KB"] {
        let senders: &[&str] = &["4", "16", "32", "70"];
        for count in senders {
            let settings =
                |protocol| [protocol, ("workload.size", size), ("workload.senders", count)];
            let (scdp, ndp) = (settings(SCDP), settings(NDP));
            let cases = lab.measure("scdp-12a", &[], &[("scdp", &scdp), ("ndp", &ndp)])?;
            for name in ["scdp", "ndp"] {
                let share = over(&cases, name, |row| incast_share(row) / wire_share());
                let what = format!("{name}, {count} senders of {size}: goodput over the wire's");
                lab.number(&what, "flat, no collapse", share, 0.9..=f64::MAX);
            }
            if *count == "70" {
                let median = |name| over(&cases, name, |row| row.fct_p50);
                let ours = format!("{:.2} / {:.2}", median("scdp"), median("ndp"));
                lab.note(&format!("70 of {size}: median FCT, SCDP / NDP [ms]"), "SCDP less", ours);
            }
        }
    }
    Ok(())
}

pub fn figure_12d(lab: &mut Lab) -> Result<()> {
    let plan = catalogue::plan("scdp-12d")?;
    let mut sums = [Vec::new(), Vec::new(), Vec::new()];
    for scenario in plan.scenarios()?.into_iter().take(1) {
        for seed in scenario.run.seeds.iter().take(if lab.quick { 1 } else { 5 }) {
            let outcome = run(&scenario, *seed, &mut |_| {})?;
            let flows: Vec<_> = outcome.foreground().collect();
            let first = flows.iter().map(|flow| flow.peer).max();
            // The near group is the smaller one; rates are sums of bytes by the group's time.
            let (a, b): (Vec<_>, Vec<_>) = flows.iter().partition(|f| Some(f.peer) == first);
            let rate = |group: &[&&crate::driver::FlowRecord]| {
                let end = group.iter().filter_map(|f| f.end).fold(0.0, f64::max);
                group.iter().map(|f| f.bytes as f64 * 8.0).sum::<f64>() / end / 1e6
            };
            let (near, far) = if a.len() < b.len() { (&a, &b) } else { (&b, &a) };
            let end = flows.iter().filter_map(|f| f.end).fold(0.0, f64::max);
            let total = flows.iter().map(|f| f.bytes as f64 * 8.0).sum::<f64>() / end / 1e6;
            for (sum, value) in sums.iter_mut().zip([rate(near), rate(far), total]) {
                sum.push(value);
            }
        }
    }
    let [near, far, total] = sums.map(|values| crate::stats::mean(&values));
    lab.note(
        "SCDP near / far group, bytes by own end [Mbit/s]",
        "460 / 435",
        format!("{near:.0} / {far:.0}"),
    );
    lab.note("SCDP in all [Mbit/s]", "~900", format!("{total:.0}"));
    Ok(())
}

pub fn figure_13(lab: &mut Lab) -> Result<()> {
    for delay in ["10us", "1us"] {
        let windows = ["2", "6", "12", "20", "24", "52"];
        let labels: Vec<_> = windows
            .iter()
            .map(|w| (*w, [("protocol.window", *w), ("topology.delay", delay)]))
            .collect();
        let settings: Vec<_> = labels.iter().map(|(label, s)| (*label, &s[..])).collect();
        let cases = lab.measure("scdp-13", QUICK, &settings)?;
        let curve: Vec<_> =
            windows.iter().map(|w| over(&cases, w, |row| row.goodput_mean)).collect();
        let text = curve.iter().map(|g| format!("{g:.3}")).collect::<Vec<_>>().join(" ");
        let what = format!("mean goodput at w = 2 6 12 20 24 52, {delay} [Gbit/s]");
        lab.note(&what, "rises to 12, flat to 24, lower at 52", text);
        let drop = 1.0 - curve[5] / curve[3].max(curve[4]);
        lab.number(&format!("drop from 24 to 52, {delay}"), ">= 0.10", drop, 0.10..=f64::MAX);
        for (window, paper, range) in
            [("12", "13", 8.45..=17.55), ("20", "32", 20.8..=43.2), ("52", "39", 25.35..=52.65)]
        {
            let trims = over(&cases, window, |row| row.trimmed_per_request);
            lab.number(&format!("trims a session, w = {window}, {delay}"), paper, trims, range);
        }
    }
    Ok(())
}

pub fn figure_14(lab: &mut Lab) -> Result<()> {
    let mut last = 0.0;
    let mut monotone = true;
    for (load, paper, range) in [
        ("0.5", "0.0044", 0.0022..=0.0088),
        ("0.6", "0.012", 0.006..=0.024),
        ("0.7", "0.096", 0.048..=0.192),
    ] {
        let settings = [("background.fraction", load), ("workload.lambda", "8000.0")];
        let cases = lab.measure("scdp-14", QUICK, &[("scdp", &settings)])?;
        let share = over(&cases, "scdp", |row| row.decoded_share);
        lab.number(&format!("sessions that decode, load {load}, 8000/s"), paper, share, range);
        monotone &= share >= last;
        last = share;
    }
    lab.holds("grows with load", format!("{monotone}"), monotone);
    Ok(())
}

pub fn figure_15(lab: &mut Lab) -> Result<()> {
    for (rate, gigabits, paper) in
        [("1Gbps", 1.0, "12"), ("5Gbps", 5.0, "24"), ("10Gbps", 10.0, "32")]
    {
        for delay in ["10us", "5us", "1us"] {
            let windows = ["8", "10", "12", "16", "20", "24", "28", "32", "40", "64", "100"];
            let labels: Vec<_> = windows
                .iter()
                .map(|w| {
                    let settings = [
                        ("protocol.window", *w),
                        ("topology.delay", delay),
                        ("topology.rate", rate),
                    ];
                    (*w, settings)
                })
                .collect();
            let settings: Vec<_> = labels.iter().map(|(label, s)| (*label, &s[..])).collect();
            let cases = lab.measure("scdp-15", &[("workload.size", "5MB")], &settings)?;
            let full = |w: &&&str| {
                over(&cases, w, |row| row.goodput_mean) >= 0.93 * gigabits * wire_share()
            };
            let least = windows.iter().find(full).map_or("> 100".to_owned(), |w| (*w).to_owned());
            lab.note(&format!("least w for full rate, {rate}, {delay} a link"), paper, least);
        }
    }
    Ok(())
}

pub fn figure_17(lab: &mut Lab) -> Result<()> {
    let mut plan = catalogue::plan("scdp-17")?;
    plan.set("protocol.name", "scdp")?;
    let scale = if lab.quick { 0.1 } else { 1.0 };
    if lab.quick {
        plan.set("workload.interval", "200ms")?;
        plan.set("workload.duration", "1800ms")?;
    }
    for scenario in plan.scenarios()? {
        let outcome = run(&scenario, 1, &mut |_| {})?;
        let bin = 0.5 * scale;
        let (mut worst, mut least_sum) = (0.0_f64, f64::MAX);
        for index in 0..(26.0 * scale / bin) as usize {
            let (from, to) = (index as f64 * bin + 0.05 * scale, (index + 1) as f64 * bin);
            let active: Vec<u32> = (0..5)
                .filter(|n| {
                    let start = f64::from(*n) * 2.0 * scale;
                    start <= from - 0.04 * scale && to <= start + 18.0 * scale
                })
                .collect();
            let changing = (0..5).any(|n| {
                let start = f64::from(n) * 2.0 * scale;
                [start, start + 18.0 * scale].iter().any(|edge| *edge > from && *edge < to)
            });
            if active.is_empty() || changing {
                continue;
            }
            let rate = |session: u32| {
                let bytes = outcome
                    .timeline
                    .iter()
                    .filter(|(s, at, _)| *s == session && *at >= from && *at < to);
                bytes.map(|entry| entry.2 as f64 * 8.0).sum::<f64>() / (to - from) / 1e9
            };
            let sum: f64 = active.iter().map(|n| rate(*n)).sum();
            least_sum = least_sum.min(sum);
            for session in &active {
                worst = worst.max((rate(*session) / sum * active.len() as f64 - 1.0).abs());
            }
        }
        lab.number("largest distance from 1/n in any bin", "1/n each", worst, 0.0..=0.05);
        lab.number(
            "least sum in any bin [Gbit/s]",
            "~1",
            least_sum,
            0.93 * wire_share()..=f64::MAX,
        );
    }
    Ok(())
}
