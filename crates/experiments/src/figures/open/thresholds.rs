//! SCDP's thresholds and window by load.

use super::{average, one};
use crate::figures::lab::{Lab, Settings};
use crate::figures::plot::{LINE, Plot, plain};
use crate::results::RunRow;
use anyhow::Result;

const QUICK: Settings<'static> =
    &[("workload.sessions", "60"), ("background.warmup", "5ms"), ("run.limit", "80ms")];

const LOADS: [&str; 3] = ["0.3", "0.5", "0.7"];
/// Factors of the paper's thresholds, which are those of factor 1.
const FACTORS: [f64; 5] = [0.0625, 0.25, 1.0, 4.0, 16.0];
const WINDOWS: [&str; 5] = ["4", "8", "12", "24", "48"];

/// A column of a run.
type Column = fn(&RunRow) -> f64;

/// What is compared: all flows, and those up to 100 KB.
const COLUMNS: [(&str, Column); 2] =
    [("all flows", |row| row.fct_mean), ("flows up to 100 KB", |row| row.fct_mean_100kb)];

/// The paper's thresholds times a factor, as a scenario has them.
fn thresholds(factor: f64) -> String {
    let sizes = [1e4, 1e5, 1e6, 1e7].map(|size| format!("\"{:.0}B\"", size * factor));
    format!("[{}]", sizes.join(", "))
}

pub fn figure(lab: &mut Lab) -> Result<()> {
    let factors: Vec<(f64, String)> = FACTORS.map(|factor| (factor, thresholds(factor))).to_vec();
    let key = "protocol.thresholds";
    vary(lab, ("thresholds", "factor of the paper's thresholds"), key, 1.0, &factors)?;
    let windows = WINDOWS.map(|window| (window.parse().unwrap_or_default(), window.to_owned()));
    vary(lab, ("window", "window [symbols]"), "protocol.window", 12.0, &windows)
}

/// Mean completion times over those with the paper's value, by load.
fn vary(
    lab: &mut Lab,
    (name, axis): (&str, &str),
    key: &str,
    papers: f64,
    values: &[(f64, String)],
) -> Result<()> {
    let mut times = Vec::new();
    for load in LOADS {
        let mut at_load = Vec::new();
        for (x, value) in values {
            let settings =
                [("background.fraction", load), (key, value), ("protocol.decode", "measured")];
            let rows = one(lab, "open-thresholds", QUICK, &settings)?;
            at_load.push((*x, COLUMNS.map(|(_, column)| average(&rows, column))));
        }
        times.push((load, at_load));
    }
    for (place, (what, _)) in COLUMNS.iter().enumerate() {
        let title = format!("Mean completion time of {what} over that with the paper's {name}");
        let mut plot = Plot::new(title, axis, "times the paper's").log_x();
        for (load, at_load) in &times {
            let of = |times: &[f64; 2]| times[place];
            let own =
                at_load.iter().find(|(x, _)| *x == papers).map_or(1.0, |(_, times)| of(times));
            let points: Vec<(f64, f64)> = at_load.iter().map(|(x, t)| (*x, of(t) / own)).collect();
            let best =
                points.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0.0, 0.0));
            let row = format!(
                "{what} at load {load}: best {name}, and its mean completion time over that with the paper's; the latter \
                 [ms]"
            );
            lab.variant(&row, format!("{}; {:.3}; {own:.3}", best.0, best.1));
            plot = plot.curve(format!("load {load}"), LINE, plain(points));
        }
        lab.plot(plot);
    }
    Ok(())
}
