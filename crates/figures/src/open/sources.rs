//! Several senders, and several receivers: fresh symbols of SCDP against retransmissions of NDP.

use super::{average, one};
use crate::lab::{Lab, Settings};
use crate::plot::{LINE, Plot, plain};
use anyhow::Result;

const QUICK: Settings<'static> = &[("workload.sessions", "40")];

/// What reads from three replicas.
const READERS: [(&str, Settings<'static>); 4] = [
    ("SCDP, from all three", &[("protocol.name", "scdp")]),
    ("NDP, pieces from all three", &[("protocol.name", "ndp"), ("workload.read_by", "pieces")]),
    ("NDP, a third from each", &[("protocol.name", "ndp"), ("workload.read_by", "parts")]),
    ("NDP, from the nearest", &[("protocol.name", "ndp"), ("workload.read_by", "single")]),
];

/// What writes to three replicas.
const WRITERS: [(&str, Settings<'static>); 4] = [
    ("SCDP, multicast", &[("protocol.name", "scdp")]),
    ("NDP, multicast", &[("protocol.name", "ndp"), ("workload.write_by", "multicast")]),
    ("NDP, daisy chain", &[("protocol.name", "ndp"), ("workload.write_by", "daisy-chain")]),
    ("NDP, a copy to each", &[("protocol.name", "ndp"), ("workload.write_by", "multi-unicast")]),
];

/// Parts of the receivers' links that writes take.
const LOADS: [f64; 4] = [0.1, 0.3, 0.5, 0.7];
/// Replicas of a write.
const REPLICAS: f64 = 3.0;
/// Packets of 4 MB.
const PACKETS: f64 = 2_786.0;

/// Writes a second at which 16 links of 1 Gbit/s carry so much of writes of 4 MB.
fn writes_a_second(load: f64) -> String {
    format!("{:.2}", load * 16e9 / (REPLICAS * 32e6))
}

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
    reads(lab)?;
    writes(lab)
}

/// Reads from three replicas where some hosts are slow.
fn reads(lab: &mut Lab) -> Result<()> {
    let (mut means, mut tails) = ([const { Vec::new() }; 4], [const { Vec::new() }; 4]);
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
            "four hosts send at {rate} Mbit/s: mean (99th percentile) of a read, SCDP / NDP in pieces / NDP by thirds / \
             NDP from one [ms]"
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

/// Writes to three replicas, by load.
fn writes(lab: &mut Lab) -> Result<()> {
    let mut curves = [const { Vec::new() }; 4];
    for load in LOADS {
        let lambda = writes_a_second(load);
        let mut texts = Vec::new();
        for (place, (_, writer)) in WRITERS.iter().enumerate() {
            let own = [
                ("workload.writes", "1.0"),
                ("workload.replicas", "3"),
                ("workload.lambda", &*lambda),
            ];
            let rows = one(lab, "open-sources", QUICK, &[writer, &own[..]].concat())?;
            let (mean, tail) = (average(&rows, |r| r.fct_mean), average(&rows, |r| r.fct_p99));
            let needed = average(&rows, |r| r.completed as f64) * REPLICAS * PACKETS;
            let redundant = average(&rows, |r| r.redundant as f64) / needed.max(1.0) * 100.0;
            curves[place].push((100.0 * load, mean));
            texts.push(format!("{mean:.1} ({tail:.1}; {redundant:.2})"));
        }
        let what = format!(
            "writes to three, {:.0} % load: mean (99th percentile [ms]; redundant over needed packets [%]), SCDP / NDP \
             multicast / NDP daisy chain / NDP copies",
            100.0 * load
        );
        lab.variant(&what, texts.join(" / "));
    }
    let title = "Writes of 4 MB to three: mean";
    let x = "load of the receivers' links [%]";
    let plot = Plot::new(title, x, "completion time [ms]").log_y();
    let curves = WRITERS.iter().zip(curves);
    lab.plot(curves.fold(plot, |plot, ((name, _), points)| plot.curve(*name, LINE, plain(points))));
    Ok(())
}
