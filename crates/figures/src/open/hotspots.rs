//! Hotspots: a slow link, a lost switch, an over-subscribed core.

use super::{average, one};
use crate::lab::{Lab, Settings};
use crate::plot::{BARS, Plot, plain};
use crate::tcp::TCP;
use anyhow::Result;

const QUICK: Settings<'static> = &[("workload.sessions", "40")];

const PLACES: [(&str, Settings<'static>); 4] = [
    ("undisturbed", &[]),
    (
        "a slow link",
        &[("topology.links", "[{ between = [\"agg0\", \"core0\"], rate = \"100Mbit/s\" }]")],
    ),
    (
        "a lost switch",
        &[
            ("events", "[{ at = \"500ms\", kind = \"node-down\", nodes = [\"agg0\"] }]"),
            ("topology.convergence", "50ms"),
        ],
    ),
    (
        "a third of the core",
        &[(
            "topology.shape",
            "{ pods = 6, tors_per_pod = 3, hosts_per_tor = 3, aggs_per_pod = 3, cores_per_agg = 1 }",
        )],
    ),
];

/// A key of a scenario, and its value.
type Setting = (&'static str, &'static str);

/// Reads, writes: name, share of writes, and what NDP and TCP do.
const KINDS: [(&str, &str, [Setting; 2]); 2] = [
    ("Reads of 4 MB", "0.0", [("workload.read_by", "parts"), ("workload.read_by", "single")]),
    (
        "Writes of 4 MB",
        "1.0",
        [("workload.write_by", "daisy-chain"), ("workload.write_by", "daisy-chain")],
    ),
];

pub fn figure(lab: &mut Lab) -> Result<()> {
    let names = PLACES.map(|(name, _)| name);
    for (kind, writes, [ndp, tcp]) in KINDS {
        let protocols = [
            ("SCDP", vec![("protocol.name", "scdp")]),
            ("NDP", vec![("protocol.name", "ndp"), ndp]),
            ("TCP", vec![TCP, tcp]),
        ];
        let title = format!("{kind}: 5th percentile of goodput");
        let mut plot = Plot::over(title, "", "goodput [Gbit/s]", &names);
        for (protocol, settings) in &protocols {
            let mut points = Vec::new();
            for (place, (name, hotspot)) in PLACES.iter().enumerate() {
                let settings = [&settings[..], hotspot, &[("workload.writes", writes)]].concat();
                let rows = one(lab, "open-hotspots", QUICK, &settings)?;
                let (mean, p5) =
                    (average(&rows, |r| r.goodput_mean), average(&rows, |r| r.goodput_p5));
                points.push((place as u32, p5));
                let tail = average(&rows, |row| row.fct_p99);
                let mut ours = format!("{mean:.3}, {p5:.3}; {tail:.0}");
                let mut what = format!(
                    "{kind}, {name}, {protocol}: goodput, mean and 5th percentile [Gbit/s]; 99th percentile of the time [ms]"
                );
                if *protocol == "SCDP" {
                    what.push_str("; requests with a decoded block [%]");
                    ours.push_str(&format!("; {:.0}", 100.0 * average(&rows, |r| r.decoded_share)));
                }
                lab.variant(&what, ours);
            }
            plot = plot.curve(*protocol, BARS, plain(points));
        }
        lab.plot(plot);
    }
    Ok(())
}
