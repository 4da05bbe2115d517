//! Several senders: fresh symbols of SCDP against retransmissions of NDP.

use super::{average, one};
use crate::figures::lab::{Lab, Settings};
use crate::figures::plot::{LINE, Plot, plain};
use anyhow::Result;

const QUICK: Settings<'static> = &[("workload.sessions", "40")];

/// What reads from three replicas.
const READERS: [(&str, Settings<'static>); 3] = [
    ("SCDP, from all three", &[("protocol.name", "scdp")]),
    ("NDP, a third from each", &[("protocol.name", "ndp"), ("workload.read_by", "parts")]),
    ("NDP, from the nearest", &[("protocol.name", "ndp"), ("workload.read_by", "single")]),
];

/// Rates of the slow hosts' links \[Mbit/s\].
const RATES: [u32; 5] = [1_000, 500, 250, 100, 50];

/// Four of 16 hosts send at that rate, each in another pod.
fn slow_links(rate: u32) -> String {
    let link = |pod: u32| {
        let (host, tor) = (4 * pod, 2 * pod);
        format!(
            "{{ between = [\"host{host}\", \"tor{tor}\"], rate = \"{rate}Mbit/s\", reverse_rate = \"1Gbit/s\" }}"
        )
    };
    format!("[{}]", (0..4).map(link).collect::<Vec<_>>().join(", "))
}

pub fn figure(lab: &mut Lab) -> Result<()> {
    let (mut means, mut tails) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    for rate in RATES {
        let links = slow_links(rate);
        let mut texts = Vec::new();
        for (place, (_, reader)) in READERS.iter().enumerate() {
            let settings = [reader, &[("topology.links", &*links)][..]].concat();
            let rows = one(lab, "open-sources", QUICK, &settings)?;
            let (mean, tail) = (average(&rows, |r| r.fct_mean), average(&rows, |r| r.fct_p99));
            means[place].push((rate, mean));
            tails[place].push((rate, tail));
            texts.push(format!("{mean:.1} ({tail:.1})"));
        }
        let what = format!(
            "four hosts send at {rate} Mbit/s: mean (99th percentile) of a read, SCDP / NDP by thirds / NDP from one [ms]"
        );
        lab.variant(&what, texts.join(" / "));
    }
    for (title, values) in [("mean", means), ("99th percentile", tails)] {
        let title = format!("Reads of 4 MB, four of 16 hosts slow: {title}");
        let plot =
            Plot::new(title, "rate of the slow hosts' links [Mbit/s]", "completion time [ms]");
        let plot = plot.log_x().log_y();
        let curves = READERS.iter().zip(values);
        lab.plot(
            curves.fold(plot, |plot, ((name, _), points)| plot.curve(*name, LINE, plain(points))),
        );
    }
    Ok(())
}
