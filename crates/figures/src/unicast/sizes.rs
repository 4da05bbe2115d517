//! Flows of sizes as in data centres, over a background: SCDP Figs. 7 to 11.

use super::{NDP, PLUS, SCDP};
use crate::lab::{Cases, EVERYBODY, Lab, Settings, over, shown};
use crate::plot::{BARS, Column, LINE, Plot, SHIPPED, SHIPPED_BARS, plain, sample};
use crate::shipped::SCDP_AS_SHIPPED;
use crate::tcp;
use anyhow::Result;
use wellspring_experiments::results::RunRow;

/// Broken off before the longest flows end, which no check here is about.
const QUICK: &[(&str, &str)] =
    &[("workload.sessions", "60"), ("background.warmup", "5ms"), ("run.limit", "80ms")];

fn realistic(lab: &mut Lab, scenario: &str, loads: &[&str]) -> Result<Cases> {
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
        if lab.quick() { &["0.5"] } else { &["0.3", "0.4", "0.5", "0.6", "0.7", "0.8"] };
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
            let settings = [&SCDP_AS_SHIPPED[..], &[("background.fraction", "0.5")]].concat();
            let shipped = lab.measure("scdp-7", QUICK, &[("shipped", &settings)])?;
            lab.shipped(format!("{:.3}", over(&shipped, "shipped", |row| row.fct_p99_100kb)));
            lab.number("NDP over SCDP", "1.10", p99("ndp") / p99("scdp"), 1.0..=1.2);
            let shortest = over(&cases, "scdp 0.5", |row| row.fct_p99_10kb);
            tcp::pias(lab, QUICK, [p99("scdp"), shortest])?;
        }
        shortest_flows(lab, &cases, load);
    }
    let others =
        pias_and_shipped(lab, "scdp-7", if lab.quick() { loads } else { &["0.5", "0.8"] })?;
    by_load(lab, "Web search", [&cases, &others], loads);
    tcp::pias_long_flows(lab, QUICK)?;
    tcp::pias_buffers(lab, QUICK)?;
    let settings = [SCDP, ("background.fraction", "0.0"), ("workload.lambda", "100.0")];
    let alone = lab.measure("scdp-7", QUICK, &[("alone", &settings)])?;
    let ratio =
        over(&alone, "alone", |r| r.fct_p99_100kb) / over(&alone, "alone", |r| r.fct_mean_100kb);
    let what = "the same without background at 100/s: what sizes alone make";
    lab.note(what, "-", format!("{ratio:.3}"));
    if !lab.quick() {
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

/// PIAS, and SCDP as shipped, under these loads.
fn pias_and_shipped(lab: &Lab, scenario: &str, loads: &[&str]) -> Result<Cases> {
    let mut cases = Cases::new();
    for load in loads {
        let load_of = ("background.fraction", *load);
        let pias = [&tcp::PIAS[..], &[load_of]].concat();
        let shipped = [&SCDP_AS_SHIPPED[..], &[load_of]].concat();
        let labels = [format!("pias {load}"), format!("shipped {load}")];
        let both = [(labels[0].as_str(), &pias[..]), (labels[1].as_str(), &shipped)];
        cases.extend(lab.measure(scenario, QUICK, &both)?);
    }
    Ok(cases)
}

/// Completion times of short flows by load, means and 99th percentiles.
fn by_load(lab: &mut Lab, what: &str, [cases, others]: [&Cases; 2], loads: &[&str]) {
    let columns: [(&str, Column); 3] = [
        ("0-100 KB: mean", |row| row.fct_mean_100kb),
        ("0-100 KB: 99th percentile", |row| row.fct_p99_100kb),
        ("0-1 MB: mean", |row| row.fct_mean_1mb),
    ];
    let names = [
        ("scdp", "SCDP", LINE),
        ("ndp", "NDP", LINE),
        ("ndp+", "NDP+", LINE),
        ("pias", "PIAS", LINE),
        ("shipped", "SCDP as shipped", SHIPPED),
    ];
    for (place, (title, column)) in columns.into_iter().enumerate() {
        let title = format!("{what}, {title}");
        let mut plot = Plot::new(title, "load", "completion time [ms]");
        for (label, name, style) in names {
            let points = loads.iter().filter_map(|load| {
                let (key, x) = (format!("{label} {load}"), load.parse().ok()?);
                let cases = [cases, others].into_iter().find(|cases| cases.contains_key(&key))?;
                Some(sample(cases, &key, x, column))
            });
            plot = plot.curve(name, style, points);
        }
        let stated: &[(f64, f64)] = match (what, place) {
            ("Web search", 0) => &[(0.8, 0.31), (0.8, 0.292)],
            ("Web search", 1) => &[(0.5, 0.277), (0.5, 0.306), (0.5, 0.386)],
            _ => &[],
        };
        lab.plot(if stated.is_empty() { plot } else { plot.paper(stated.iter().copied()) });
    }
}

/// Fig. 7's 99th percentile among flows up to 10 KB: 100 KB alone take 0.8 ms on 1 Gbit/s, three
/// times what the paper prints.
fn shortest_flows(lab: &mut Lab, cases: &Cases, load: &str) {
    let p99 = |name: &str| over(cases, &format!("{name} {load}"), |row| row.fct_p99_10kb);
    let mean = over(cases, &format!("scdp {load}"), |row| row.fct_mean_10kb);
    let what = format!("0-10 KB, load {load}: p99 SCDP / NDP [ms]; SCDP p99 over mean");
    let paper = if load == "0.5" { "0.277 / 0.306; close" } else { "- / -; close" };
    let (scdp, ndp) = (p99("scdp"), p99("ndp"));
    lab.note(&what, paper, format!("{scdp:.3} / {ndp:.3}; {:.3}", scdp / mean));
}

pub fn figure_8(lab: &mut Lab) -> Result<()> {
    let loads: &[&str] = if lab.quick() { &["0.5"] } else { &["0.3", "0.5", "0.8"] };
    let cases = realistic(lab, "scdp-8", loads)?;
    let others = pias_and_shipped(lab, "scdp-8", loads)?;
    let search =
        lab.measure("scdp-7", QUICK, &[("scdp", &[SCDP, ("background.fraction", "0.5")])])?;
    let mean = |cases: &Cases, label: &str| over(cases, label, |row| row.fct_mean_1mb);
    let (mining, search) = (mean(&cases, "scdp 0.5"), mean(&search, "scdp"));
    lab.holds(
        "SCDP, mean FCT 0-1 MB at 0.5: data mining below web search [ms]",
        format!("{mining:.3} / {search:.3}"),
        mining < search,
    );
    by_load(lab, "Data mining", [&cases, &others], loads);
    for load in loads {
        let at = |name: &str| mean(&cases, &format!("{name} {load}"));
        lab.holds(
            &format!("mean FCT 0-1 MB at load {load}: SCDP <= NDP [ms]"),
            format!("{:.3} / {:.3}", at("scdp"), at("ndp")),
            at("scdp") <= at("ndp"),
        );
        lab.shipped(format!("{:.3}", mean(&others, &format!("shipped {load}"))));
        let pias = mean(&others, &format!("pias {load}"));
        lab.reading_holds(
            tcp::PIAS_READING,
            &format!("mean FCT 0-1 MB at load {load}: NDP <= PIAS [ms]"),
            format!("{:.3} / {pias:.3}", at("ndp")),
            at("ndp") <= pias,
        );
    }
    Ok(())
}

/// The paper looks at decoding here and at the window in Fig. 15, so the window may still be the 12
/// symbols of 1 Gbit/s, or already Fig. 15's 32.
pub fn figure_9(lab: &mut Lab) -> Result<()> {
    let half = ("background.fraction", "0.5");
    let reading_of = |window: &str| {
        format!(
            "w = {window} at 10 Gbit/s, and 1 us a link and 25,000/s there, where Fig. 7 has 10 us and 2,500/s"
        )
    };
    let slow = lab.measure("scdp-7", QUICK, &[("scdp", &[SCDP, half])])?;
    let slow = over(&slow, "scdp", |row| row.fct_mean_1mb);
    let mut plot = Plot::over(
        "Web search, 0-1 MB: mean",
        "link rate, load",
        "completion time [ms]",
        &["1G, 0.5", "10G, 0.5", "10G, 0.9"],
    );
    plot = plot.curve("SCDP, 1 Gbit/s", BARS, [[0.0, slow, 0.0]]);
    for window in ["12", "32"] {
        let at_half = ten_gigabit(lab, window, half)?;
        let at_most = ten_gigabit(lab, window, ("background.fraction", "0.9"))?;
        for (place, name) in ["SCDP", "NDP"].into_iter().enumerate() {
            let points = plain([(1.0, at_half[place]), (2.0, at_most[place])]);
            plot = plot.curve(format!("{name}, w = {window}"), BARS, points);
        }
        let what = format!("w = {window}: SCDP mean FCT 0-1 MB, 1 over 10 Gbit/s");
        let reading = reading_of(window);
        lab.reading(&reading, &what, "~10", slow / at_half[0], 6.0..=12.0);
        for (load, [scdp, ndp]) in [("0.5", at_half), ("0.9", at_most)] {
            let what = format!("w = {window}, 10 Gbit/s, load {load}: SCDP < NDP [ms]");
            lab.reading_holds(&reading, &what, format!("{scdp:.3} / {ndp:.3}"), scdp < ndp);
        }
        let [gap, narrow] = [at_half, at_most].map(|[scdp, ndp]| (ndp / scdp - 1.0) * 100.0);
        let what = format!("w = {window}: SCDP leads at 0.9, by less than at 0.5 [%]");
        let ours = format!("{narrow:.1}, {gap:.1}");
        lab.reading_holds(&reading, &what, ours, leads_by_less(narrow, gap));
    }
    lab.plot(plot.log_y());
    Ok(())
}

/// Whether a lead at load 0.9 is one, and smaller than at 0.5.
fn leads_by_less(narrow: f64, gap: f64) -> bool {
    narrow >= 0.0 && narrow < gap
}

/// Mean FCT of flows up to 1 MB at 10 Gbit/s, of SCDP and of NDP \[ms\].
fn ten_gigabit(lab: &Lab, window: &str, load: (&str, &str)) -> Result<[f64; 2]> {
    let window = ("protocol.window", window);
    let (scdp, ndp) = ([SCDP, window, load], [NDP, window, load]);
    let cases = lab.measure("scdp-9", QUICK, &[("scdp", &scdp), ("ndp", &ndp)])?;
    Ok(["scdp", "ndp"].map(|name| over(&cases, name, |row| row.fct_mean_1mb)))
}

pub fn figure_10(lab: &mut Lab) -> Result<()> {
    let load = ("background.fraction", "0.5");
    let [short, shortest] = storage_growth(lab, &[SCDP, load], &[NDP, load])?;
    lab.number("SCDP p99 0-100 KB over Fig. 7's", "1.04", short[0], 0.98..=1.10);
    lab.number("NDP p99 0-100 KB over Fig. 7's", "1.25", short[1], 1.13..=1.37);
    let pias = [&tcp::PIAS[..], &[load]].concat();
    let shipped = [&SCDP_AS_SHIPPED[..], &[load]].concat();
    let [[pias, shipped], _] = storage_growth(lab, &pias, &shipped)?;
    let what = "PIAS p99 0-100 KB over Fig. 7's";
    lab.reading(tcp::PIAS_READING, what, "1.24", pias, 1.09..=1.39);
    lab.variant("SCDP as shipped, p99 0-100 KB over Fig. 7's", format!("{shipped:.3}"));
    lab.plot(
        Plot::over(
            "99th percentile of 0-100 KB: over storage traffic, relative to Fig. 7",
            "",
            "times Fig. 7's",
            &["SCDP", "NDP", "PIAS"],
        )
        .curve("as in the paper", BARS, plain([(0.0, short[0]), (1.0, short[1]), (2.0, pias)]))
        .curve("as shipped", SHIPPED_BARS, [[0.0, shipped, 0.0]])
        .paper([(0.0, 1.04), (1.0, 1.25), (2.0, 1.24)]),
    );
    let both = |[scdp, ndp]: [f64; 2]| format!("{scdp:.3} / {ndp:.3}");
    lab.note("p99 0-10 KB over Fig. 7's, SCDP / NDP", "1.04 / 1.25", both(shortest));
    // In a buffer that all classes share, the background has packets of every class trimmed.
    let split = ("switch.split", "true");
    let (scdp, ndp) = ([SCDP, load, EVERYBODY, split], [NDP, load, EVERYBODY, split]);
    let [short, shortest] = storage_growth(lab, &scdp, &ndp)?;
    lab.note(
        "the same, a queue for each class, background's hosts in the foreground too",
        "1.04 / 1.25",
        both(shortest),
    );
    lab.note("likewise, 0-100 KB", "1.04 / 1.25", both(short));
    Ok(())
}

/// How 99th percentiles grow from a background of endless flows to one of writes and reads: for
/// flows up to 100 KB and up to 10 KB, of SCDP and NDP each.
fn storage_growth(lab: &Lab, scdp: Settings<'_>, ndp: Settings<'_>) -> Result<[[f64; 2]; 2]> {
    let cases = [("scdp", scdp), ("ndp", ndp)];
    let before = lab.measure("scdp-7", QUICK, &cases)?;
    let after = lab.measure("scdp-10", QUICK, &cases)?;
    let growth = |p99: fn(&RunRow) -> Option<f64>| {
        ["scdp", "ndp"].map(|name| over(&after, name, p99) / over(&before, name, p99))
    };
    Ok([growth(|row| row.fct_p99_100kb), growth(|row| row.fct_p99_10kb)])
}

pub fn figure_11(lab: &mut Lab) -> Result<()> {
    let load = ("background.fraction", "0.5");
    let (scdp, ndp, plus) = ([SCDP, load], [NDP, load], [PLUS, load]);
    let cases = [("scdp", &scdp[..]), ("ndp", &ndp), ("ndp+", &plus)];
    let p99 = |row: &RunRow| row.fct_p99_100kb;
    let mut effect = Vec::new();
    for (plain, storage) in [("scdp-8", "scdp-11"), ("scdp-7", "scdp-10")] {
        let before = lab.measure(plain, QUICK, &cases)?;
        let after = lab.measure(storage, QUICK, &cases)?;
        effect.push(
            ["scdp", "ndp", "ndp+"].map(|name| over(&after, name, p99) / over(&before, name, p99)),
        );
    }
    let [mining, search] = [effect[0], effect[1]];
    lab.holds(
        "NDP p99 grows less in data mining than in web search",
        format!("{:.2}, {:.2}", mining[1], search[1]),
        mining[1] <= search[1],
    );
    let all = |growth: [f64; 3]| growth.map(|times| format!("{times:.2}")).join(" / ");
    lab.note("SCDP / NDP / NDP+ p99 over Fig. 8's, data mining", "~1 / more", all(mining));
    lab.note("the same over Fig. 7's, web search", "1.04 / 1.25", all(search));
    let bars = |growth: [f64; 3]| plain((0..3).map(f64::from).zip(growth));
    lab.plot(
        Plot::over(
            "99th percentile of 0-100 KB over storage traffic",
            "",
            "times that over endless flows",
            &["SCDP", "NDP", "NDP+"],
        )
        .curve("data mining", BARS, bars(mining))
        .curve("web search", BARS, bars(search)),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_be_behind_is_no_lead_that_shrinks() {
        assert!(leads_by_less(0.6, 7.9));
        assert!(!leads_by_less(7.9, 0.6));
        assert!(!leads_by_less(-25.3, -24.9) && !leads_by_less(-1.0, 0.6));
    }
}
