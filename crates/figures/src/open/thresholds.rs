//! SCDP's thresholds and window by load.

use super::{average, one, pias_solver};
use crate::lab::{Lab, Settings};
use crate::plot::{LINE, Plot, plain};
use anyhow::Result;
use wellspring_experiments::results::RunRow;
use wellspring_experiments::scenario::Sizes;

const QUICK: Settings<'static> =
    &[("workload.sessions", "60"), ("background.warmup", "5ms"), ("run.limit", "80ms")];

const LOADS: [&str; 3] = ["0.3", "0.5", "0.7"];
/// Factors of the paper's thresholds, which are those of factor 1.
const FACTORS: [f64; 5] = [0.0625, 0.25, 1.0, 4.0, 16.0];
/// The key of thresholds.
const KEY: &str = "protocol.thresholds";
const WINDOWS: [&str; 5] = ["4", "8", "12", "24", "48"];

/// A column of a run.
type Column = fn(&RunRow) -> Option<f64>;

/// What is compared: all flows, and those up to 100 KB.
const COLUMNS: [(&str, Column); 2] =
    [("all flows", |row| row.fct_mean), ("flows up to 100 KB", |row| row.fct_mean_100kb)];

/// The paper's thresholds \[bytes\].
const PAPERS: [f64; 4] = [1e4, 1e5, 1e6, 1e7];

/// Thresholds as a scenario has them.
fn thresholds(sizes: &[f64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(|size| format!("\"{size:.0}B\"")).collect();
    format!("[{}]", sizes.join(", "))
}

/// Mean completion times at each load with the paper's value \[ms\].
type AtLoads = Vec<(&'static str, [f64; 2])>;

pub fn figure(lab: &mut Lab) -> Result<()> {
    let multiple = |factor| (factor, thresholds(&PAPERS.map(|size| size * factor)));
    let factors: Vec<(f64, String)> = FACTORS.map(multiple).to_vec();
    let papers = vary(lab, ("thresholds", "factor of the paper's thresholds"), KEY, 1.0, &factors)?;
    solved(lab, &papers)?;
    let windows = WINDOWS.map(|window| (window.parse().unwrap_or_default(), window.to_owned()));
    vary(lab, ("window", "window [symbols]"), "protocol.window", 12.0, &windows)?;
    Ok(())
}

/// Mean completion times of one setting at a load \[ms\].
fn times(lab: &Lab, load: &str, setting: (&str, &str)) -> Result<[f64; 2]> {
    let settings = [("background.fraction", load), setting, ("protocol.decode", "measured")];
    let rows = one(lab, "open-thresholds", QUICK, &settings)?;
    Ok(COLUMNS.map(|(_, column)| average(&rows, column)))
}

/// Thresholds by PIAS's model beside the paper's.
fn solved(lab: &mut Lab, papers: &AtLoads) -> Result<()> {
    for (load, papers) in papers {
        let part = load.parse().unwrap_or_default();
        let found = pias_solver::thresholds(&Sizes::WebSearch, part, PAPERS.len());
        let own = times(lab, load, (KEY, &thresholds(&found)))?;
        let kilobytes: Vec<String> =
            found.iter().map(|bytes| format!("{:.0}", bytes / 1e3)).collect();
        let what = format!(
            "thresholds by PIAS's solver at load {load} [KB]; mean completion time of all flows, and of those up to \
             100 KB, over that with the paper's"
        );
        let ratios = [0, 1].map(|place| own[place] / papers[place]);
        let ours = format!("{}; {:.3}, {:.3}", kilobytes.join(", "), ratios[0], ratios[1]);
        lab.variant(&what, ours);
    }
    Ok(())
}

/// Mean completion times over those with the paper's value, by load; and with that value itself.
fn vary(
    lab: &mut Lab,
    (name, axis): (&str, &str),
    key: &str,
    papers: f64,
    values: &[(f64, String)],
) -> Result<AtLoads> {
    let mut seen = Vec::new();
    for load in LOADS {
        let mut at_load = Vec::new();
        for (x, value) in values {
            at_load.push((*x, times(lab, load, (key, value))?));
        }
        seen.push((load, at_load));
    }
    for (place, (what, _)) in COLUMNS.iter().enumerate() {
        let title = format!("Mean completion time of {what} over that with the paper's {name}");
        let mut plot = Plot::new(title, axis, "times the paper's").log_x();
        for (load, at_load) in &seen {
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
    let with_papers = |at_load: &[(f64, [f64; 2])]| {
        at_load.iter().find(|(x, _)| *x == papers).map_or([0.0; 2], |(_, times)| *times)
    };
    Ok(seen.iter().map(|(load, at_load)| (*load, with_papers(at_load))).collect())
}
