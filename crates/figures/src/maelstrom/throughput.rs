//! Figs. 9 and 10, TCP's throughput with and without Maelstrom, and what bursts do to it: kernel
//! TCP through real appliances.

use anyhow::Result;

use super::rates::{Mean, Row, Rows, judged, ratio, text};
use super::real_seeds;
use crate::Lab;
use crate::plot::{LINE, Plot, plain};

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
        let rate = |loss: f64| rows.mbps(at_loss("reno", code, 50.0, loss));
        let points = rows.losses().into_iter().filter_map(|loss| Some((at(loss), rate(loss)?)));
        plain(points).collect::<Vec<_>>()
    };
    lab.plot(
        Plot::new("Reno by loss, 50 ms one way", "packets lost [%], none at 0.003", "[Mbit/s]")
            .log_x()
            .curve("TCP alone", LINE, of("none"))
            .curve("with Maelstrom", LINE, of(PAPERS)),
    );
    let lossless = rows.mbps(at_loss("reno", "none", 50.0, 0.0));
    for loss in rows.losses() {
        let alone = rows.mean(at_loss("reno", "none", 50.0, loss));
        let with = rows.mean(at_loss("reno", PAPERS, 50.0, loss));
        let at = format!("50 ms, {} % lost", loss * 100.0);
        rates(lab, &format!("Reno, {at}"), alone, with);
        let [alone, with_rate] = [alone, with].map(|mean| Some(mean?.mbps));
        if loss > 0.0 {
            let what = format!("with Maelstrom, share of its lossless rate, {at}");
            let own = with.and_then(|mean| mean.of_lossless);
            match least_share(loss) {
                Some(least) => {
                    let paper = "not significantly less";
                    judged(lab, &what, paper, own, |lab, own| {
                        lab.reading(OWN_RATE, &what, paper, own, least..=f64::INFINITY);
                    });
                }
                None => lab.note(&what, "read off the figure", text(own, three_digits)),
            }
            let what = format!("the same of TCP's alone, {at}");
            let share = ratio(with_rate, lossless);
            lab.note(&what, "read off the figure", text(share, three_digits));
        }
        if loss == 0.01 {
            let (what, paper) = (format!("times Reno alone, {at}"), "two orders of magnitude");
            judged(lab, &what, paper, ratio(with_rate, alone), |lab, times| {
                lab.number(&what, paper, times, 30.0..=f64::INFINITY);
            });
        }
    }
    Ok(Some(rows))
}

/// The same losses, beside what tunnels carried.
fn beside_tunnels(lab: &mut Lab, rows: &Rows) {
    for (loss, [tiny, kcp]) in TUNNELS {
        if rows.losses().contains(&loss) {
            let with = rows.mbps(at_loss("reno", PAPERS, 50.0, loss));
            let what = format!("beside tunnels at 8+3, 50 ms, {} % lost [Mbit/s]", loss * 100.0);
            let theirs = format!("tinyfecVPN {tiny}, kcptun {kcp}");
            lab.note(&what, &theirs, text(with, |rate| format!("{rate:.1} with Maelstrom")));
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

fn rates(lab: &mut Lab, what: &str, alone: Option<Mean>, with: Option<Mean>) {
    let [alone, rate] = [alone, with].map(|mean| text(mean.map(|mean| mean.mbps), one_digit));
    let mut ours = format!("{alone} alone, {rate} with");
    let unseen = with.map_or(0, |mean| mean.unseen);
    if unseen > 0 {
        ours.push_str(&format!("; {unseen} packets unseen"));
    }
    lab.note(&format!("{what} [Mbit/s]"), "read off the figure", ours);
}

fn one_digit(rate: f64) -> String {
    format!("{rate:.1}")
}

fn three_digits(share: f64) -> String {
    format!("{share:.3}")
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
        let rate = |delay| rows.mbps(at_loss("reno", code, delay, loss));
        let points = delays.into_iter().filter_map(|delay| Some((delay, rate(delay)?)));
        plain(points).collect::<Vec<_>>()
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
            rates(lab, &format!("Reno, {at}"), alone, with);
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
    let lossless = |code| rows.mbps(at_loss("reno", code, delay, 0.0));
    let with = rows.mean(at_loss("reno", PAPERS, delay, loss));
    let own = with.and_then(|mean| mean.of_lossless);
    let at = format!("{delay} ms, {} % lost", loss * 100.0);
    let what = format!("with Maelstrom, share of TCP's rate alone with nothing lost, {at}");
    let paper = "tracks it closely";
    let ours = ratio(with.map(|mean| mean.mbps), lossless("none"));
    // "Lagging only when the link latency is low" (§5.1).
    if delay >= 25.0 {
        judged(lab, &what, paper, ours, |lab, ours| {
            lab.number(&what, paper, ours, TRACKED..=f64::INFINITY);
            let left = ratio(lossless(PAPERS), lossless("none"));
            let by_code = left.is_some_and(|left| left < TRACKED);
            lab.cause(CODES_SHARE, by_code && own.is_some_and(|own| own >= TRACKED));
        });
    } else {
        lab.note(&what, paper, text(ours, three_digits));
    }
    let what = format!("of what the code leaves, its own rate with nothing lost, {at}");
    lab.note(&what, "not in the paper", text(own, three_digits));
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
            rates(lab, &format!("{name}, 50 ms, {} % lost", loss * 100.0), alone, with);
            if loss == 0.0 {
                let what = format!("{name}, nothing lost: of the rate alone, less the code's 3/11");
                let part =
                    ratio(with.map(|mean| mean.mbps), alone.map(|mean| mean.mbps * LEFT_BY_CODE));
                judged(lab, &what, "-", part, |lab, part| {
                    lab.goal(&what, part, 0.85..=f64::INFINITY);
                });
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
                rows.mbps(|row| row.cc == cc && row.burst == burst && row.code == code)
            };
            let at = format!("{cc}, 1 % lost in bursts of {burst} [Mbit/s]");
            let alone = text(rate("none"), one_digit);
            // Measured once, on such a link and machine, with bursts of 20 (their medians).
            let tunnels = match (cc, burst) {
                ("cubic", 20) => "Reed-Solomon tunnels 7.9 (8+3), 3.7 (20+10); nothing 14.7",
                _ => "not in the paper",
            };
            for code in &codes[1..] {
                let what = format!("{code}, {at}");
                let ours = text(rate(code), one_digit);
                lab.note(&what, tunnels, format!("{ours}, alone {alone}"));
            }
            // BBR takes random loss for what it is, and bursts too while there is room for them.
            if cc != "bbr" {
                let what = format!("{FOR_BURSTS} above nothing, {at}");
                let gain = rate(FOR_BURSTS).zip(rate("none")).map(|(ours, alone)| ours - alone);
                judged(lab, &what, "-", gain, |lab, gain| {
                    let ours = text(rate(FOR_BURSTS), one_digit);
                    lab.goal_holds(&what, format!("{ours}, alone {alone}"), gain > 0.0);
                });
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
    #[derive(Default)]
    struct Written {
        /// The code and the loss of the run that fails, if one does.
        failing: Option<(&'static str, f64)>,
    }

    impl Traffic for Written {
        fn long_link(&self, arguments: &str, rows: usize) -> Result<Vec<Value>> {
            let second = arguments.ends_with("--seed 2");
            let row = |code: &str, loss: f64, mbps: f64, of_lossless: Option<f64>| {
                let fails = self.failing == Some((code, loss));
                let lossless_fails = self.failing == Some((code, 0.0));
                json!({ "cc": "reno", "delay_ms": 50.0, "loss": loss, "burst": 1, "code": code,
                        "mbps": if fails { 0.0 } else { mbps },
                        "of_lossless": of_lossless.filter(|_| !lossless_fails),
                        "error": fails.then_some("it did not end") })
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
        let checks = by_loss_with(vec![1], Ok(&Written::default()));
        let fits: Vec<_> = checks.iter().map(|check| check.fits).collect();
        assert_eq!(fits, [None, None, Some(true), None, Some(true)], "{checks:?}");
        assert_eq!(checks[2].verdict, Verdict::NotJudged, "a quick form is too small");
        assert!(checks[2].reading.is_some(), "the paper names no line");
        let ours = |checks: &[crate::Check]| [2, 3, 4].map(|row: usize| checks[row].ours.clone());
        assert_eq!(ours(&checks), ["1.000", "0.700", "70.000"]);
        let checks = by_loss_with(vec![2], Ok(&Written::default()));
        assert_eq!(checks[2].fits, Some(false), "{checks:?}");
        let checks = by_loss_with(vec![1, 2], Ok(&Written::default()));
        assert_eq!(ours(&checks), ["0.850", "0.595", "59.500"]);
    }

    #[test]
    fn a_run_that_failed_is_no_rate_to_compare_with() {
        let of = |failing| {
            let traffic = Written { failing: Some(failing) };
            let checks = by_loss_with(vec![1], Ok(&traffic));
            assert!(checks[0].ours.ends_with("iperf3 failed: it did not end"), "{checks:?}");
            checks.into_iter().map(|check| (check.ours, check.fits)).skip(3).collect::<Vec<_>>()
        };
        let absent = || ("not measured: iperf3 failed".to_owned(), None);
        let own = || ("1.000".to_owned(), Some(true));
        let times = || ("70.000".to_owned(), Some(true));
        let left = || ("0.700".to_owned(), None);
        assert_eq!(of(("none", 0.01)), [own(), left(), absent()], "nothing to be 30 times of");
        assert_eq!(of((PAPERS, 0.0)), [absent(), left(), times()], "no lossless rate of its own");
        assert_eq!(of(("none", 0.0)), [own(), absent(), times()]);
        assert_eq!(of((PAPERS, 0.01)), [absent(), absent(), absent()]);
    }

    #[test]
    fn what_cannot_be_measured_says_why() {
        let checks = by_loss_with(vec![1], Err(Unavailable("no root".to_owned())));
        assert_eq!(checks.len(), 1);
        assert_eq!(checks[0].ours, "not measured: no root");
        assert_eq!(checks[0].verdict, Verdict::Reported);
    }
}
