//! Maelstrom's figures (NSDI 2008). Here those about the code alone, 8 and 13 to 17; in submodules those
//! that are measured on real traffic.
//!
//! A flow of packets at a constant rate over a link that loses packets and repairs alike. Recovery
//! latency is counted from when the packet would have arrived. All codes run on real bytes.

pub(super) mod appliance;
mod codes;
pub(super) mod delivery;
mod on_the_wire;
mod rates;
#[cfg(feature = "long-link")]
pub(super) mod simulated;
pub(super) mod throughput;

use anyhow::Result;
use std::collections::BTreeMap;
use wellspring_codec::interleave::Parameters;
use wellspring_core::{RandomStream, Seed};

use self::codes::{Scheme, beside_reed_solomon};
use self::on_the_wire::point;
use super::Lab;
use super::plot::{BARS, LINE, Plot, REFERENCE, plain};
use wellspring_experiments::run::Progress;

/// A flow of 10 Mbit/s in packets of 1,000 bytes: a packet every 0.8 ms (§5.3).
const GAP_MS: f64 = 0.8;

/// What is lost on the link.
#[derive(Clone, Copy)]
enum Loss {
    /// Each packet and repair on its own.
    Random(f64),
    /// Packets and repairs in runs of one length, this part of all.
    Bursts(f64, u32),
    /// Single packets at random, and rare runs beside; whether these take repairs too.
    Both { single: f64, every: u64, burst: u32, repairs: bool },
}

struct Loser {
    loss: Loss,
    random: RandomStream,
    seen: u64,
    left: u32,
}

impl Loser {
    fn new(loss: Loss, seed: u64) -> Self {
        Loser { loss, random: Seed(seed).stream("loss"), seen: 0, left: 0 }
    }

    fn loses(&mut self, repair: bool) -> bool {
        if let (Loss::Both { single, repairs: false, .. }, true) = (self.loss, repair) {
            return self.random.unit() < single;
        }
        self.seen += 1;
        if self.left > 0 {
            self.left -= 1;
            return true;
        }
        match self.loss {
            Loss::Random(part) => self.random.unit() < part,
            Loss::Bursts(part, length) => {
                let start = part / (f64::from(length) * (1.0 - part));
                let begins = self.random.unit() < start;
                if begins {
                    self.left = length - 1;
                }
                begins
            }
            Loss::Both { single, every, burst, .. } => {
                if self.seen.is_multiple_of(every) {
                    self.left = burst - 1;
                    return true;
                }
                self.random.unit() < single
            }
        }
    }
}

/// What became of the packets that the link lost.
#[derive(Default)]
struct Outcome {
    lost: u64,
    /// How late each recovered packet was, by its number \[ms\].
    late: BTreeMap<u64, f64>,
    /// Length of the run of packets each lost one was in, by its number.
    run: BTreeMap<u64, u64>,
}

impl Outcome {
    fn share(&self) -> f64 {
        self.late.len() as f64 / self.lost.max(1) as f64
    }

    fn mean_late(&self) -> f64 {
        self.late.values().sum::<f64>() / self.late.len().max(1) as f64
    }

    /// Recovered packets by lateness: up to 2, 10, 20, 40, 80 ms, and more.
    fn histogram(&self) -> [usize; 6] {
        let mut counts = [0; 6];
        for late in self.late.values() {
            let place = [2.0, 10.0, 20.0, 40.0, 80.0].iter().position(|end| late <= end);
            counts[place.unwrap_or(5)] += 1;
        }
        counts
    }
}

/// Sends so many packets; the first and the last, whose repairs are not all there, do not count.
fn run(
    scheme: &mut Scheme,
    packets: u64,
    loss: Loss,
    seed: u64,
    report: &mut dyn FnMut(Progress),
) -> Outcome {
    const EDGE: u64 = 1_000;
    const REPORT_EVERY: u64 = 20_000;
    let mut loser = Loser::new(loss, seed);
    let counts = EDGE..packets - EDGE;
    let mut outcome = Outcome::default();
    let mut run = Vec::new();
    for number in 0..packets {
        if number % REPORT_EVERY == 0 {
            report(Progress {
                simulated: number as f64 * GAP_MS / 1e3,
                events: number,
                limit: packets as f64 * GAP_MS / 1e3,
                finished: (0, 1),
                parts: 0.0,
            });
        }
        let lost = loser.loses(false);
        let mut back = Vec::new();
        if lost {
            run.push(number);
        } else {
            let length = run.len() as u64;
            outcome.run.extend(run.drain(..).map(|number| (number, length)));
        }
        if lost && counts.contains(&number) {
            outcome.lost += 1;
        }
        scheme.send(number, lost, &mut || loser.loses(true), &mut back);
        for packet in back {
            if counts.contains(&packet) {
                outcome.late.insert(packet, (number - packet) as f64 * GAP_MS);
            }
        }
    }
    outcome
}

fn layered(rate: u8, interleaves: &[u16]) -> Result<Scheme> {
    Scheme::layered(&Parameters::new(rate, interleaves)?)
}

fn packets(lab: &Lab) -> u64 {
    if lab.quick() { 100_000 } else { 1_000_000 }
}

fn seeds(lab: &Lab) -> Vec<u64> {
    let default = if lab.quick() { vec![1] } else { vec![1, 2, 3, 4, 5] };
    lab.scale.seeds.clone().unwrap_or(default)
}

/// Seeds of measurements on real traffic, which take long: one by default.
fn real_seeds(lab: &Lab) -> Vec<u64> {
    lab.scale.seeds.clone().unwrap_or_else(|| vec![1])
}

/// What a case is made of: its code, and what its link loses.
type Case = (fn(&[u16]) -> Result<Scheme>, Vec<u16>, Loss);

/// Numbers of each case, in the mean over seeds.
fn means<const N: usize>(
    lab: &Lab,
    cases: &[Case],
    numbers: impl Fn(&Outcome) -> [f64; N] + Sync,
) -> Result<Vec<[f64; N]>> {
    let (count, seeds) = (packets(lab), seeds(lab));
    lab.ran(&seeds);
    let runs = cases.iter().flat_map(|case| seeds.iter().map(move |&seed| (case, seed)));
    let runs: Vec<_> = runs.collect();
    let outcomes = lab.each(&runs, |((scheme, interleaves, loss), seed), report| {
        Ok(numbers(&run(&mut scheme(interleaves)?, count, *loss, *seed, report)))
    })?;
    let of_a_case = outcomes.chunks(seeds.len().max(1));
    Ok(of_a_case
        .map(|of| {
            let mean =
                |n: usize| of.iter().map(|numbers| numbers[n]).sum::<f64>() / of.len() as f64;
            std::array::from_fn(mean)
        })
        .collect())
}

/// What comes of each case with the first seed.
fn outcomes(lab: &Lab, cases: &[Case]) -> Result<Vec<Outcome>> {
    let seed = seeds(lab).first().copied().unwrap_or(1);
    lab.ran(&[seed]);
    lab.each(cases, |(scheme, interleaves, loss), report| {
        Ok(run(&mut scheme(interleaves)?, packets(lab), *loss, seed, report))
    })
}

/// Layers at (8, c).
fn of_eight(interleaves: &[u16]) -> Result<Scheme> {
    layered(8, interleaves)
}

/// Fig. 8: recovery probability against loss, (7, 2), beside Reed-Solomon and the closed forms of
/// §4.4.
pub fn figure_8(lab: &mut Lab) -> Result<()> {
    let losses = [0.001, 0.01, 0.03, 0.05, 0.1, 0.2, 0.4, 0.6];
    let cases = losses.iter().flat_map(|&loss| {
        let loss = Loss::Random(loss);
        let layers: Case = (|interleaves| layered(7, interleaves), vec![1, 11], loss);
        let solomon: Case = (|_| Scheme::reed_solomon(7, 2, 1), Vec::new(), loss);
        [layers, solomon]
    });
    let shares = means(lab, &cases.collect::<Vec<_>>(), |outcome| [outcome.share()])?;
    let by_loss = |of: &dyn Fn(usize, f64) -> f64| {
        let points =
            losses.iter().enumerate().map(|(place, loss)| (100.0 * loss, of(place, *loss)));
        plain(points).collect::<Vec<_>>()
    };
    let bound = |loss: f64| 1.0 - (1.0 - (1.0 - loss).powi(7)).powi(2);
    lab.plot(
        Plot::new("Recovered share by loss, (7, 2)", "packets lost [%]", "share recovered")
            .log_x()
            .curve("layers", LINE, by_loss(&|place, _| shares[2 * place][0]))
            .curve("Reed-Solomon", LINE, by_loss(&|place, _| shares[2 * place + 1][0]))
            .curve("bound of §4.4", REFERENCE, by_loss(&|_, loss| bound(loss))),
    );
    let sent = packets(lab) as f64 * seeds(lab).len() as f64;
    for (loss, shares) in losses.into_iter().zip(shares.chunks(2)) {
        let (ours, theirs) = (shares[0][0], shares[1][0]);
        let bound = bound(loss);
        let formula = reed_solomon(7, 2, loss);
        // 95 % of runs lie within this; blocks fail as a whole, with three or more losses each.
        let noise = 2.0 * (formula * (1.0 - formula) / (loss * sent / 3.0)).sqrt() + 1e-4;
        let at = format!("at {:.1} % loss", loss * 100.0);
        lab.number(
            &format!("layered, recovered share {at}"),
            &format!("at least {bound:.4}, Reed-Solomon {formula:.4}"),
            ours,
            bound - noise..=1.0,
        );
        lab.number(
            &format!("Reed-Solomon, recovered share {at}"),
            &format!("{formula:.4} (closed form)"),
            theirs,
            formula - noise..=formula + noise,
        );
        if loss <= 0.1 {
            beside_reed_solomon(lab, &at, ours - theirs);
        }
    }
    point(lab, "7,2:1,11", 0.03, 1)
}

/// Probability that a lost packet's block has at most c - 1 other losses among r + c - 1.
fn reed_solomon(r: i32, c: i32, p: f64) -> f64 {
    let n = r + c - 1;
    (0..c)
        .map(|z| {
            let choose: f64 = (0..z).map(|k| f64::from(n - k) / f64::from(k + 1)).product();
            choose * p.powi(z) * (1.0 - p).powi(n - z)
        })
        .sum()
}

/// Fig. 13: interleaves without common divisors against others, loss in bursts.
pub fn figure_13(lab: &mut Lab) -> Result<()> {
    let losses = [0.001, 0.01, 0.03, 0.1];
    let cases = losses.iter().flat_map(|&loss| {
        [[1, 11, 19], [1, 10, 20]]
            .map(|layers| (of_eight as _, layers.to_vec(), Loss::Bursts(loss, 10)))
    });
    let shares = means(lab, &cases.collect::<Vec<_>>(), |outcome| [outcome.share()])?;
    for (loss, shares) in losses.into_iter().zip(shares.chunks(2)) {
        let (prime, other) = (shares[0][0], shares[1][0]);
        let what = format!("(1,11,19) above (1,10,20), {:.1} % lost in bursts of 10", loss * 100.0);
        let ours = format!("{prime:.4} and {other:.4}");
        if loss > 0.01 {
            lab.holds(&what, ours, prime > other);
        } else {
            lab.note(&what, "alike at low loss", ours);
        }
    }
    let of = |code: usize| {
        let points = losses.iter().zip(shares.chunks(2));
        plain(points.map(move |(loss, shares)| (100.0 * loss, shares[code][0]))).collect::<Vec<_>>()
    };
    lab.plot(
        Plot::new("Recovered share, bursts of 10", "packets lost [%]", "share recovered")
            .log_x()
            .curve("(1,11,19)", LINE, of(0))
            .curve("(1,10,20)", LINE, of(1)),
    );
    point(lab, "8,3:1,11,19", 0.1, 10)?;
    point(lab, "8,3:1,10,20", 0.1, 10)
}

/// Fig. 14: recovered share and latency by burst length.
pub fn figure_14(lab: &mut Lab) -> Result<()> {
    let bursts = [1, 5, 10, 15, 20, 25, 30, 40, 50];
    let cases = bursts.iter().flat_map(|&burst| {
        [[1, 11, 19], [1, 19, 41]]
            .map(|layers| (of_eight as _, layers.to_vec(), Loss::Bursts(0.001, burst)))
    });
    let numbers = |outcome: &Outcome| [outcome.share(), outcome.mean_late()];
    let results = means(lab, &cases.collect::<Vec<_>>(), numbers)?;
    let mut means = Vec::new();
    for (burst, results) in bursts.into_iter().zip(results.chunks(2)) {
        let (near, [share, late]) = (results[0], results[1]);
        let text = |[share, late]: [f64; 2]| format!("{share:.3}, {late:.1} ms");
        lab.note(&format!("(1,11,19), bursts of {burst}"), "read off the figure", text(near));
        match burst {
            1 => lab.number("(1,19,41), single losses, mean latency [ms]", "2-3", late, 1.0..=5.0),
            25 => {
                lab.number("(1,19,41), bursts of 25, share", "almost all", share, 0.95..=1.0);
                lab.number("(1,19,41), bursts of 25, latency [ms]", "45", late, 33.0..=57.0);
            }
            _ => {
                lab.note(&format!("(1,19,41), bursts of {burst}"), "degrades", text([share, late]))
            }
        }
        means.push(late);
    }
    let of = |code: usize, number: usize| {
        let points = bursts.iter().zip(results.chunks(2));
        let points = points.map(move |(burst, results)| (*burst, results[code][number]));
        plain(points).collect::<Vec<_>>()
    };
    lab.plot(
        Plot::new("Recovered share by burst length", "burst [packets]", "share recovered")
            .curve("(1,11,19)", LINE, of(0, 0))
            .curve("(1,19,41)", LINE, of(1, 0)),
    );
    lab.plot(
        Plot::new("Recovery latency by burst length", "burst [packets]", "mean latency [ms]")
            .curve("(1,11,19)", LINE, of(0, 1))
            .curve("(1,19,41)", LINE, of(1, 1))
            .paper([(1.0, 2.5), (25.0, 45.0)]),
    );
    let ends = [means[0], means[5], means[7]];
    let text = ends.map(|mean| format!("{mean:.1}")).join(", ");
    lab.holds("(1,19,41): latency grows with the burst, at 1, 25, 40 [ms]", text, ends.is_sorted());
    point(lab, "8,3:1,19,41", 0.003, 25)
}

/// What the paper does not say of Fig. 15's bursts (deviation M5).
const SPARED: &str = "bursts take packets of the flow alone, and no repairs";

/// Fig. 15: Reed-Solomon with interleave 20 against layers (1, 40), at (8, 2); RaptorQ beside.
pub fn figure_15(lab: &mut Lab) -> Result<()> {
    let loss = |repairs| Loss::Both { single: 0.001, every: 9_973, burst: 30, repairs };
    let layers: Case = (of_eight, vec![1, 40], loss(false));
    let delayed: Case = (
        |interleaves| {
            let mut parameters = Parameters::new(8, interleaves)?;
            parameters.delayed = true;
            Scheme::layered(&parameters)
        },
        vec![1, 40],
        loss(true),
    );
    let solomon: Case = (|_| Scheme::reed_solomon(8, 2, 20), Vec::new(), loss(false));
    let raptorq: Case = (|_| Scheme::raptorq(8, 2, 20), Vec::new(), loss(false));
    let hit = |case: &Case| (case.0, case.1.clone(), loss(true));
    let cases = [hit(&layers), delayed, hit(&solomon), layers, solomon, raptorq];
    let mut outcomes = outcomes(lab, &cases)?;
    let alone = outcomes.split_off(3);
    let names = ["layers (1,40)", "Reed-Solomon, interleave 20", "RaptorQ, interleave 20"];
    let mut single = Vec::new();
    for (name, outcome) in names.into_iter().zip(alone) {
        let mean = |in_burst: bool| {
            let of = outcome.late.iter().filter(|(number, _)| {
                (outcome.run.get(number).copied().unwrap_or(1) >= 10) == in_burst
            });
            let values: Vec<f64> = of.map(|(_, late)| *late).collect();
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        let (alone, bursts) = (mean(false), mean(true));
        single.push((alone, bursts));
        if name.starts_with("RaptorQ") {
            lab.note(
                &format!("{name}, recovered share"),
                "not in the paper",
                format!("{:.4}", outcome.share()),
            );
        } else {
            let what = format!("{name}, recovered share");
            lab.reading(SPARED, &what, "all", outcome.share(), 0.995..=1.0);
        }
        let text = format!("singles {alone:.1}, in bursts {bursts:.1}");
        lab.note(&format!("{name}, mean latency [ms]"), "read off the figure", text);
    }
    let of = |place: usize| [[0.0, single[place].0, 0.0], [1.0, single[place].1, 0.0]];
    let title = "Recovery latency at (8, 2)";
    lab.plot(
        Plot::over(title, "", "mean latency [ms]", &["single losses", "in bursts of 30"])
            .curve("layers (1,40)", BARS, of(0))
            .curve("Reed-Solomon, interleave 20", BARS, of(1))
            .curve("RaptorQ, interleave 20", BARS, of(2)),
    );
    // What the paper does not say: whether the bursts take the repairs among the packets, too.
    let names = ["layers (1,40)", "layers (1,40) with delayed XORs", "Reed-Solomon, interleave 20"];
    for (name, outcome) in names.into_iter().zip(outcomes) {
        let what = format!("{name}, recovered share where bursts take repairs too");
        lab.note(&what, "not in the paper", format!("{:.4}", outcome.share()));
    }
    let [layers, solomon, ..] = single[..] else { return Ok(()) };
    let text = |(alone, bursts): (f64, f64)| format!("{alone:.1} and {bursts:.1} ms");
    let alike = (solomon.0 / solomon.1 - 1.0).abs() < 0.35;
    lab.reading_holds(SPARED, "Reed-Solomon: all alike", text(solomon), alike);
    let spikes = layers.0 * 4.0 < layers.1 && layers.0 * 4.0 < solomon.0;
    let what = "layers: singles almost at once, spikes at bursts";
    lab.reading_holds(SPARED, what, text(layers), spikes);
    point(lab, "8,2:1,40", 0.01, 30)
}

/// Fig. 16: latency histograms of (1, 11, 19).
pub fn figure_16(lab: &mut Lab) -> Result<()> {
    histograms(lab, [1, 11, 19])?;
    point(lab, "8,3:1,11,19", 0.01, 20)
}

/// Fig. 17: latency histograms of (1, 19, 41).
pub fn figure_17(lab: &mut Lab) -> Result<()> {
    histograms(lab, [1, 19, 41])?;
    point(lab, "8,3:1,19,41", 0.01, 40)
}

fn histograms(lab: &mut Lab, interleaves: [u16; 3]) -> Result<()> {
    let bursts = [1, 20, 40];
    let cases =
        bursts.map(|burst| (of_eight as _, interleaves.to_vec(), Loss::Bursts(0.001, burst)));
    let mut means = Vec::new();
    let ends = ["to 2", "to 10", "to 20", "to 40", "to 80", "more"];
    let title =
        format!("Recovery latency of ({},{},{})", interleaves[0], interleaves[1], interleaves[2]);
    let mut plot = Plot::over(title, "latency [ms]", "share of recovered", &ends);
    for (burst, outcome) in bursts.into_iter().zip(outcomes(lab, &cases)?) {
        let histogram = outcome.histogram();
        let all = histogram.iter().sum::<usize>().max(1) as f64;
        let points = histogram.iter().enumerate().map(|(x, count)| (x as f64, *count as f64 / all));
        plot = plot.curve(format!("bursts of {burst}"), BARS, plain(points));
        let what = format!("bursts of {burst}: up to 2, 10, 20, 40, 80 ms, more");
        lab.note(&what, "histogram", format!("{:?}", outcome.histogram()));
        means.push(outcome.mean_late());
    }
    lab.plot(plot);
    let text = means.iter().map(|mean| format!("{mean:.1}")).collect::<Vec<_>>().join(", ");
    let rising = means.windows(2).all(|pair| pair[0] < pair[1]);
    lab.holds("latency grows with the burst, means [ms]", text, rising);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_codes_bring_back_single_losses_and_short_bursts() {
        for loss in [Loss::Random(0.001), Loss::Bursts(0.001, 5)] {
            let schemes: [Scheme; 3] = [
                layered(8, &[1, 40]).unwrap(),
                Scheme::reed_solomon(8, 2, 20).unwrap(),
                Scheme::raptorq(8, 2, 20).unwrap(),
            ];
            for mut scheme in schemes {
                let outcome = run(&mut scheme, 30_000, loss, 3, &mut |_| {});
                assert!(outcome.lost >= 15, "{}", outcome.lost);
                assert!(outcome.share() > 0.9, "{}", outcome.share());
            }
        }
    }

    #[test]
    fn runs_are_as_long_as_the_burst_took_of_the_flow() {
        let loss = Loss::Both { single: 0.0, every: 5_000, burst: 30, repairs: false };
        let outcome = run(&mut layered(8, &[1, 40]).unwrap(), 40_000, loss, 1, &mut |_| {});
        assert!(outcome.run.values().all(|&length| length == 30));
        assert_eq!(outcome.share(), 1.0);
    }

    #[test]
    fn reed_solomons_closed_form_is_that_of_the_paper() {
        // (7, 2): at most one of eight others is lost.
        let p: f64 = 0.1;
        let by_hand = (1.0 - p).powi(8) + 8.0 * p * (1.0 - p).powi(7);
        assert!((reed_solomon(7, 2, p) - by_hand).abs() < 1e-12);
    }
}
