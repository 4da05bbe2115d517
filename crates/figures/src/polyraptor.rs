//! Polyraptor's Fig. 1 (the curves of RaptorQ).

use super::lab::{Cases, Lab, over};
use super::plot::{LINE, Plot, SHIPPED, by_rank, ranks, sample};
use super::shipped::SCDP_AS_SHIPPED;
use super::tcp;
use super::unicast::{incast_share, wire_share};
use anyhow::Result;

fn one_against_three(lab: &mut Lab, scenario: &str) -> Result<()> {
    let cases = lab.measure(
        scenario,
        &[("workload.sessions", "60"), ("background.warmup", "5ms")],
        &[
            ("one", &[("workload.replicas", "1"), ("topology.delay", "10us")]),
            ("three", &[("workload.replicas", "3"), ("topology.delay", "10us")]),
            (
                "three, rare",
                &[
                    ("workload.replicas", "3"),
                    ("topology.delay", "10us"),
                    ("workload.lambda", "320.0"),
                ],
            ),
            (
                "one, rare",
                &[
                    ("workload.replicas", "1"),
                    ("topology.delay", "10us"),
                    ("workload.lambda", "320.0"),
                ],
            ),
        ],
    )?;
    let median = |label| over(&cases, label, |row| row.goodput_p50);
    lab.note(
        "median goodput, 1 / 3 replicas [Gbit/s]",
        "about equal",
        format!("{:.3} / {:.3}", median("one"), median("three")),
    );
    lab.note(
        "the same at 320/s instead of 2560/s",
        "-",
        format!("{:.3} / {:.3}", median("one, rare"), median("three, rare")),
    );
    let ratio = median("three") / median("one");
    lab.number("3 replicas over 1, medians", "~1", ratio, 0.85..=f64::MAX);
    let settings =
        [&SCDP_AS_SHIPPED[..], &[("workload.replicas", "3"), ("topology.delay", "10us")]].concat();
    let quick = [("workload.sessions", "60"), ("background.warmup", "5ms")];
    let shipped = lab.measure(scenario, &quick, &[("shipped", &settings)])?;
    lab.shipped(format!("{:.3}", over(&shipped, "shipped", |row| row.goodput_p50) / median("one")));
    let tcp = over_tcp(lab, scenario, [median("one"), median("three")])?;
    let (what, verb) = if scenario.ends_with('a') { ("Writes", "to") } else { ("Reads", "from") };
    let title = format!("{what} of 4 MB, 2560/s: goodput by rank");
    let one = format!("RaptorQ, {verb} 1");
    let three = format!("RaptorQ, {verb} 3");
    let plot = ranks(title, &cases, &[("one", &one), ("three", &three)]);
    lab.plot(
        plot.curve(format!("TCP, {verb} 1"), LINE, by_rank(&tcp, "one"))
            .curve(format!("TCP, {verb} 3"), LINE, by_rank(&tcp, "three"))
            .curve(format!("SCDP as shipped, {verb} 3"), SHIPPED, by_rank(&shipped, "shipped")),
    );
    Ok(())
}

/// TCP with one replica and three, copied to or read in parts from each, below RaptorQ's medians.
fn over_tcp(lab: &mut Lab, scenario: &str, coded: [f64; 2]) -> Result<Cases> {
    let quick = [("workload.sessions", "60"), ("background.warmup", "5ms")];
    let settings = |replicas| {
        [
            tcp::TCP,
            ("workload.replicas", replicas),
            ("topology.delay", "10us"),
            ("workload.read_by", "parts"),
        ]
    };
    let (one, three) = (settings("1"), settings("3"));
    let cases = lab.measure(scenario, &quick, &[("one", &one), ("three", &three)])?;
    let tcp = ["one", "three"].map(|label| over(&cases, label, |row| row.goodput_p50));
    for ((name, coded), tcp) in ["1 replica", "3 replicas"].iter().zip(coded).zip(tcp) {
        let what = format!("{name}: median goodput RaptorQ > TCP [Gbit/s]");
        lab.holds(&what, format!("{coded:.3} / {tcp:.3}"), coded > tcp);
    }
    Ok(cases)
}

pub fn figure_1a(lab: &mut Lab) -> Result<()> {
    one_against_three(lab, "polyraptor-1a")
}

pub fn figure_1b(lab: &mut Lab) -> Result<()> {
    one_against_three(lab, "polyraptor-1b")
}

pub fn figure_1c(lab: &mut Lab) -> Result<()> {
    for size in ["70KB", "256KB"] {
        let mut curves = [const { Vec::new() }; 3];
        for senders in ["4", "16", "70"] {
            let settings = [("workload.size", size), ("workload.senders", senders)];
            let tcp = [&[tcp::TCP], &settings[..]].concat();
            let shipped = [&SCDP_AS_SHIPPED[..], &settings].concat();
            let all = [("rq", &settings[..]), ("tcp", &tcp), ("shipped", &shipped)];
            let cases = lab.measure("polyraptor-1c", &[], &all)?;
            for (curve, label) in curves.iter_mut().zip(["rq", "tcp", "shipped"]) {
                curve.push(sample(&cases, label, senders.parse()?, incast_share));
            }
            let shipped = over(&cases, "shipped", |row| incast_share(row) / wire_share());
            let share = over(&cases, "rq", |row| incast_share(row) / wire_share());
            let what = format!("{senders} senders of {size}: goodput over the wire's");
            lab.number(&what, "flat, no collapse", share, 0.9..=1.0);
            lab.shipped(format!("{shipped:.3}"));
        }
        let title = format!("Incast of {size} a sender");
        let [coded, tcp, shipped] = curves;
        lab.plot(
            Plot::new(title, "senders", "aggregate goodput [Gbit/s]")
                .curve("RaptorQ", LINE, coded)
                .curve("TCP", LINE, tcp)
                .curve("SCDP as shipped", SHIPPED, shipped),
        );
    }
    tcp::collapse(lab, "polyraptor-1c", "50")
}
