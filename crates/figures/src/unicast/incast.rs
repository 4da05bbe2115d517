//! Many senders at once: SCDP Fig. 12, incast and outcast.

use super::{NDP, SCDP, incast_share, wire_share};
use crate::lab::{Cases, Lab, Settings, over};
use crate::plot::{BARS, LINE, Plot, SHIPPED, SHIPPED_BARS, plain, sample};
use crate::shipped::SCDP_AS_SHIPPED;
use crate::tcp;
use anyhow::Result;
use wellspring_experiments::results::RunRow;
use wellspring_experiments::stats::{RANKS, mean};

pub fn figure_12a(lab: &mut Lab) -> Result<()> {
    for size in ["70KB", "256KB"] {
        let mut curves = [const { Vec::new() }; 4];
        let mut times = None;
        let senders: &[&str] = &["4", "16", "32", "70"];
        for count in senders {
            let settings =
                |protocol| [protocol, ("workload.size", size), ("workload.senders", count)];
            let (scdp, ndp, tcp) = (settings(SCDP), settings(NDP), settings(tcp::TCP));
            let shipped = [&SCDP_AS_SHIPPED[..], &scdp[1..]].concat();
            let own = [scdp[0], scdp[1], scdp[2], ("protocol.decode", "measured")];
            let cases = [
                ("scdp", &scdp[..]),
                ("scdp, own codec", &own),
                ("ndp", &ndp),
                ("tcp", &tcp),
                ("shipped", &shipped),
            ];
            let cases = lab.measure("scdp-12a", &[("background.warmup", "5ms")], &cases)?;
            let share = |name| over(&cases, name, |row| incast_share(row) / wire_share());
            let flat = 0.9..=1.0;
            for (curve, label) in curves.iter_mut().zip(["scdp", "ndp", "tcp", "shipped"]) {
                curve.push(sample(&cases, label, count.parse()?, incast_share));
            }
            for name in ["scdp", "ndp"] {
                let what = format!("{name}, {count} senders of {size}: goodput over the wire's");
                lab.number(&what, "flat, no collapse", share(name), flat.clone());
                if name == "scdp" {
                    let own = share("scdp, own codec");
                    lab.cause("decoding at 1.3 Gbit/s", flat.contains(&own));
                    lab.shipped(format!("{:.3}", share("shipped")));
                }
            }
            beside_ndp(lab, &format!("{count} senders of {size}"), share("scdp"), share("ndp"));
            let what = format!("scdp, {count} senders of {size}, decoding as fast as our codec");
            lab.variant(&what, format!("{:.3}", share("scdp, own codec")));
            if *count == "70" {
                let median = |name| over(&cases, name, |row| row.fct_p50);
                let (scdp, ndp) = (median("scdp"), median("ndp"));
                let what = format!("70 of {size}: median FCT, SCDP less than NDP [ms]");
                lab.holds(&what, format!("{scdp:.2} / {ndp:.2}"), scdp < ndp);
                times = Some(completion_times(&cases, size));
            }
        }
        let title = format!("Incast of {size} a sender");
        let plot = Plot::new(title, "senders", "aggregate goodput [Gbit/s]");
        let [scdp, ndp, tcp, shipped] = curves;
        lab.plot(
            plot.curve("SCDP", LINE, scdp).curve("NDP", LINE, ndp).curve("TCP", LINE, tcp).curve(
                "SCDP as shipped",
                SHIPPED,
                shipped,
            ),
        );
        times.into_iter().for_each(|plot| lab.plot(plot));
    }
    tcp::collapse(lab, "scdp-12a", "32")
}

/// The order of the paper's curves: "SCDP performs slightly better compared to NDP".
fn beside_ndp(lab: &mut Lab, of: &str, scdp: f64, ndp: f64) {
    let what = format!("{of}: SCDP's goodput at least NDP's, over the wire's");
    lab.holds(&what, format!("{scdp:.3} / {ndp:.3}"), scdp >= ndp);
}

/// Fig. 12b: completion times of 70 senders' flows. Of rows without distributions, two quantiles and
/// the longest.
fn completion_times(cases: &Cases, size: &str) -> Plot {
    let title = format!("70 senders of {size}: completion times");
    let plot = Plot::new(title, "completion time [ms]", "share of flows [%]");
    [("scdp", "SCDP"), ("ndp", "NDP")].into_iter().fold(plot, |plot, (label, name)| {
        let rows = cases.get(label).map(Vec::as_slice).unwrap_or_default();
        let whole = !rows.is_empty() && rows.iter().all(|row| row.times.len() > RANKS);
        let points: Vec<(f64, f64)> = if whole {
            let at =
                |rank: usize| mean(&rows.iter().map(|row| row.times[rank]).collect::<Vec<_>>());
            (0..=RANKS).map(|rank| (at(rank), 100.0 * rank as f64 / RANKS as f64)).collect()
        } else {
            let of = |column: fn(&RunRow) -> Option<f64>| over(cases, label, column);
            let fct = [of(|row| row.fct_p50), of(|row| row.fct_p99), of(|row| row.fct_max)];
            fct.into_iter().zip([50.0, 99.0, 100.0]).collect()
        };
        plot.curve(name, LINE, plain(points))
    })
}

/// Rates of the near and the far group while both last \[Mbit/s\], means over seeds.
fn outcast(lab: &Lab, settings: Settings<'_>) -> Result<[f64; 2]> {
    let rates = lab.watch("scdp-12d", &[], settings, "rates of groups", |outcome| {
        // The near flows go to one receiver, the far ones, of which there are more, to another.
        let peers: Vec<u32> = outcome.foreground().map(|flow| flow.peer).collect();
        let flows_to = |peer: u32| peers.iter().filter(|other| **other == peer).count();
        let near = peers.iter().copied().min_by_key(|peer| flows_to(*peer)).unwrap_or(0);
        let far = peers.iter().copied().max_by_key(|peer| flows_to(*peer)).unwrap_or(0);
        let last = |peer: u32| {
            let group = outcome.foreground().filter(move |flow| flow.peer == peer);
            group.filter_map(|flow| flow.end).fold(0.0, f64::max)
        };
        // Behind the initial windows.
        let (from, until) = (0.5e-3, last(near).min(last(far)));
        [near, far].map(|host| outcome.series.rate(host, from, until) / 1e6)
    })?;
    Ok([0, 1].map(|group| mean(&rates.iter().map(|both| both[group]).collect::<Vec<_>>())))
}

/// What NDP's switch does, which the paper refers to: the packet that is cut is the arriving one or
/// the last in the queue, by a coin.
const COIN: (&str, &str) = ("switch.victim", "arriving-or-last");

pub fn figure_12d(lab: &mut Lab) -> Result<()> {
    let flat = ("protocol.thresholds", "[\"10MB\"]");
    let ranges = [414.0..=506.0, 391.5..=478.5];
    let of_one_class = outcast(lab, &[SCDP, COIN, flat])?;
    let [near, far] = outcast(lab, &[SCDP, COIN])?;
    // Near flows, of which there are few, sink a class before the many far ones, and then wait: that is the
    // cause if without it both groups have what the paper's have.
    let shown = ranges.iter().zip(of_one_class).all(|(range, rate)| range.contains(&rate));
    let demoted = "demotion by bytes sent";
    let shipped = outcast(lab, &[&SCDP_AS_SHIPPED[..], &[COIN]].concat())?;
    let ndp = outcast(lab, &[NDP, COIN])?;
    let pair = |[near, far]: [f64; 2]| plain([(0.0, near), (1.0, far)]);
    lab.plot(
        Plot::over(
            "Two near and twelve far flows of 200 KB",
            "",
            "goodput of the group [Mbit/s]",
            &["2 near flows", "12 far flows"],
        )
        .curve("SCDP", BARS, pair([near, far]))
        .curve("SCDP, one class", BARS, pair(of_one_class))
        .curve("NDP", BARS, pair(ndp))
        .curve("SCDP as shipped", SHIPPED_BARS, pair(shipped))
        .paper([(0.0, 460.0), (1.0, 435.0)]),
    );
    lab.number("SCDP, near group [Mbit/s]", "460", near, ranges[0].clone());
    lab.cause(demoted, shown);
    lab.shipped(format!("{:.3}", shipped[0]));
    lab.number("SCDP, far group [Mbit/s]", "435", far, ranges[1].clone());
    lab.cause(demoted, shown);
    lab.shipped(format!("{:.3}", shipped[1]));
    lab.number("SCDP, both groups [Mbit/s]", "~900", near + far, 810.0..=990.0);
    lab.shipped(format!("{:.3}", shipped[0] + shipped[1]));
    let [near, far] = of_one_class;
    let what = "SCDP, all in one class: near / far / both [Mbit/s]";
    lab.variant(what, format!("{near:.0} / {far:.0} / {:.0}", near + far));
    // While one of the two near flows decodes, half of that group stands still.
    let at_once = ("protocol.decode", "none");
    for (what, settings) in [
        ("SCDP, all in one class, decoding takes no time", &[SCDP, COIN, flat, at_once][..]),
        ("SCDP, and the arriving packet is always cut", &[SCDP]),
        ("NDP", &[NDP, COIN]),
        ("NDP, and the arriving packet is always cut", &[NDP]),
    ] {
        let [near, far] = outcast(lab, settings)?;
        let ours = format!("{near:.0} / {far:.0} / {:.0}", near + far);
        lab.variant(&format!("{what}: near / far / both [Mbit/s]"), ours);
    }
    tcp::unfairness(lab)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scale, Verdict};
    use wellspring_experiments::sweep::Output;

    #[test]
    fn an_incast_that_is_flat_but_below_ndps_contradicts_the_papers_order() {
        let mut lab = Lab::new(Scale::default(), Output::default(), &|_, _, _| {});
        beside_ndp(&mut lab, "70 senders of 70KB", 0.936, 0.989);
        beside_ndp(&mut lab, "70 senders of 70KB", 0.989, 0.989);
        let verdicts: Vec<_> = lab.checks.iter().map(|check| check.verdict).collect();
        assert_eq!(verdicts, [Verdict::Missed, Verdict::Reproduced]);
    }
}
