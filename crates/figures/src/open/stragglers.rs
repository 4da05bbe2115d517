//! A slow member of a group, by the policy towards it.

use crate::lab::{Lab, Settings};
use crate::plot::{LINE, Plot, plain};
use anyhow::Result;
use wellspring_experiments::run::Outcome;
use wellspring_experiments::stats::mean;

const QUICK: Settings<'static> = &[("workload.sessions", "8")];

const POLICIES: [(&str, Settings<'static>); 3] = [
    ("waited for", &[("protocol.stragglers.detach", "false")]),
    ("detached", &[]),
    ("detached by backlog alone", &[("protocol.stragglers.relative_rate", "0")]),
];

/// A network that drops and shares, and one that trims as switches that are sold do.
const NETWORKS: [(&str, Settings<'static>); 2] = [
    ("shared", &[]),
    (
        "trimming",
        &[
            ("protocol.fabric", "trimming"),
            ("switch.overflow", "trim"),
            ("switch.buffer", "30KB"),
            ("switch.trim_groups", "false"),
        ],
    ),
];

const RATES: [u32; 6] = [1_000, 500, 200, 100, 50, 20];
/// The host behind the slow link.
const SLOW: u32 = 3;

/// Goodput of writes that reach the slow host, and how many of them did not complete.
fn of_group(outcome: &Outcome) -> [f64; 2] {
    let writes: Vec<_> = outcome.foreground().filter(|flow| flow.host != SLOW).collect();
    let done: Vec<f64> = writes
        .iter()
        .filter(|w| w.completion().is_some() && w.reason.is_none())
        .map(|w| w.goodput() / 1e6)
        .collect();
    [mean(&done), (writes.len() - done.len()) as f64]
}

pub fn figure(lab: &mut Lab) -> Result<()> {
    for (network, fabric) in NETWORKS {
        for (quorum, whose) in [("2", "the other two"), ("3", "all three")] {
            let title =
                format!("Writes of 20 MB on a {network} network: goodput until {whose} have it");
            let x = "rate of the slow member's link [Mbit/s]";
            let mut plot = Plot::new(title, x, "goodput [Mbit/s]").log_x().log_y();
            for (policy, straggler) in POLICIES {
                let (mut points, mut texts) = (Vec::new(), Vec::new());
                for rate in RATES {
                    let link = format!(
                        "[{{ between = [\"switch0\", \"host3\"], rate = \"{rate}Mbit/s\" }}]"
                    );
                    let own = [("topology.links", &*link), ("workload.quorum", quorum)];
                    let settings = [fabric, straggler, &own].concat();
                    let seen =
                        lab.watch("open-stragglers", QUICK, &settings, "goodput", of_group)?;
                    let at =
                        |place: usize| mean(&seen.iter().map(|run| run[place]).collect::<Vec<_>>());
                    points.push((rate, at(0)));
                    texts.push(match at(1) {
                        0.0 => format!("{:.0}", at(0)),
                        lost => format!("{:.0} ({lost:.1} writes lost)", at(0)),
                    });
                }
                let rates = RATES.map(|rate| rate.to_string()).join(", ");
                let what = format!(
                    "{network}, {policy}: goodput until {whose} have it, member at {rates} Mbit/s [Mbit/s]"
                );
                lab.variant(&what, texts.join(", "));
                plot = plot.curve(policy, LINE, plain(points));
            }
            lab.plot(plot);
        }
    }
    Ok(())
}
