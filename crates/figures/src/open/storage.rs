//! A storage cluster as an application sees it: quiet, while a rack is lost, and during the rebuild.

use super::{average, one};
use crate::lab::{Lab, Settings};
use crate::plot::{BARS, Plot, plain};
use crate::shipped::SCDP_AS_SHIPPED;
use crate::tcp::TCP;
use anyhow::Result;
use wellspring_experiments::run::Outcome;
use wellspring_experiments::stats::{mean, quantile};

const QUICK: Settings<'static> = &[("workload.sessions", "60"), ("background.warmup", "5ms")];

const TIMES: [(&str, Settings<'static>); 2] =
    [("quiet", &[]), ("rebuild", &[("background.fraction", "0.3"), ("background.storage", "4MB")])];

const CHAIN: (&str, &str) = ("workload.write_by", "daisy-chain");

const PROTOCOLS: [(&str, Settings<'static>); 3] = [
    ("SCDP", &[("protocol.name", "scdp")]),
    ("NDP", &[("protocol.name", "ndp"), CHAIN]),
    ("TCP", &[TCP, CHAIN]),
];

/// When the switch of the first rack stops \[s\], and the hosts behind it.
const LOST_AT: f64 = 0.1;
const LOST: [(&str, &str); 1] =
    [("events", "[{ at = \"100ms\", kind = \"node-down\", nodes = [\"tor0\"] }]")];
const LOST_HOSTS: u32 = 3;

/// What goes on when a rack is lost, beside the protocols of the other comparison.
const QUORUM: [(&str, &str); 1] = [("workload.quorum", "2")];

pub fn figure(lab: &mut Lab) -> Result<()> {
    rebuild(lab)?;
    lost_rack(lab)
}

/// Of requests of other racks' clients from the loss of a rack on: the part that completes \[%\], and the median and
/// 99th percentile of their times \[ms\].
fn after_the_loss(outcome: &Outcome) -> [f64; 3] {
    let made = outcome.foreground().filter(|flow| {
        let open = flow.end.is_none_or(|end| end >= LOST_AT);
        flow.host >= LOST_HOSTS && (flow.start >= LOST_AT || open)
    });
    let (mut all, mut times) = (0_usize, Vec::new());
    for flow in made {
        all += 1;
        let done = flow.completion().filter(|_| flow.reason.is_none());
        times.extend(done.map(|seconds| seconds * 1e3));
    }
    let share = 100.0 * times.len() as f64 / all.max(1) as f64;
    [share, quantile(&times, 0.5), quantile(&times, 0.99)]
}

fn lost_rack(lab: &mut Lab) -> Result<()> {
    let shipped = [&SCDP_AS_SHIPPED[..], &QUORUM].concat();
    let [scdp, ndp, tcp] = PROTOCOLS;
    let protocols = [scdp, ("SCDP as shipped, two of three replicas", &*shipped), ndp, tcp];
    let places = ["reads", "writes"];
    let title = "Requests of 1 MB while a rack is lost: those that complete";
    let mut plot = Plot::over(title, "", "share of requests [%]", &places);
    for (protocol, own) in protocols {
        let mut shares = Vec::new();
        for (place, (kind, writes)) in [("reads", "0.0"), ("writes", "1.0")].into_iter().enumerate()
        {
            let settings = [own, &LOST[..], &[("workload.writes", writes)]].concat();
            let seen =
                lab.watch("open-storage", QUICK, &settings, "after the loss", after_the_loss)?;
            let of = |at: usize| mean(&seen.iter().map(|run| run[at]).collect::<Vec<_>>());
            shares.push((place as u32, of(0)));
            let what = format!(
                "{kind}, a rack lost at 0.1 s, {protocol}: of requests of other racks from then on, those that complete \
                 [%]; their median and 99th percentile [ms]"
            );
            lab.variant(&what, format!("{:.1}; {:.1}, {:.1}", of(0), of(1), of(2)));
        }
        plot = plot.curve(protocol, BARS, plain(shares));
    }
    lab.plot(plot);
    Ok(())
}

/// Medians and tails, quiet and beside a rebuild.
fn rebuild(lab: &mut Lab) -> Result<()> {
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
