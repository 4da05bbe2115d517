//! SCDP on switches as they are sold.

use super::{average, one};
use crate::lab::{Lab, Settings};
use crate::plot::{BARS, Plot, plain};
use anyhow::Result;
use wellspring_experiments::results::RunRow;

const QUICK: Settings<'static> = &[("workload.sessions", "40"), ("background.warmup", "5ms")];

/// The paper's switch, and what differs in one that is sold.
const SWITCHES: [(&str, Settings<'static>); 6] = [
    ("paper", &[]),
    ("trims of 128 B", &[("switch.trim_size", "128B")]),
    ("trims of 256 B", &[("switch.trim_size", "256B")]),
    ("groups dropped", &[("switch.trim_groups", "false")]),
    ("three classes", &[THREE_CLASSES]),
    ("all of it", &[("switch.trim_size", "256B"), ("switch.trim_groups", "false"), THREE_CLASSES]),
];

const THREE_CLASSES: (&str, &str) = ("protocol.thresholds", "[\"10KB\", \"100KB\"]");

/// SCDP as in the paper, but for losses without a trimmed header; and as it is shipped.
const SCDP: [(&str, Settings<'static>); 2] = [
    ("the paper's SCDP", &[("protocol.gap_threshold", "32")]),
    ("as shipped", &[("protocol.configuration", "shipped"), ("protocol.decode", "measured")]),
];

pub fn figure(lab: &mut Lab) -> Result<()> {
    let names = SWITCHES.map(|(name, _)| name);
    for (writes, receivers, scenario) in
        [("1.0", 3.0, "Writes of 1 MB to three"), ("0.0", 1.0, "Reads of 1 MB from three")]
    {
        let title = format!("{scenario}: mean goodput by switch");
        let mut plot = Plot::over(title, "", "goodput [Gbit/s]", &names);
        for (configuration, scdp) in SCDP {
            let mut points = Vec::new();
            for (place, (name, switch)) in SWITCHES.iter().enumerate() {
                let settings = [scdp, switch, &[("workload.writes", writes)]].concat();
                let rows = one(lab, "open-switches", QUICK, &settings)?;
                let mean = average(&rows, |row| row.goodput_mean);
                points.push((place as u32, mean));
                let (p5, p99) = (average(&rows, |r| r.goodput_p5), average(&rows, |r| r.fct_p99));
                let redundant = average(&rows, |row| overhead(row, receivers));
                let what = format!(
                    "{scenario}, {configuration}, {name}: goodput, mean and 5th percentile [Gbit/s]; 99th percentile of \
                     the time [ms]; unneeded symbols [%]"
                );
                lab.variant(&what, format!("{mean:.3}, {p5:.3}; {p99:.1}; {redundant:.2}"));
            }
            plot = plot.curve(configuration, BARS, plain(points));
        }
        lab.plot(plot);
    }
    classes(lab)
}

/// Symbols that arrived for nothing, in percent of those that were needed, each by so many receivers.
fn overhead(row: &RunRow, receivers: f64) -> f64 {
    let needed = row.completed as f64 * (row.size as f64 / 1_436.0).ceil() * receivers;
    100.0 * row.redundant as f64 / needed
}

/// Flows up to 100 KB among web search sizes, by the number of classes.
fn classes(lab: &mut Lab) -> Result<()> {
    const CLASSES: [(&str, &str); 4] = [
        ("five", "[\"10KB\", \"100KB\", \"1MB\", \"10MB\"]"),
        ("three", "[\"10KB\", \"100KB\"]"),
        ("two", "[\"100KB\"]"),
        ("one", "[]"),
    ];
    let quick = [("workload.sessions", "60"), ("background.warmup", "5ms"), ("run.limit", "80ms")];
    let title = "Web search at load 0.5: flows up to 100 KB by the number of classes";
    let (mut means, mut tails) = (Vec::new(), Vec::new());
    for (place, (name, thresholds)) in CLASSES.iter().enumerate() {
        let settings = [("protocol.thresholds", *thresholds), ("protocol.decode", "measured")];
        let rows = one(lab, "open-thresholds", &quick, &settings)?;
        let (mean, tail) =
            (average(&rows, |r| r.fct_mean_100kb), average(&rows, |r| r.fct_p99_100kb));
        means.push((place as u32, mean));
        tails.push((place as u32, tail));
        let goodput = average(&rows, |row| row.goodput_1mb_10mb);
        let what = format!(
            "web search at 0.5, {name} of the classes: flows up to 100 KB, mean and 99th percentile [ms]; goodput of 1 to \
             10 MB [Gbit/s]"
        );
        lab.variant(&what, format!("{mean:.3}, {tail:.3}; {goodput:.3}"));
    }
    let plot =
        Plot::over(title, "data classes", "completion time [ms]", &CLASSES.map(|(name, _)| name));
    lab.plot(plot.curve("mean", BARS, plain(means)).curve("99th percentile", BARS, plain(tails)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_group_needs_is_a_copy_for_each_of_its_receivers() {
        let row = RunRow { completed: 2, size: 14_360, redundant: 6, ..RunRow::default() };
        assert_eq!(overhead(&row, 1.0), 30.0);
        assert_eq!(overhead(&row, 3.0), 10.0);
    }
}
