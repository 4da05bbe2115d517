//! Figs. 9 and 10, TCP's throughput with and without Maelstrom, and what bursts do to it: kernel
//! TCP through real appliances.

use anyhow::Result;
use serde::Deserialize;

use super::real_seeds;
use crate::Lab;
use crate::plot::{LINE, Plot, plain};
use crate::traffic::typed;
use wellspring_experiments::stats::mean;

/// The paper's options, (8, 3) and I = (1, 20, 40).
const PAPERS: &str = "8,3:1,20,40";
/// What bursts are better answered by: interleaves without common divisors, repairs later.
const FOR_BURSTS: &str = "8,3:1,19,41d";
/// Reno through Reed-Solomon tunnels at (8, 3), 50 ms and 100 Mbit/s, measured once on a machine like
/// this: loss, tinyfecVPN, and kcptun, which retransmits besides \[Mbit/s\].
const TUNNELS: [(f64, [u32; 2]); 7] = [
    (0.0, [61, 65]),
    (0.0001, [63, 66]),
    (0.001, [63, 67]),
    (0.01, [65, 65]),
    (0.02, [58, 64]),
    (0.05, [13, 69]),
    (0.1, [2, 65]),
];
/// What the code leaves of a link that it does not fill otherwise: r of r + c packets.
const LEFT_BY_CODE: f64 = 8.0 / 11.0;
/// The left halves are about degradation by loss, which the paper holds against nothing that it names.
const OWN_RATE: &str = "degradation is what is lost of the pair's own rate with nothing lost, which the code's 3/11 have \
                        lowered";
/// Why a pair on a link that TCP fills is below TCP's own rate.
const CODES_SHARE: &str =
    "the code's 3/11 of a full link: with nothing lost the pair is as far below TCP's rate";
/// How much of a rate must be left where the paper says that it is tracked.
const TRACKED: f64 = 0.85;

/// One TCP measurement.
#[derive(Deserialize)]
struct Row {
    cc: String,
    delay_ms: f64,
    loss: f64,
    burst: u32,
    code: String,
    mbps: f64,
    /// Of what the same code carried with nothing lost.
    of_lossless: Option<f64>,
    /// Packets that the appliances' rings had no room for.
    #[serde(default)]
    unseen: u64,
    /// What the measuring program says went wrong.
    error: Option<String>,
}

/// Rows of one link, over all seeds.
struct Rows(Vec<Row>);

/// What was measured of one setting, in the mean over seeds.
struct Mean {
    mbps: f64,
    of_lossless: f64,
    unseen: u64,
}

impl Rows {
    /// Runs every combination of the settings in `arguments`, `combinations` of them.
    fn measure(lab: &mut Lab, arguments: &str, combinations: usize) -> Result<Option<Self>> {
        let Some(traffic) = lab.traffic(&format!("TCP, {arguments}")) else { return Ok(None) };
        let mut rows = Vec::new();
        for seed in real_seeds(lab) {
            let more =
                traffic.long_link(&format!("tcp {arguments} --seed {seed}"), combinations)?;
            rows.extend(typed::<Row>(more)?);
        }
        for row in rows.extract_if(.., |row| row.error.is_some()) {
            let Row { cc, delay_ms, loss, burst, code, error, .. } = row;
            let what = format!("{cc}, {delay_ms} ms, loss {loss}, bursts of {burst}, {code}");
            lab.note(&what, "", format!("left out, iperf3 failed: {}", error.unwrap_or_default()));
        }
        Ok(Some(Rows(rows)))
    }

    fn mean(&self, fits: impl Fn(&Row) -> bool) -> Mean {
        let rows: Vec<&Row> = self.0.iter().filter(|row| fits(row)).collect();
        let of =
            |what: fn(&Row) -> f64| mean(&rows.iter().map(|row| what(row)).collect::<Vec<_>>());
        Mean {
            mbps: of(|row| row.mbps),
            of_lossless: of(|row| row.of_lossless.unwrap_or(1.0)),
            unseen: rows.iter().map(|row| row.unseen).sum(),
        }
    }

    /// Losses that were measured, in their order.
    fn losses(&self) -> Vec<f64> {
        let mut losses: Vec<f64> = self.0.iter().map(|row| row.loss).collect();
        losses.sort_by(f64::total_cmp);
        losses.dedup();
        losses
    }
}

fn at_loss(cc: &str, code: &str, delay: f64, loss: f64) -> impl Fn(&Row) -> bool {
    move |row| {
        row.cc == cc
            && row.code == code
            && row.burst == 1
            && (row.delay_ms, row.loss) == (delay, loss)
    }
}

/// Fig. 9: one flow over 100 Mbit/s.
pub fn figure_9(lab: &mut Lab) -> Result<()> {
    length(lab, "10 s; on the left ten runs a point");
    if let Some(rows) = by_loss(lab, "--rate 100M")? {
        beside_tunnels(lab, &rows);
    }
    by_delay(lab, "--rate 100M")?;
    todays(lab, "--rate 100M")
}

/// Fig. 10: eight flows over 1 Gbit/s.
pub fn figure_10(lab: &mut Lab) -> Result<()> {
    // 8 MiB are 64 ms of such a link; on a machine that the hosts share, appliances wait longer.
    let link = "--rate 1G --streams 8 --ring 64";
    length(lab, "120 s; on the left ten runs a point");
    by_loss(lab, link)?;
    by_delay(lab, link)
}

/// How long each of a figure's runs with Reno is \[s\].
fn seconds(lab: &Lab) -> u32 {
    // Over a long way most of a short run is slow start.
    if lab.quick() { 5 } else { 20 }
}

/// How many runs a point of the graphs is, and how long they are.
fn length(lab: &mut Lab, paper: &str) {
    let ours = format!("{} of {} s", real_seeds(lab).len(), seconds(lab));
    lab.note("Reno: runs a point, and how long each is", paper, ours);
}

/// The left halves: throughput by loss at 50 ms one way.
fn by_loss(lab: &mut Lab, link: &str) -> Result<Option<Rows>> {
    let (losses, count) = match lab.quick() {
        true => ("0,0.01", 2),
        false => ("0,0.0001,0.001,0.01,0.02,0.05,0.1", 7),
    };
    let seconds = seconds(lab);
    let arguments = format!(
        "{link} --cc reno --delay 50 --loss {losses} --code none {PAPERS} --seconds {seconds}"
    );
    let Some(rows) = Rows::measure(lab, &arguments, 2 * count)? else { return Ok(None) };
    let of = |code: &str| {
        // A logarithmic axis has no 0: what loses nothing stands at the left.
        let at = |loss: f64| if loss > 0.0 { 100.0 * loss } else { 0.003 };
        let rate = |loss: f64| rows.mean(at_loss("reno", code, 50.0, loss)).mbps;
        plain(rows.losses().into_iter().map(move |loss| (at(loss), rate(loss)))).collect::<Vec<_>>()
    };
    lab.plot(
        Plot::new("Reno by loss, 50 ms one way", "packets lost [%], none at 0.003", "[Mbit/s]")
            .log_x()
            .curve("TCP alone", LINE, of("none"))
            .curve("with Maelstrom", LINE, of(PAPERS)),
    );
    let lossless = rows.mean(at_loss("reno", "none", 50.0, 0.0)).mbps;
    for loss in rows.losses() {
        let alone = rows.mean(at_loss("reno", "none", 50.0, loss));
        let with = rows.mean(at_loss("reno", PAPERS, 50.0, loss));
        let at = format!("50 ms, {} % lost", loss * 100.0);
        rates(lab, &format!("Reno, {at}"), &alone, &with);
        if loss > 0.0 {
            let what = format!("with Maelstrom, share of its lossless rate, {at}");
            let own = with.of_lossless;
            match least_share(loss) {
                Some(least) => {
                    let paper = "not significantly less";
                    lab.reading(OWN_RATE, &what, paper, own, least..=f64::INFINITY);
                }
                None => lab.note(&what, "read off the figure", format!("{own:.3}")),
            }
            let what = format!("the same of TCP's alone, {at}");
            lab.note(&what, "read off the figure", format!("{:.3}", with.mbps / lossless));
        }
        if loss == 0.01 {
            let times = with.mbps / alone.mbps;
            let what = format!("times Reno alone, {at}");
            lab.number(&what, "two orders of magnitude", times, 30.0..=f64::INFINITY);
        }
    }
    Ok(Some(rows))
}

/// The same losses, beside what tunnels carried.
fn beside_tunnels(lab: &mut Lab, rows: &Rows) {
    for (loss, [tiny, kcp]) in TUNNELS {
        if rows.losses().contains(&loss) {
            let with = rows.mean(at_loss("reno", PAPERS, 50.0, loss));
            let what = format!("beside tunnels at 8+3, 50 ms, {} % lost [Mbit/s]", loss * 100.0);
            let theirs = format!("tinyfecVPN {tiny}, kcptun {kcp}");
            lab.note(&what, &theirs, format!("{:.1} with Maelstrom", with.mbps));
        }
    }
}

/// What must be left of the lossless rate, where the paper claims something.
fn least_share(loss: f64) -> Option<f64> {
    match loss {
        loss if loss <= 0.01 => Some(0.85),
        loss if loss <= 0.02 => Some(0.7),
        _ => None,
    }
}

fn rates(lab: &mut Lab, what: &str, alone: &Mean, with: &Mean) {
    let mut text = format!("{:.1} alone, {:.1} with", alone.mbps, with.mbps);
    if with.unseen > 0 {
        text.push_str(&format!("; {} packets unseen", with.unseen));
    }
    lab.note(&format!("{what} [Mbit/s]"), "read off the figure", text);
}

/// The right halves: throughput by one-way delay, at 0.1 and 1 % loss.
fn by_delay(lab: &mut Lab, link: &str) -> Result<()> {
    if lab.quick() {
        return Ok(());
    }
    let (delays, losses) = ([10.0, 25.0, 100.0, 250.0], [0.001, 0.01]);
    let seconds = seconds(lab);
    let arguments = format!(
        "{link} --cc reno --delay {} --loss 0,{} --code none {PAPERS} --seconds {seconds}",
        listed(&delays),
        listed(&losses),
    );
    let combinations = 2 * delays.len() * (losses.len() + 1);
    let Some(rows) = Rows::measure(lab, &arguments, combinations)? else { return Ok(()) };
    let of = |code: &str, loss: f64| {
        let rate = |delay| rows.mean(at_loss("reno", code, delay, loss)).mbps;
        plain(delays.map(|delay| (delay, rate(delay)))).collect::<Vec<_>>()
    };
    lab.plot(
        Plot::new("Reno by one-way delay", "one-way delay [ms]", "[Mbit/s]")
            .curve("TCP alone, nothing lost", LINE, of("none", 0.0))
            .curve("TCP alone, 1 %", LINE, of("none", 0.01))
            .curve("with Maelstrom, nothing lost", LINE, of(PAPERS, 0.0))
            .curve("with Maelstrom, 0.1 %", LINE, of(PAPERS, 0.001))
            .curve("with Maelstrom, 1 %", LINE, of(PAPERS, 0.01)),
    );
    for delay in delays {
        for loss in rows.losses() {
            let alone = rows.mean(at_loss("reno", "none", delay, loss));
            let with = rows.mean(at_loss("reno", PAPERS, delay, loss));
            let at = format!("{delay} ms, {} % lost", loss * 100.0);
            rates(lab, &format!("Reno, {at}"), &alone, &with);
            if loss > 0.0 {
                beside_lossless(lab, &rows, delay, loss);
            }
        }
    }
    Ok(())
}

/// A point beside the graphs' top line, "the performance of TCP/IP without loss" (§5.1), and beside what
/// the code leaves of that.
fn beside_lossless(lab: &mut Lab, rows: &Rows, delay: f64, loss: f64) {
    let lossless = |code| rows.mean(at_loss("reno", code, delay, 0.0)).mbps;
    let with = rows.mean(at_loss("reno", PAPERS, delay, loss));
    let at = format!("{delay} ms, {} % lost", loss * 100.0);
    let what = format!("with Maelstrom, share of TCP's rate alone with nothing lost, {at}");
    let (paper, ours) = ("tracks it closely", with.mbps / lossless("none"));
    // "Lagging only when the link latency is low" (§5.1).
    if delay >= 25.0 {
        lab.number(&what, paper, ours, TRACKED..=f64::INFINITY);
        let by_code = lossless(PAPERS) / lossless("none") < TRACKED;
        lab.cause(CODES_SHARE, by_code && with.of_lossless >= TRACKED);
    } else {
        lab.note(&what, paper, format!("{ours:.3}"));
    }
    let what = format!("of what the code leaves, its own rate with nothing lost, {at}");
    lab.note(&what, "not in the paper", format!("{:.3}", with.of_lossless));
}

/// What came after the paper: CUBIC, and BBR, which needs no help with random loss.
fn todays(lab: &mut Lab, link: &str) -> Result<()> {
    let (ccs, losses, count, seconds): (&[&str], _, _, _) = match lab.quick() {
        true => (&["bbr"], "0.01", 1, 5),
        false => (&["cubic", "bbr"], "0,0.001,0.01,0.05,0.1", 5, 10),
    };
    let arguments = format!(
        "{link} --cc {} --delay 50 --loss {losses} --code none {PAPERS} --seconds {seconds}",
        ccs.join(",")
    );
    let combinations = 2 * ccs.len() * count;
    let Some(rows) = Rows::measure(lab, &arguments, combinations)? else { return Ok(()) };
    for &cc in ccs {
        let name = cc.to_uppercase();
        for loss in rows.losses() {
            let alone = rows.mean(at_loss(cc, "none", 50.0, loss));
            let with = rows.mean(at_loss(cc, PAPERS, 50.0, loss));
            rates(lab, &format!("{name}, 50 ms, {} % lost", loss * 100.0), &alone, &with);
            if loss == 0.0 {
                let what = format!("{name}, nothing lost: of the rate alone, less the code's 3/11");
                let part = with.mbps / (alone.mbps * LEFT_BY_CODE);
                lab.goal(&what, part, 0.85..=f64::INFINITY);
            }
        }
    }
    Ok(())
}

/// 1 % lost in bursts, where Reed-Solomon tunnels fall below no tunnel at all.
pub fn bursts(lab: &mut Lab) -> Result<()> {
    let (ccs, bursts, codes, seconds): (&[&str], &[u32], &[&str], u32) = match lab.quick() {
        true => (&["cubic"], &[20], &["none", FOR_BURSTS], 8),
        false => {
            let codes = &["none", PAPERS, FOR_BURSTS, "adaptive"];
            (&["reno", "cubic", "bbr"], &[10, 20], codes, 15)
        }
    };
    let arguments = format!(
        "--rate 100M --cc {} --delay 50 --loss 0.01 --burst {} --code {} --seconds {seconds}",
        ccs.join(","),
        listed(bursts),
        codes.join(" "),
    );
    let combinations = ccs.len() * bursts.len() * codes.len();
    let Some(rows) = Rows::measure(lab, &arguments, combinations)? else { return Ok(()) };
    for &cc in ccs {
        for &burst in bursts {
            let rate = |code: &str| {
                rows.mean(|row| row.cc == cc && row.burst == burst && row.code == code).mbps
            };
            let at = format!("{cc}, 1 % lost in bursts of {burst} [Mbit/s]");
            let alone = rate("none");
            // Measured once, on such a link and machine, with bursts of 20 (their medians).
            let tunnels = match (cc, burst) {
                ("cubic", 20) => "Reed-Solomon tunnels 7.9 (8+3), 3.7 (20+10); nothing 14.7",
                _ => "not in the paper",
            };
            for code in &codes[1..] {
                let what = format!("{code}, {at}");
                lab.note(&what, tunnels, format!("{:.1}, alone {alone:.1}", rate(code)));
            }
            // BBR takes random loss for what it is, and bursts too while there is room for them.
            if cc != "bbr" {
                let ours = rate(FOR_BURSTS);
                let text = format!("{ours:.1}, alone {alone:.1}");
                lab.goal_holds(&format!("{FOR_BURSTS} above nothing, {at}"), text, ours > alone);
            }
        }
    }
    Ok(())
}

fn listed<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Scale, Traffic, Unavailable, Verdict};
    use wellspring_experiments::sweep::Output;

    /// A link on which Reno has 100 Mbit/s, a hundredth with loss, and 70 with Maelstrom, less at
    /// the second seed.
    struct Written;

    impl Traffic for Written {
        fn long_link(&self, arguments: &str, rows: usize) -> Result<Vec<Value>> {
            let second = arguments.ends_with("--seed 2");
            let row = |code: &str, loss: f64, mbps: f64, of_lossless: Option<f64>| {
                json!({ "cc": "reno", "delay_ms": 50.0, "loss": loss, "burst": 1, "code": code,
                        "mbps": mbps, "of_lossless": of_lossless })
            };
            let with = if second { 49.0 } else { 70.0 };
            let given = vec![
                row("none", 0.0, 100.0, None),
                row(PAPERS, 0.0, 70.0, None),
                row("none", 0.01, 1.0, Some(0.01)),
                row(PAPERS, 0.01, with, Some(with / 70.0)),
            ];
            assert_eq!(given.len(), rows, "{arguments}");
            Ok(given)
        }

        fn engine(&self, _: &str) -> Result<Vec<Value>> {
            unreachable!("throughput is not the engine's")
        }

        fn stolen(&self) -> Option<f64> {
            None
        }
    }

    /// A link of that one-way delay on which the pair has 70 of TCP's 100 Mbit/s with nothing lost, and
    /// so many at 1 %.
    fn by_delay_with(delay: f64, with: f64) -> Vec<crate::Check> {
        let row = |code: &str, loss: f64, mbps: f64, of_lossless: Option<f64>| Row {
            cc: "reno".to_owned(),
            delay_ms: delay,
            loss,
            burst: 1,
            code: code.to_owned(),
            mbps,
            of_lossless,
            unseen: 0,
            error: None,
        };
        let rows = Rows(vec![
            row("none", 0.0, 100.0, None),
            row(PAPERS, 0.0, 70.0, None),
            row("none", 0.01, 1.0, Some(0.01)),
            row(PAPERS, 0.01, with, Some(with / 70.0)),
        ]);
        let mut lab = Lab::new(Scale::default(), Output::default(), &|_, _, _| {});
        beside_lossless(&mut lab, &rows, delay, 0.01);
        lab.checks
    }

    #[test]
    fn the_lossless_line_is_that_of_tcp_alone() {
        let checks = by_delay_with(100.0, 69.3);
        assert_eq!(checks[0].ours, "0.693");
        assert_eq!(checks[0].verdict, Verdict::MissedWithCause, "less the code's share alone");
        assert_eq!((checks[1].ours.as_str(), checks[1].verdict), ("0.990", Verdict::Reported));
        assert_eq!(by_delay_with(100.0, 30.0)[0].verdict, Verdict::Missed, "losses take more");
        assert_eq!(by_delay_with(100.0, 90.0)[0].verdict, Verdict::Reproduced);
        assert_eq!(by_delay_with(10.0, 69.3)[0].verdict, Verdict::Reported, "it may lag there");
    }

    fn by_loss_with(
        seeds: Vec<u64>,
        traffic: Result<&dyn Traffic, Unavailable>,
    ) -> Vec<crate::Check> {
        let scale = Scale { quick: true, sessions: None, seeds: Some(seeds) };
        let mut lab = Lab::new(scale, Output::default(), &|_, _, _| {}).with_traffic(traffic);
        by_loss(&mut lab, "--rate 100M").unwrap();
        lab.checks
    }

    #[test]
    fn shares_and_ratios_are_means_over_seeds() {
        let checks = by_loss_with(vec![1], Ok(&Written));
        let fits: Vec<_> = checks.iter().map(|check| check.fits).collect();
        assert_eq!(fits, [None, None, Some(true), None, Some(true)], "{checks:?}");
        assert_eq!(checks[2].verdict, Verdict::NotJudged, "a quick form is too small");
        assert!(checks[2].reading.is_some(), "the paper names no line");
        let ours = |checks: &[crate::Check]| [2, 3, 4].map(|row: usize| checks[row].ours.clone());
        assert_eq!(ours(&checks), ["1.000", "0.700", "70.000"]);
        let checks = by_loss_with(vec![2], Ok(&Written));
        assert_eq!(checks[2].fits, Some(false), "{checks:?}");
        let checks = by_loss_with(vec![1, 2], Ok(&Written));
        assert_eq!(ours(&checks), ["0.850", "0.595", "59.500"]);
    }

    #[test]
    fn what_cannot_be_measured_says_why() {
        let checks = by_loss_with(vec![1], Err(Unavailable("no root".to_owned())));
        assert_eq!(checks.len(), 1);
        assert_eq!(checks[0].ours, "not measured: no root");
        assert_eq!(checks[0].verdict, Verdict::Reported);
    }
}
