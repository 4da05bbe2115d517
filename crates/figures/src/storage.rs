//! Reads and writes of replicated blocks: SCDP Figs. 1, 5, 6, 16.

use super::lab::{Cases, EVERYBODY, Lab, Settings, over, shown};
use super::plot::{BARS, LINE, Plot, SHIPPED, SHIPPED_BARS, by_rank, plain, ranks, sample};
use super::shipped::SCDP_AS_SHIPPED;
use super::tcp::{PIAS, PIAS_READING, TCP};
use super::ways::{DAISY_CHAIN, Ways, scdp_above_ndp};
use anyhow::Result;
use wellspring_experiments::results::RunRow;

const QUICK: &[(&str, &str)] = &[("workload.sessions", "40"), ("background.warmup", "5ms")];

fn quartiles(row: &RunRow) -> [Option<f64>; 3] {
    [row.goodput_p25, row.goodput_p50, row.goodput_p75]
}

fn above(cases: &Cases, better: &str, worse: &str) -> (String, bool) {
    let at = |label: &str, quartile: usize| over(cases, label, |row| quartiles(row)[quartile]);
    let text = (0..3).map(|q| format!("{:.2} / {:.2}", at(better, q), at(worse, q)));
    let holds = (0..3).all(|q| at(better, q) > at(worse, q));
    (text.collect::<Vec<_>>().join(", "), holds)
}

pub fn figure_1a(lab: &mut Lab) -> Result<()> {
    let chain = [DAISY_CHAIN];
    // The window of the authors' models, 14 segments of 1,500 bytes: about NDP's 12.
    let window = ("protocol.tcp.receive_window", "21KB");
    let cases = lab.measure(
        "scdp-1a",
        &[("workload.sessions", "200"), ("background.warmup", "5ms")],
        &[
            ("one", &[("workload.replicas", "1"), ("workload.write_by", "multi-unicast")]),
            ("daisy", &chain),
            ("multi", &[("workload.write_by", "multi-unicast")]),
            (
                "tcp one",
                &[TCP, window, ("workload.replicas", "1"), ("workload.write_by", "multi-unicast")],
            ),
            ("tcp", &[TCP, window, chain[0]]),
        ],
    )?;
    for (better, worse) in [("one", "tcp one"), ("daisy", "tcp")] {
        let (ours, holds) = above(&cases, better, worse);
        let what = format!("quartiles of goodput: NDP ({better}) > TCP likewise [Gbit/s]");
        lab.reading_holds("a TCP window of 21 KB, as in the authors' models", &what, ours, holds);
    }
    let (ours, holds) = above(&cases, "one", "daisy");
    lab.holds("quartiles of goodput: NDP 1 replica > 3 by daisy chain [Gbit/s]", ours, holds);
    let (ours, holds) = above(&cases, "daisy", "multi");
    lab.holds("NDP 3 by daisy chain > 3 by multi-unicast [Gbit/s]", ours, holds);
    lab.plot(ranks(
        "Writes of 2 MB, 1000/s: goodput by rank",
        &cases,
        &[
            ("one", "NDP, 1 replica"),
            ("daisy", "NDP, 3, daisy chain"),
            ("multi", "NDP, 3, multi-unicast"),
            ("tcp one", "TCP, 1 replica"),
            ("tcp", "TCP, 3, daisy chain"),
        ],
    ));
    Ok(())
}

pub fn figure_1b(lab: &mut Lab) -> Result<()> {
    let cases = lab.measure(
        "scdp-1b",
        &[("workload.sessions", "200"), ("background.warmup", "5ms")],
        &[
            ("one", &[("workload.replicas", "1"), ("workload.read_by", "single")]),
            ("three", &[("workload.replicas", "3"), ("workload.read_by", "single")]),
            // The authors' models: each of three senders sends the whole block.
            ("whole", &[("workload.read_by", "parts"), ("workload.size", "6MB")]),
        ],
    )?;
    let mean = |label| shown(&cases, label, |row| row.goodput_mean);
    let of = |label| over(&cases, label, |row| row.goodput_mean);
    lab.holds(
        "NDP mean goodput, block on 1 / 3 hosts, read from one: 3 worse than 1 [Gbit/s]",
        format!("{} / {}", mean("one"), mean("three")),
        of("one") > of("three"),
    );
    let (one, whole) =
        (over(&cases, "one", |r| r.goodput_mean), over(&cases, "whole", |r| r.goodput_mean) / 3.0);
    lab.reading_holds(
        "each of three senders sends the whole block, as in the authors' models",
        "one sender better than three [Gbit/s]",
        format!("{one:.3} / {whole:.3}"),
        one > whole,
    );
    lab.plot(ranks(
        "Reads of 2 MB, 1000/s: goodput by rank",
        &cases,
        &[("one", "NDP, block on 1 host"), ("three", "NDP, block on 3 hosts")],
    ));
    Ok(())
}

pub fn figure_5(lab: &mut Lab) -> Result<()> {
    let light =
        [("topology.delay", "10us"), ("workload.size", "1MB"), ("workload.lambda", "2000.0")];
    let near = [("topology.delay", "1us"), light[1], light[2]];
    let heavy = [light[0], ("workload.size", "4MB"), ("workload.lambda", "4000.0")];
    let chain = DAISY_CHAIN;
    let (scdp, ndp, plus) =
        (("protocol.name", "scdp"), ("protocol.name", "ndp"), ("protocol.name", "ndp+"));
    let cases = lab.measure(
        "scdp-5",
        QUICK,
        &[
            ("scdp-light", &[light[0], light[1], light[2], scdp]),
            ("scdp-near", &[near[0], near[1], near[2], scdp]),
            ("scdp-tree", &[near[0], near[1], near[2], scdp, ("switch.multicast", "one-tree")]),
            ("scdp-rare", &[near[0], near[1], scdp, ("workload.lambda", "500.0")]),
            ("ndp-light", &[light[0], light[1], light[2], ndp]),
            ("ndp-light-chain", &[light[0], light[1], light[2], ndp, chain]),
            ("plus-light", &[light[0], light[1], light[2], plus]),
            ("scdp-heavy", &[heavy[0], heavy[1], heavy[2], scdp]),
            ("ndp-heavy", &[heavy[0], heavy[1], heavy[2], ndp]),
            ("scdp-heavy-all", &[heavy[0], heavy[1], heavy[2], scdp, EVERYBODY]),
            ("ndp-heavy-all", &[heavy[0], heavy[1], heavy[2], ndp, EVERYBODY]),
            ("plus-heavy-all", &[heavy[0], heavy[1], heavy[2], plus, EVERYBODY]),
            ("ndp-light-all", &[light[0], light[1], light[2], ndp, EVERYBODY]),
            ("plus-light-all", &[light[0], light[1], light[2], plus, EVERYBODY]),
            ("ndp-chain-light-all", &[light[0], light[1], light[2], ndp, chain, EVERYBODY]),
            ("plus-chain-light-all", &[light[0], light[1], light[2], plus, chain, EVERYBODY]),
            ("ndp-chain-heavy-all", &[heavy[0], heavy[1], heavy[2], ndp, chain, EVERYBODY]),
            ("plus-chain-heavy-all", &[heavy[0], heavy[1], heavy[2], plus, chain, EVERYBODY]),
            ("ndp-heavy-chain", &[heavy[0], heavy[1], heavy[2], ndp, chain]),
            ("plus-heavy", &[heavy[0], heavy[1], heavy[2], plus]),
        ],
    )?;
    let others = pias_and_shipped(lab, "scdp-5", &light, &heavy)?;
    let of_shipped = |label: &str, column: fn(&RunRow) -> Option<f64>| {
        format!("{:.3}", over(&others, &format!("shipped {label}"), column))
    };
    let share = |label| over(&cases, label, |row| row.share_above_0_9);
    let half = 0.35..=0.65;
    let what = "SCDP sessions > 0.9 Gbit/s, 1 MB, 2000/s";
    lab.number(&format!("{what}, 10 us"), "~0.50", share("scdp-light"), half.clone());
    lab.shipped(of_shipped("light", |row| row.share_above_0_9));
    // Fewer arrivals and shorter links together give the paper's share.
    let rare = half.contains(&share("scdp-rare"));
    lab.cause("w = 12 fills no path of 10 us a link, and sessions share receivers at 2000/s", rare);
    lab.reading("1 us a link", what, "~0.50", share("scdp-near"), half);
    lab.cause("sessions share receivers at 2000/s", rare);
    lab.variant("the same at 1 us along one tree a group", format!("{:.3}", share("scdp-tree")));
    lab.variant("the same at 1 us and 500/s", format!("{:.3}", share("scdp-rare")));
    let p5 = |label| over(&cases, label, |row| row.goodput_p5);
    let (what, least) = ("5th percentile of goodput [Gbit/s]", 0.5..=f64::MAX);
    lab.number(&format!("{what}, 10 us"), "> 0.6", p5("scdp-light"), least.clone());
    lab.shipped(of_shipped("light", |row| row.goodput_p5));
    lab.reading("1 us a link", what, "> 0.6", p5("scdp-near"), least);
    let background = |label| over(&cases, label, |row| row.background_goodput);
    lab.number(
        "background, SCDP, 4 MB, 4000/s [Gbit/s]",
        "0.408",
        background("scdp-heavy"),
        0.306..=0.51,
    );
    lab.shipped(of_shipped("heavy", |row| row.background_goodput));
    lab.number(
        "background, NDP, 4 MB, 4000/s [Gbit/s]",
        "0.252",
        background("ndp-heavy"),
        0.189..=0.315,
    );
    let gain = background("scdp-heavy") - background("ndp-heavy");
    lab.number("difference [Gbit/s]", "0.156", gain, 0.076..=0.236);
    let (s, n) = (background("scdp-heavy-all"), background("ndp-heavy-all"));
    lab.note(
        "background, SCDP / NDP, if its hosts take part in the foreground [Gbit/s]",
        "0.408 / 0.252",
        format!("{s:.3} / {n:.3}"),
    );
    let what = "background, PIAS, 4 MB, 4000/s [Gbit/s]";
    let pias = over(&others, "pias heavy", |row| row.background_goodput);
    lab.reading(PIAS_READING, what, "0.182", pias, 0.137..=0.228);
    let goodput = |label: &str| over(&cases, label, |row| row.goodput_mean);
    let both = |load| Ways {
        copies: goodput(&format!("ndp-{load}")),
        chain: goodput(&format!("ndp-{load}-chain")),
    };
    for load in ["light", "heavy"] {
        let [scdp, plus] = ["scdp", "plus"].map(|name| goodput(&format!("{name}-{load}")));
        scdp_above_ndp(lab, load, scdp, both(load), plus);
        lab.shipped(of_shipped(load, |row| row.goodput_mean));
    }
    plots(lab, [&cases, &others], ["scdp-light", "ndp-light", "plus-light"], "Writes");
    background_plot(lab, [&cases, &others], [0.408, 0.252, 0.182]);
    let to_ndp = goodput("plus-heavy") / goodput("ndp-heavy") - 1.0;
    let to_scdp = goodput("plus-heavy") / goodput("scdp-heavy") - 1.0;
    lab.number("NDP+ over NDP, heavy", "+0.14", to_ndp, 0.04..=0.24);
    lab.number("NDP+ over SCDP, heavy", "-0.21", to_scdp, -0.31..=-0.11);
    lab.note(
        "NDP+ over NDP, background's hosts in the foreground too, light / heavy",
        "+0.14",
        both_gains(&cases, ["ndp", "plus"], ["light", "heavy"]),
    );
    // Three copies are bound by the client's own link, where classes are worth little.
    lab.note(
        "the same, daisy-chained",
        "+0.14",
        both_gains(&cases, ["ndp-chain", "plus-chain"], ["light", "heavy"]),
    );
    let [light, heavy] = ["light", "heavy"].map(|load| both(load).chain / both(load).copies - 1.0);
    lab.holds(
        "daisy chain helps when light, by a tenth at most when heavy (gain over multi-unicast)",
        format!("{light:+.2} / {heavy:+.2}"),
        chain_helps(light, heavy),
    );
    Ok(())
}

/// Whether the gains of a daisy chain are as the paper has them: some when light, a tenth at most when heavy.
fn chain_helps(light: f64, heavy: f64) -> bool {
    light > 0.0 && heavy < light && heavy <= 0.1
}

/// What Figs. 5 and 6 take beside SCDP and NDP, under a light and a heavy load.
fn pias_and_shipped(
    lab: &Lab,
    scenario: &str,
    light: Settings<'_>,
    heavy: Settings<'_>,
) -> Result<Cases> {
    let pias = [light, heavy].map(|load| [&PIAS[..], load].concat());
    let shipped = [light, heavy].map(|load| [&SCDP_AS_SHIPPED[..], load].concat());
    lab.measure(
        scenario,
        QUICK,
        &[
            ("pias light", &pias[0]),
            ("pias heavy", &pias[1]),
            ("shipped light", &shipped[0]),
            ("shipped heavy", &shipped[1]),
        ],
    )
}

/// Goodput by rank under both loads; the paper's statements about SCDP in Figs. 5 and 6 are of the
/// light one.
fn plots(lab: &mut Lab, [cases, others]: [&Cases; 2], light: [&str; 3], what: &str) {
    let names = ["SCDP", "NDP", "NDP+"];
    let mut named: Vec<(&str, &str)> = light.into_iter().zip(names).collect();
    let title = format!("{what} of 1 MB, 2000/s, 10 us a link: goodput by rank");
    let stated: &[(f64, f64)] =
        if what == "Writes" { &[(0.0, 0.6), (50.0, 0.9)] } else { &[(18.0, 0.9)] };
    let finish = |plot: Plot, load: &str| {
        let plot = plot.curve("PIAS", LINE, by_rank(others, &format!("pias {load}")));
        plot.curve("SCDP as shipped", SHIPPED, by_rank(others, &format!("shipped {load}")))
    };
    let plot = ranks(title, cases, &named);
    lab.plot(finish(plot, "light").paper(stated.iter().copied()));
    named = ["scdp-heavy", "ndp-heavy", "plus-heavy"].into_iter().zip(names).collect();
    let title = format!("{what} of 4 MB, 4000/s: goodput by rank");
    lab.plot(finish(ranks(title, cases, &named), "heavy"));
}

/// Goodput of the background under the heavy load, and the paper's of SCDP, NDP and PIAS.
fn background_plot(lab: &mut Lab, [cases, others]: [&Cases; 2], paper: [f64; 3]) {
    let of = |cases, label, x| sample(cases, label, x, |row: &RunRow| row.background_goodput);
    let names = ["SCDP", "NDP", "PIAS"];
    let title = "Background flows beside 4 MB, 4000/s";
    let stated = (0..3).map(f64::from).zip(paper).filter(|point| point.1 > 0.0);
    lab.plot(
        Plot::over(title, "", "mean goodput [Gbit/s]", &names)
            .curve(
                "as in the paper",
                BARS,
                [
                    of(cases, "scdp-heavy", 0.0),
                    of(cases, "ndp-heavy", 1.0),
                    of(others, "pias heavy", 2.0),
                ],
            )
            .curve("as shipped", SHIPPED_BARS, [of(others, "shipped heavy", 0.0)])
            .paper(stated),
    );
}

/// NDP+ over NDP where hosts of the background take part in the foreground, under two loads.
fn both_gains(cases: &Cases, [ndp, plus]: [&str; 2], loads: [&str; 2]) -> String {
    let goodput = |name: &str, load| over(cases, &format!("{name}-{load}-all"), |r| r.goodput_mean);
    let gains = loads.map(|load| goodput(plus, load) / goodput(ndp, load) - 1.0);
    format!("{:+.3} / {:+.3}", gains[0], gains[1])
}

pub fn figure_6(lab: &mut Lab) -> Result<()> {
    let near = [("topology.delay", "1us"), ("workload.size", "1MB"), ("workload.lambda", "2000.0")];
    let far = [("topology.delay", "10us"), near[1], near[2]];
    let heavy = [far[0], ("workload.size", "4MB"), ("workload.lambda", "4000.0")];
    let (scdp, ndp, plus) =
        (("protocol.name", "scdp"), ("protocol.name", "ndp"), ("protocol.name", "ndp+"));
    let cases = lab.measure(
        "scdp-6",
        QUICK,
        &[
            ("scdp-far", &[far[0], far[1], far[2], scdp]),
            ("ndp-far", &[far[0], far[1], far[2], ndp]),
            ("scdp-near", &[near[0], near[1], near[2], scdp]),
            ("scdp-near-own", &[near[0], near[1], near[2], scdp, ("protocol.decode", "measured")]),
            ("ndp-near", &[near[0], near[1], near[2], ndp]),
            ("plus-far", &[far[0], far[1], far[2], plus]),
            ("scdp-heavy", &[heavy[0], heavy[1], heavy[2], scdp]),
            ("ndp-heavy", &[heavy[0], heavy[1], heavy[2], ndp]),
            ("plus-heavy", &[heavy[0], heavy[1], heavy[2], plus]),
            ("ndp-near-all", &[near[0], near[1], near[2], ndp, EVERYBODY]),
            ("plus-near-all", &[near[0], near[1], near[2], plus, EVERYBODY]),
            ("ndp-heavy-all", &[heavy[0], heavy[1], heavy[2], ndp, EVERYBODY]),
            ("plus-heavy-all", &[heavy[0], heavy[1], heavy[2], plus, EVERYBODY]),
        ],
    )?;
    let others = pias_and_shipped(lab, "scdp-6", &far, &heavy)?;
    let of_shipped = |label: &str, column: fn(&RunRow) -> Option<f64>| {
        format!("{:.3}", over(&others, &format!("shipped {label}"), column))
    };
    let share = |label| over(&cases, label, |row| row.share_above_0_9);
    // Blocks of several senders are decoded even without loss: the last one's latency counts.
    let (near, own) = (share("scdp-near"), share("scdp-near-own"));
    let range = 0.70..=0.94;
    let decoding = range.contains(&own);
    let what = "SCDP sessions > 0.9 Gbit/s, 1 MB, 2000/s, decoding at 1.3 Gbit/s";
    lab.number(&format!("{what}, 10 us"), "0.82", share("scdp-far"), range.clone());
    lab.cause("w = 12 fills no path of 10 us a link, and the last block is decoded", decoding);
    lab.shipped(of_shipped("light", |row| row.share_above_0_9));
    lab.reading("1 us a link", what, "0.82", near, range);
    lab.cause("the last block is decoded at 1.3 Gbit/s", decoding);
    lab.variant("the same at 1 us, decoding as fast as our codec", format!("{own:.3}"));
    lab.number("NDP sessions > 0.9 Gbit/s at 10 us", "0.10", share("ndp-far"), 0.0..=0.35);
    lab.note("the same at 1 us", "0.10", format!("{:.3}", share("ndp-near")));
    let background = over(&cases, "ndp-heavy", |row| row.background_goodput);
    lab.number("background, NDP, 4 MB, 4000/s [Gbit/s]", "0.342", background, 0.2565..=0.4275);
    let share = over(&others, "pias light", |row| row.share_above_0_9);
    let what = "PIAS sessions > 0.9 Gbit/s at 10 us";
    lab.reading(PIAS_READING, what, "0.23", share, 0.0..=0.35);
    let background = over(&others, "pias heavy", |row| row.background_goodput);
    let what = "background, PIAS, 4 MB, 4000/s [Gbit/s]";
    lab.reading(PIAS_READING, what, "0.152", background, 0.114..=0.19);
    three_blocks(lab, &far)?;
    let goodput = |label| over(&cases, label, |row| row.goodput_mean);
    lab.number(
        "NDP+ over NDP, heavy",
        "+0.07",
        goodput("plus-heavy") / goodput("ndp-heavy") - 1.0,
        0.01..=0.13,
    );
    lab.note(
        "NDP+ over NDP, background's hosts in the foreground too, 1 us light / heavy",
        "+0.07",
        both_gains(&cases, ["ndp", "plus"], ["near", "heavy"]),
    );
    let background = over(&cases, "ndp-heavy-all", |row| row.background_goodput);
    lab.note("background, NDP, heavy, likewise [Gbit/s]", "0.342", format!("{background:.3}"));
    let ours = format!("{:.3} / {:.3}", goodput("scdp-heavy"), goodput("ndp-heavy"));
    let holds = goodput("scdp-heavy") > goodput("ndp-heavy");
    lab.holds("heavy: mean goodput SCDP > NDP [Gbit/s]", ours, holds);
    lab.shipped(of_shipped("heavy", |row| row.goodput_mean));
    plots(lab, [&cases, &others], ["scdp-far", "ndp-far", "plus-far"], "Reads");
    background_plot(lab, [&cases, &others], [0.0, 0.342, 0.152]);
    Ok(())
}

/// Reads of three blocks at once, each a third of the size, against reads of one.
fn three_blocks(lab: &mut Lab, load: &[(&str, &str)]) -> Result<()> {
    let ahead = ("workload.read_by", "multi-block");
    let goodput = |lab: &Lab, protocol: &str, more: &[(&str, &str)]| {
        let settings = [load, &[("protocol.name", protocol)], more].concat();
        let cases = lab.measure("scdp-6", QUICK, &[("one", &settings)])?;
        Ok::<_, anyhow::Error>(over(&cases, "one", |row| row.goodput_mean))
    };
    let [one, three] = [goodput(lab, "scdp", &[])?, goodput(lab, "scdp", &[ahead])?];
    let what = "SCDP, three blocks of a third over one block, mean goodput";
    lab.number(what, "almost identical", three / one, 0.97..=1.03);
    let [one, three] = [goodput(lab, "ndp", &[])?, goodput(lab, "ndp", &[ahead])?];
    lab.note("NDP, likewise", "-", format!("{:.3}", three / one));
    Ok(())
}

/// Fig. 16 a and b: the share of sessions that got more than so many symbols for nothing.
fn unneeded_by_session(lab: &mut Lab) -> Result<()> {
    let mut plot = Plot::new(
        "Sessions with more than so many unneeded symbols",
        "unneeded symbols, and one more",
        "share of sessions",
    )
    .log_x();
    for (size, lambda) in
        [("1MB", "2000.0"), ("1MB", "4000.0"), ("4MB", "2000.0"), ("4MB", "4000.0")]
    {
        let settings = [("workload.lambda", lambda), ("workload.size", size)];
        let seen = lab.watch("scdp-16", QUICK, &settings, "unneeded by session", |outcome| {
            let done = outcome.foreground().filter(|flow| flow.completion().is_some());
            done.map(|flow| flow.account.redundant).collect::<Vec<_>>()
        })?;
        let all: Vec<u64> = seen.into_iter().flatten().collect();
        let above = |least: u64| {
            let count = all.iter().filter(|count| **count > least).count();
            count as f64 / all.len().max(1) as f64
        };
        let ours = [0, 1, 3, 10, 30, 100, 300].map(|least| format!("{:.3}", above(least)));
        let what = format!(
            "{size}, {lambda}/s: sessions with more than 0 1 3 10 30 100 300 unneeded symbols"
        );
        lab.note(&what, "read off the figure", ours.join(" "));
        let steps = [0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1_000];
        let points = steps.map(|least| (least as f64 + 1.0, above(least)));
        plot =
            plot.curve(format!("{size}, {}/s", lambda.trim_end_matches(".0")), LINE, plain(points));
    }
    lab.plot(plot);
    Ok(())
}

pub fn figure_16(lab: &mut Lab) -> Result<()> {
    let shipped =
        [&SCDP_AS_SHIPPED[..], &[("workload.lambda", "4000.0"), ("workload.size", "4MB")]].concat();
    let cases = lab.measure(
        "scdp-16",
        QUICK,
        &[
            ("light", &[("workload.lambda", "2000.0"), ("workload.size", "1MB")]),
            ("medium", &[("workload.lambda", "4000.0"), ("workload.size", "1MB")]),
            ("heavy-rare", &[("workload.lambda", "2000.0"), ("workload.size", "4MB")]),
            ("heavy", &[("workload.lambda", "4000.0"), ("workload.size", "4MB")]),
            (
                "reckoned",
                &[
                    ("protocol.reckon_control", "true"),
                    ("workload.lambda", "4000.0"),
                    ("workload.size", "4MB"),
                ],
            ),
            (
                "ndp",
                &[
                    ("protocol.name", "ndp"),
                    ("workload.lambda", "4000.0"),
                    ("workload.size", "4MB"),
                ],
            ),
            ("shipped", &shipped),
        ],
    )?;
    let overhead = |label| {
        over(&cases, label, |row| {
            let needed = row.completed as f64 * row.size as f64 / 1_436.0 * 3.0;
            row.redundant as f64 / needed
        })
    };
    let range = 0.0..=0.02;
    let (paced, reckoned) = (overhead("heavy"), overhead("reckoned"));
    lab.number("unneeded symbols over needed ones, 4 MB, 4000/s", "~0.01", paced, range.clone());
    lab.shipped(format!("{:.3}", overhead("shipped")));
    let why = "pulls at the link's full rate leave no room for pulls that come in";
    lab.cause(why, range.contains(&reckoned));
    let what = "unneeded over needed, pulls leave room for control packets (4 MB, 4000/s)";
    lab.variant(what, format!("{reckoned:.4}"));
    lab.holds(
        "grows with load (1 MB, 2000/s and 4000/s)",
        format!("{:.4}, {:.4}", overhead("light"), overhead("medium")),
        overhead("medium") > overhead("light"),
    );
    // 1.1 and 2.2 times what the receivers' links carry: both are overloaded.
    lab.holds(
        "grows with load (4 MB, 2000/s and 4000/s)",
        format!("{:.4}, {:.4}", overhead("heavy-rare"), overhead("heavy")),
        overhead("heavy") > overhead("heavy-rare"),
    );
    let (ours, holds) = above(&cases, "heavy", "ndp");
    lab.holds("SCDP above NDP at every quartile of goodput [Gbit/s]", ours, holds);
    unneeded_by_session(lab)?;
    let labels = ["light", "medium", "heavy-rare", "heavy"];
    let names = ["1 MB, 2000/s", "1 MB, 4000/s", "4 MB, 2000/s", "4 MB, 4000/s"];
    let points = labels.iter().enumerate().map(|(x, label)| (x as f64, 100.0 * overhead(label)));
    lab.plot(
        Plot::over("Unneeded over needed symbols", "", "overhead [%]", &names)
            .curve("as in the paper", BARS, plain(points))
            .curve("as shipped", SHIPPED_BARS, [[3.0, 100.0 * overhead("shipped"), 0.0]])
            .paper([(3.0, 1.0)]),
    );
    lab.plot(ranks("4 MB, 4000/s: goodput by rank", &cases, &[("heavy", "SCDP"), ("ndp", "NDP")]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daisy_chain_that_helps_when_heavy_is_not_the_papers() {
        assert!(chain_helps(0.55, -0.06));
        assert!(!chain_helps(0.55, 0.37));
        assert!(!chain_helps(0.0, -0.06));
    }
}
