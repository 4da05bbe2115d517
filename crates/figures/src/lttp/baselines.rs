//! TCP and DCTCP in LTTP's figures, beside the paper and ns-3.37.

use super::curve::{SENDERS, SIZE, curve, goodput};
use super::ns2;
use crate::lab::{Lab, over};
use crate::plot::{BARS, LINE, Plot, REFERENCE, plain};
use anyhow::Result;
use wellspring_experiments::record::Timeout;
use wellspring_experiments::stats::mean;

const INITIAL_WINDOW: &str = "protocol.tcp.initial_window";
/// The initial window under which DCTCP's figures are read.
const READ_WINDOW: &str = "4";
/// What those rows read into the paper.
const WINDOW_READING: &str = "initial window 4, which the paper does not state";
/// Below half of the link goodput has collapsed \[Mbit/s\].
const COLLAPSED: f64 = 500.0;

/// Mean over the part of a curve.
fn between(curve: &[(u32, f64)], senders: std::ops::RangeInclusive<u32>) -> f64 {
    let within = curve.iter().filter(|(count, _)| senders.contains(count));
    mean(&within.map(|point| point.1).collect::<Vec<_>>())
}

/// The first number of senders at which goodput has collapsed.
fn onset(curve: &[(u32, f64)]) -> Option<u32> {
    curve.iter().find(|point| point.1 < COLLAPSED).map(|point| point.0)
}

fn shown(onset: Option<u32>) -> String {
    onset.map_or_else(|| "none to 45".to_owned(), |count| count.to_string())
}

/// Points of a quick curve are three senders apart.
fn senders(lab: &Lab, from: u32) -> Vec<u32> {
    (from..=45).step_by(if lab.quick() { 3 } else { 1 }).collect()
}

pub fn figure_4(lab: &mut Lab) -> Result<()> {
    let seen =
        lab.watch("lttp-4-tcp", &[("run.limit", "600ms")], &[], "first timeout", |outcome| {
            outcome.timeouts.first().map(|timeout| (timeout.at, timeout.window / 1_024))
        })?;
    let Some((at, window)) = seen.into_iter().flatten().next() else {
        lab.holds("TCP times out", "never".to_owned(), false);
        return Ok(());
    };
    lab.number("retransmission timeout [s]", "~0.36", at, 0.33..=0.39);
    lab.note("congestion window before it [segments]", "4", window.to_string());
    Ok(())
}

/// A curve of goodput by senders for a plot.
fn named(plot: Plot, name: &str, curve: &[(u32, f64)]) -> Plot {
    plot.curve(name, LINE, plain(curve.iter().copied()))
}

/// An empty plot of goodput by senders.
fn by_senders(title: &str) -> Plot {
    Plot::new(title, "senders", "goodput [Mbit/s]")
}

pub fn figure_6(lab: &mut Lab) -> Result<()> {
    let mut plot = by_senders("TCP: goodput by senders and bytes a sender");
    for size in ["64KiB", "128KiB", "256KiB"] {
        let curve = curve(lab, "lttp-6-tcp", &[(SIZE, size)], &senders(lab, 6), goodput)?;
        plot = named(plot, &format!("TCP, {size}"), &curve);
        let what = format!("{size}: goodput, 6 to 11 senders [Mbit/s]");
        let (few, by_ns_2) = (between(&curve, 6..=11), ns2::few(size));
        lab.number(&what, &format!("~950; ns-2 {by_ns_2}"), few, 855.0..=1_000.0);
        let is_ns_2 = (0.85..=1.15).contains(&(few / by_ns_2));
        lab.cause("timeouts of single runs, as in ns-2 with such starts", is_ns_2);
        let what = format!("{size}: fewest senders that collapse, mean below {COLLAPSED} Mbit/s");
        let first = onset(&curve);
        let fits = first.is_some_and(|first| (12..=26).contains(&first));
        let ours = shown(first);
        lab.holds(&format!("{what}: 12 to 26 (paper ~15; ns-2 12, 8 to 24 by size)"), ours, fits);
    }
    let plot = plot.curve("ns-2, 64KiB", REFERENCE, ns2::collapsed("64KiB"));
    let plot = plot.curve("ns-2, 256KiB", REFERENCE, ns2::collapsed("256KiB"));
    lab.plot(plot.paper([(10.0, 950.0), (36.0, 93.0)]));
    let many = curve(lab, "lttp-6-tcp", &[(SIZE, "64KiB")], &[36], goodput)?;
    let what = "36 senders of 64 KiB: goodput [Mbit/s]";
    lab.number(what, "93; ns-2 89.2, ns-3 86.8", between(&many, 36..=36), 83.7..=102.3);
    ns2::beside(lab)
}

/// The paper's two switches: buffer, ECN threshold, g, the most senders without a collapse.
struct EcnSwitch {
    name: &'static str,
    settings: [(&'static str, &'static str); 3],
    most: &'static str,
    onset: std::ops::RangeInclusive<u32>,
}

const ECN_SWITCHES: [EcnSwitch; 2] = [
    EcnSwitch {
        name: "64 KB, threshold 4",
        settings: [
            ("switch.buffer_packets", "64"),
            ("switch.mark_packets", "4"),
            ("protocol.tcp.gain", "0.15"),
        ],
        most: "25",
        onset: 22..=30,
    },
    EcnSwitch {
        name: "128 KB, threshold 20",
        settings: [
            ("switch.buffer_packets", "128"),
            ("switch.mark_packets", "20"),
            ("protocol.tcp.gain", "0.0625"),
        ],
        most: "34",
        onset: 30..=42,
    },
];

/// ns-3.37's DCTCP for (initial window, senders) of 64 KiB, and the part that ours may differ by
/// \[Mbit/s\]. Up to 15 senders its versions 3.37 and 3.44 are as far from each other.
const NS3_DCTCP: [(&str, u32, f64, f64); 9] = [
    ("2", 1, 620.7, 0.005),
    ("2", 6, 865.0, 0.08),
    ("2", 12, 903.5, 0.05),
    ("2", 18, 935.4, 0.02),
    ("2", 24, 945.7, 0.005),
    ("2", 33, 946.9, 0.005),
    ("10", 12, 31.1, 0.05),
    ("10", 18, 46.6, 0.05),
    ("10", 24, 62.1, 0.06),
];

pub fn figure_7(lab: &mut Lab) -> Result<()> {
    for EcnSwitch { name, settings, most, onset: range } in ECN_SWITCHES {
        let mut plot = by_senders(&format!("DCTCP, port of {name} packets, 64 KiB a sender"));
        for window in ["4", "5", "3", "2"] {
            let settings = [&settings[..], &[(INITIAL_WINDOW, window), (SIZE, "64KiB")]].concat();
            let curve = curve(lab, "lttp-7-dctcp", &settings, &senders(lab, 6), goodput)?;
            let first = onset(&curve);
            plot = named(plot, &format!("initial window {window}"), &curve);
            let what = format!("{name}, initial window {window}: fewest senders that collapse");
            let paper = format!("> {most}");
            match (window, first) {
                (READ_WINDOW, Some(first)) => {
                    let (low, high) = (f64::from(*range.start()), f64::from(*range.end()));
                    lab.reading(WINDOW_READING, &what, &paper, first.into(), low..=high);
                    let what = format!("{name}: goodput, 9 senders to there [Mbit/s]");
                    let plateau = between(&curve, 9..=first - 1);
                    lab.reading(WINDOW_READING, &what, "~950", plateau, 921.5..=978.5);
                }
                _ => lab.note(&what, &paper, shown(first)),
            }
        }
        lab.plot(plot.paper([(10.0, 950.0), (most.parse()?, 950.0)]));
    }
    for size in ["128KiB", "256KiB"] {
        let curve = curve(lab, "lttp-7-dctcp", &[(SIZE, size)], &senders(lab, 6), goodput)?;
        let what = format!("64 KB, threshold 4, {size} a sender: fewest senders that collapse");
        lab.note(&what, "> 25", shown(onset(&curve)));
    }
    beside_ns_3(lab)
}

/// Its frames carry TCP's timestamps and PPP's 2 bytes; beside its queue of 64 packets, which is
/// marked from 5 on, one waits in the device.
fn beside_ns_3(lab: &mut Lab) -> Result<()> {
    let queue = [
        ("switch.buffer_packets", "65"),
        ("switch.mark_packets", "6"),
        ("protocol.packet", "1078"),
        ("protocol.header", "54"),
        (SIZE, "64KiB"),
    ];
    for (window, count, expected, part) in NS3_DCTCP {
        let settings = [&queue[..], &[(INITIAL_WINDOW, window)]].concat();
        let ours = curve(lab, "lttp-7-dctcp", &settings, &[count], goodput)?[0].1;
        let what = format!("as ns-3 has it: initial window {window}, {count} senders [Mbit/s]");
        let range = expected * (1.0 - part)..=expected * (1.0 + part);
        lab.goal_beside(&what, &format!("ns-3 {expected}"), ours, range);
    }
    Ok(())
}

/// The paper shows a timeout with 16 senders, where its own Fig. 7 has none below 25: so both are
/// looked at.
pub fn figure_8(lab: &mut Lab) -> Result<()> {
    let segments = |bytes: u64| bytes as f64 / 1_024.0;
    let windows = ["2", "4", "5", "6", "10"];
    let mut bars = [const { Vec::new() }; 2];
    for (place, window) in windows.into_iter().enumerate() {
        for (group, count) in ["16", "24"].into_iter().enumerate() {
            let settings = [(INITIAL_WINDOW, window), (SENDERS, count)];
            let seen =
                lab.watch("lttp-8-dctcp", &[], &settings, "timeouts", |run| run.timeouts.clone())?;
            let all: Vec<Timeout> = seen.into_iter().flatten().collect();
            let of = |bytes: fn(&Timeout) -> u64| {
                mean(&all.iter().map(|timeout| segments(bytes(timeout))).collect::<Vec<_>>())
            };
            let (at, in_flight) = (of(|timeout| timeout.window), of(|timeout| timeout.in_flight));
            if !all.is_empty() {
                bars[group].push((place as f64, at));
            }
            let what = format!("{count} senders, initial window {window}: at timeouts");
            let ours = match all.len() {
                0 => "none".to_owned(),
                count => format!("{count}; window {at:.3}, {in_flight:.1} in flight"),
            };
            lab.note(&what, "window 2.929, 2 in flight", ours);
            // As Fig. 7 is read.
            if (window, count) == (READ_WINDOW, "24") {
                let reading = format!("{WINDOW_READING}; 24 senders, as 16 have no timeout");
                let what = "congestion window at timeouts [segments]";
                lab.reading(&reading, what, "2.929", at, 2.0..=4.0);
            }
        }
    }
    let [sixteen, many] = bars;
    let (x, y) = ("initial window [segments]", "mean window at timeouts [segments]");
    lab.plot(
        Plot::over("DCTCP's congestion window at timeouts", x, y, &windows)
            .curve("16 senders", BARS, plain(sixteen))
            .curve("24 senders", BARS, plain(many))
            .paper([(1.0, 2.929)]),
    );
    Ok(())
}

pub fn figure_9(lab: &mut Lab) -> Result<()> {
    let mut plot = by_senders("DCTCP in a Fat-Tree: goodput by senders");
    for size in ["64KiB", "128KiB", "256KiB"] {
        let tree = curve(lab, "lttp-9-dctcp", &[(SIZE, size)], &senders(lab, 6), goodput)?;
        plot = named(plot, &format!("DCTCP, {size}"), &tree);
        let few = between(&tree, 18..=30);
        lab.number(
            &format!("{size}: goodput, 18 to 30 senders [Mbit/s]"),
            "high, slightly below Fig. 7b's",
            few,
            850.0..=962.0,
        );
        let most = between(&tree, 42..=45);
        let what = format!("{size}: less than half of that with 42 to 45 senders [Mbit/s]");
        lab.holds(&what, format!("{most:.1}"), most < few / 2.0);
        let what = format!("{size}: fewest senders that collapse");
        lab.note(&what, "about as in Fig. 7b (> 34)", shown(onset(&tree)));
    }
    lab.plot(plot);
    // A byte to a host of the same rack, the same pod and another pod.
    for (to, links, paper) in [(1, 2.0, "100"), (4, 4.0, "200"), (16, 6.0, "300")] {
        let single = format!("{{ kind = \"single\", from = 0, to = {to}, size = \"1B\" }}");
        let cases =
            lab.measure("lttp-9-dctcp", &[], &[("one", &[("workload", single.as_str())])])?;
        // Beside propagation, 41 bytes at 1 Gbit/s on every link.
        let there = over(&cases, "one", |row| row.fct_max) * 1e3 - links * 0.328;
        let (what, exact) = (format!("round trip over {links} links [us]"), links * 50.0);
        lab.number(&what, paper, 2.0 * there, exact - 0.01..=exact + 0.01);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;
    use wellspring_experiments::sweep::Output;

    #[test]
    fn figure_8_is_read_as_figure_7_is() {
        let scale = Scale { seeds: Some(vec![1]), ..Scale::default() };
        let mut lab = Lab::new(scale, Output::default(), &|_, _, _| {});
        figure_8(&mut lab).unwrap();
        let judged: Vec<_> = lab.checks.iter().filter(|check| check.fits.is_some()).collect();
        let [row] = &judged[..] else { panic!("{judged:?}") };
        assert!(row.reading.as_ref().unwrap().starts_with(WINDOW_READING), "{row:?}");
        assert_eq!(row.ours, "2.000");
    }
}
