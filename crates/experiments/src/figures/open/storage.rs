//! A storage cluster as an application sees it, quiet and during a rebuild.

use super::{average, one};
use crate::figures::lab::{Lab, Settings};
use crate::figures::plot::{BARS, Plot, plain};
use crate::figures::tcp::TCP;
use anyhow::Result;

const QUICK: Settings<'static> = &[("workload.sessions", "60"), ("background.warmup", "5ms")];

const TIMES: [(&str, Settings<'static>); 2] =
    [("quiet", &[]), ("rebuild", &[("background.fraction", "0.3"), ("background.storage", "4MB")])];

const CHAIN: (&str, &str) = ("workload.write_by", "daisy-chain");

const PROTOCOLS: [(&str, Settings<'static>); 3] = [
    ("SCDP", &[("protocol.name", "scdp")]),
    ("NDP", &[("protocol.name", "ndp"), CHAIN]),
    ("TCP", &[TCP, CHAIN]),
];

pub fn figure(lab: &mut Lab) -> Result<()> {
    let places = ["reads, quiet", "reads, rebuild", "writes, quiet", "writes, rebuild"];
    let mut medians = Plot::over("Requests of 1 MB: median", "", "completion time [ms]", &places);
    let mut tails =
        Plot::over("Requests of 1 MB: 99th percentile", "", "completion time [ms]", &places);
    (medians, tails) = (medians.log_y(), tails.log_y());
    for (protocol, own) in PROTOCOLS {
        let (mut median, mut tail) = (Vec::new(), Vec::new());
        for (kind, writes) in [("reads", "0.0"), ("writes", "1.0")] {
            for (name, load) in TIMES {
                let settings = [own, load, &[("workload.writes", writes)]].concat();
                let rows = one(lab, "open-storage", QUICK, &settings)?;
                let (half, most) = (average(&rows, |r| r.fct_p50), average(&rows, |r| r.fct_p99));
                let (place, rebuilt) =
                    (median.len() as u32, average(&rows, |r| r.background_goodput));
                median.push((place, half));
                tail.push((place, most));
                let what = format!(
                    "{kind}, {name}, {protocol}: median and 99th percentile [ms]; what each rebuilding host copies \
                     [Gbit/s]"
                );
                lab.variant(&what, format!("{half:.1}, {most:.1}; {rebuilt:.3}"));
            }
        }
        medians = medians.curve(protocol, BARS, plain(median));
        tails = tails.curve(protocol, BARS, plain(tail));
    }
    lab.plot(medians);
    lab.plot(tails);
    Ok(())
}
