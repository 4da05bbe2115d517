//! Polyraptor's Fig. 1 (the curves of RaptorQ).

use super::lab::{Lab, over};
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
    over_tcp(lab, scenario, [median("one"), median("three")])
}

/// TCP with one replica and three, copied to or read in parts from each, below RaptorQ's medians.
fn over_tcp(lab: &mut Lab, scenario: &str, coded: [f64; 2]) -> Result<()> {
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
    Ok(())
}

pub fn figure_1a(lab: &mut Lab) -> Result<()> {
    one_against_three(lab, "polyraptor-1a")
}

pub fn figure_1b(lab: &mut Lab) -> Result<()> {
    one_against_three(lab, "polyraptor-1b")
}

pub fn figure_1c(lab: &mut Lab) -> Result<()> {
    for size in ["70KB", "256KB"] {
        for senders in ["4", "16", "70"] {
            let settings = [("workload.size", size), ("workload.senders", senders)];
            let cases = lab.measure("polyraptor-1c", &[], &[("rq", &settings)])?;
            let share = over(&cases, "rq", |row| incast_share(row) / wire_share());
            let what = format!("{senders} senders of {size}: goodput over the wire's");
            lab.number(&what, "flat, no collapse", share, 0.9..=f64::MAX);
        }
    }
    tcp::collapse(lab, "polyraptor-1c", "50")
}
