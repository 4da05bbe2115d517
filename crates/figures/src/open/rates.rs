//! Coding at 10 to 400 Gbit/s, with measured decoding times.

use super::{average, one};
use crate::lab::{Lab, Settings};
use crate::plot::{LINE, Plot, REFERENCE, plain};
use anyhow::Result;

const QUICK: Settings<'static> = &[("workload.sessions", "60")];

/// Rate \[Gbit/s\], and window of every sender: rate times round trip in packets of 9,000 bytes. One
/// sender of three suffices for the rate where the others are busy.
const RATES: [(u32, &str); 4] = [(10, "8"), (40, "13"), (100, "23"), (400, "73")];

/// Blocks of 100 symbols of 8,192 bytes, all lost \[us\]: bench/record/2026-11-25-codec.md (Zen 5,
/// AVX-512; the crate `raptorq` there) and 2026-11-25-codec-zen3.md (AVX2).
const CODECS: [(&str, f64); 3] =
    [("our codec, Zen 5", 100.0), ("our codec, Zen 3", 333.6), ("raptorq, Zen 5", 474.3)];
/// Bits of such a block.
const BLOCK: f64 = 100.0 * 8_192.0 * 8.0;

/// Reads per second that load each of 16 hosts' links to 30 %, of 4 MB.
fn arrivals(rate: u32) -> String {
    format!("{:.1}", 0.3 * 16.0 * f64::from(rate) * 1e9 / 32e6)
}

pub fn figure(lab: &mut Lab) -> Result<()> {
    let curves: Vec<String> = CODECS
        .iter()
        .map(|(_, us)| format!("[[100.0, {us:.1}], [200.0, {:.1}]]", 2.0 * us))
        .collect();
    let curve = ("protocol.decode", "curve");
    let ndp = ("protocol.name", "ndp");
    let mut cases: Vec<(String, Vec<(&str, &str)>)> =
        vec![("SCDP, decoding in no time".to_owned(), vec![("protocol.decode", "none")])];
    for ((name, _), points) in CODECS.iter().zip(&curves) {
        cases.push((format!("SCDP, {name}"), vec![curve, ("protocol.decode_curve", points)]));
    }
    cases.push(("NDP, a third from each".to_owned(), vec![ndp, ("workload.read_by", "parts")]));
    cases.push(("NDP, from the nearest".to_owned(), vec![ndp, ("workload.read_by", "single")]));

    let title = "Reads of 4 MB from three: mean goodput over the link's rate";
    let mut plot = Plot::new(title, "rate of links [Gbit/s]", "share of the rate").log_x();
    let rates = RATES.map(|(rate, ..)| rate.to_string()).join(" / ");
    for (name, settings) in &cases {
        let mut points = Vec::new();
        for (rate, window) in RATES {
            let (link, lambda) = (format!("{rate}Gbit/s"), arrivals(rate));
            let own = [
                ("topology.rate", &*link),
                ("protocol.window", window),
                ("protocol.window_per_sender", window),
                ("workload.lambda", &lambda),
            ];
            let rows = one(lab, "open-rates", QUICK, &[settings, &own[..]].concat())?;
            points.push((rate, average(&rows, |row| row.goodput_mean) / f64::from(rate)));
        }
        let what = format!("{name}: goodput over the link's rate, at {rates} Gbit/s");
        let texts: Vec<String> = points.iter().map(|(_, share)| format!("{share:.3}")).collect();
        lab.variant(&what, texts.join(" / "));
        let style = if name.ends_with("no time") { REFERENCE } else { LINE };
        plot = plot.curve(name.clone(), style, plain(points));
    }
    lab.plot(plot);
    cores(lab);
    Ok(())
}

/// Processor cores that a receiver decodes with when its link is full.
fn cores(lab: &mut Lab) {
    let title = "Cores that decode what a full link brings";
    let mut plot = Plot::new(title, "rate of the link [Gbit/s]", "cores").log_x().log_y();
    for (name, us) in CODECS {
        let each = BLOCK / us / 1e3;
        let points = RATES.map(|(rate, ..)| (rate, f64::from(rate) / each));
        let texts = points.map(|(_, cores)| format!("{cores:.2}"));
        let what =
            format!("{name}: Gbit/s that a core decodes; cores at 10 / 40 / 100 / 400 Gbit/s");
        lab.variant(&what, format!("{each:.1}; {}", texts.join(" / ")));
        plot = plot.curve(name, LINE, plain(points));
    }
    lab.plot(plot);
}
