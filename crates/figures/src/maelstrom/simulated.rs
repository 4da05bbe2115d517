//! The adaptive pair over simulated links: what it brings where links lose, and what it costs where they do not.

use anyhow::Result;
use wellspring_core::Duration;
use wellspring_maelstrom::Family;

use crate::Lab;
use crate::plot::{CURVE, Plot, plain};
use wellspring_experiments::long_link::{Algorithm, Loss, Protection, Results, Setting, Work, run};
use wellspring_experiments::run::Progress;

const TCPS: [Algorithm; 3] = [Algorithm::Cubic, Algorithm::Reno, Algorithm::Bbr];
/// Packets of a fetch of 300 KB.
const FETCH: u64 = 207;
/// Length of the phases of changing loss \[s\].
const PHASE: usize = 15;
const PHASES: usize = 4;
/// From the start of a phase until it counts \[s\].
const SETTLE: usize = 5;
/// Entries a second of [`Results::overheads`].
const OVERHEADS: usize = 100;

/// By how much delays differ where seeds do by them.
const DELAYS: Duration = Duration::from_millis(10);

/// What is run over all seeds, and what is read off each run.
struct Case {
    setting: Setting,
    /// Seeds differ by the delay: nothing else is random.
    by_delay: bool,
    read: fn(&Results) -> Vec<f64>,
}

/// What was read, by seed.
struct Read(Vec<Vec<f64>>);

impl Read {
    fn sorted(&self, column: usize) -> Vec<f64> {
        let mut values: Vec<f64> = self.0.iter().map(|values| values[column]).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    fn median(&self, column: usize) -> f64 {
        let values = self.sorted(column);
        values[values.len() / 2]
    }

    fn least(&self, column: usize) -> f64 {
        self.sorted(column)[0]
    }

    fn most(&self, column: usize) -> f64 {
        self.sorted(column)[self.0.len() - 1]
    }
}

/// Rate of the first flow, its queue's drops, its appliance's bytes for each byte.
fn rates(results: &Results) -> Vec<f64> {
    let sent = &results.sent;
    let overhead = (sent.repair_bytes + sent.digest_bytes) as f64 / sent.packet_bytes.max(1) as f64;
    let mut read = vec![results.outcomes[0].steady_mbps(), results.drops as f64, overhead];
    read.extend(results.outcomes.iter().skip(1).map(|outcome| outcome.steady_mbps()));
    read
}

/// Rate in each phase, and in each second; then repairs for a hundred packets in each second, if there is a code.
fn phases(results: &Results) -> Vec<f64> {
    let outcome = &results.outcomes[0];
    let phase = |n: usize| outcome.mbps(n * PHASE + SETTLE..(n + 1) * PHASE);
    let rates = (0..PHASES * PHASE).map(|second| outcome.mbps(second..second + 1));
    let repairs = results.overheads.chunks_exact(OVERHEADS);
    let repairs = repairs.map(|of| of.iter().sum::<f64>() / OVERHEADS as f64 * 100.0);
    (0..PHASES).map(phase).chain(rates).chain(repairs).collect()
}

fn times(results: &Results) -> Vec<f64> {
    let outcome = &results.outcomes[0];
    vec![
        outcome.quantile_ms(0.5),
        outcome.quantile_ms(0.9),
        outcome.quantile_ms(0.99),
        outcome.quantile_ms(1.0),
    ]
}

fn bulk(loss: Loss, protection: Option<Protection>, tcp: Algorithm) -> Setting {
    Setting::new(loss, protection, vec![Work::Bulk(tcp, true)], 0)
}

/// Runs cases over seeds.
fn read(lab: &Lab, cases: Vec<Case>) -> Result<Vec<Read>> {
    let seeds = lab.scale.seeds.clone();
    let seeds = seeds.unwrap_or_else(|| (1..=if lab.scale.quick { 2 } else { 20 }).collect());
    lab.ran(&seeds);
    let jobs: Vec<(&Case, u64)> =
        cases.iter().flat_map(|case| seeds.iter().map(move |&seed| (case, seed))).collect();
    let values = lab.each(&jobs, |&(case, seed), report| {
        let mut setting = Setting { seed, ..case.setting.clone() };
        if case.by_delay {
            setting.delay = setting.delay.saturating_sub(DELAYS / 2) + DELAYS / 20 * (seed % 21);
        }
        let simulated = setting.length.as_secs_f64();
        report(Progress { simulated, events: 0, limit: simulated, finished: (0, 1), parts: 0.0 });
        Ok((case.read)(&run(&setting)))
    })?;
    Ok(values.chunks(seeds.len()).map(|values| Read(values.to_vec())).collect())
}

fn ours() -> Option<Protection> {
    Some(Protection::adaptive())
}

/// The adaptive pair with layers instead of a sliding window.
fn layers() -> Option<Protection> {
    Some(Protection::adaptive_of(Family::Layers))
}

/// The adaptive pair with Reed-Solomon blocks.
fn blocks() -> Option<Protection> {
    Some(Protection::adaptive_of(Family::ReedSolomon))
}

/// A link that only its queue drops on, and a neighbour there. Nothing is random there: seeds differ by the delay, 45 to
/// 55 ms.
pub fn clean(lab: &mut Lab) -> Result<()> {
    lab.quick();
    let cases = TCPS.iter().flat_map(|&tcp| {
        [None, ours()].map(|protection| Case {
            setting: bulk(Loss::NONE, protection, tcp),
            by_delay: true,
            read: rates,
        })
    });
    let read = read(lab, cases.collect())?;
    for (tcp, pair) in TCPS.iter().zip(read.chunks(2)) {
        let [alone, with] = pair else { continue };
        let what = format!(
            "{}, nothing lost: {:.1} of {:.1} Mbit/s; of alone",
            tcp.name(),
            with.median(0),
            alone.median(0)
        );
        lab.goal(&what, with.median(0) / alone.median(0), 0.95..=f64::INFINITY);
        let what = format!("{}, drops of the queue, times alone", tcp.name());
        lab.goal(&what, with.median(1) / alone.median(1).max(1.0), f64::NEG_INFINITY..=1.5);
        let what = format!("{}, overhead over twenty seconds [% of bytes]", tcp.name());
        lab.variant(&what, format!("{:.2}", with.median(2) * 100.0));
    }
    neighbours(lab)
}

/// A flow past the appliances beside one that they protect.
fn neighbours(lab: &mut Lab) -> Result<()> {
    let work = vec![Work::Bulk(Algorithm::Cubic, true), Work::Bulk(Algorithm::Cubic, false)];
    let cases = [None, ours()].map(|protection| Case {
        setting: Setting {
            length: Duration::from_secs(40),
            ..Setting::new(Loss::NONE, protection, work.clone(), 0)
        },
        by_delay: true,
        read: rates,
    });
    let read = read(lab, cases.into())?;
    let (alone, with) = (read[0].median(3), read[1].median(3));
    let what = format!(
        "an unprotected neighbour, CUBIC: {with:.1} of {alone:.1} Mbit/s; of its share without us"
    );
    lab.goal(&what, with / alone, 0.8..=f64::INFINITY);
    Ok(())
}

/// Links that lose at random and in bursts.
pub fn losing(lab: &mut Lab) -> Result<()> {
    lab.quick();
    let random = |part| Loss::Random(part);
    let burst = |packets| Loss::Bursts(0.01, packets);
    // Name, loss, goals of median and worst seed.
    let links: [(&str, Loss, f64, f64); 4] = [
        ("1 % random", random(0.01), 80.0, 0.0),
        ("5 % random", random(0.05), 60.0, 50.0),
        ("1 % in bursts of 10", burst(10), 70.0, 55.0),
        ("1 % in bursts of 20", burst(20), 70.0, 55.0),
    ];
    let codes = [
        None,
        ours(),
        layers(),
        blocks(),
        Some(Protection::fixed(8, &[1, 20, 40], false)),
        Some(Protection::fixed(8, &[1, 19, 41], true)),
        Some(Protection::fixed_blocks(8, 3, 20)),
    ];
    let names = [
        "alone",
        "adaptive",
        "adaptive layers",
        "adaptive Reed-Solomon",
        "(8,3) 1,20,40",
        "(8,3) 1,19,41 delayed",
        "Reed-Solomon (8,3) 20 delayed",
    ];
    let mut cases = Vec::new();
    for (_, loss, ..) in links {
        for tcp in TCPS {
            cases.extend(codes.iter().map(|protection| Case {
                setting: bulk(loss, protection.clone(), tcp),
                by_delay: false,
                read: rates,
            }));
        }
    }
    let read = read(lab, cases)?;
    let mut rows = read.chunks(codes.len());
    for (link, _, median, worst) in links {
        for tcp in TCPS {
            let Some(row) = rows.next() else { return Ok(()) };
            for (name, read) in names.iter().zip(row) {
                let what = format!(
                    "{}, {link}, {name} [Mbit/s]: median, worst and best seed, overhead",
                    tcp.name()
                );
                let ours = format!(
                    "{:.1}, {:.1}, {:.1}, {:.0} %",
                    read.median(0),
                    read.least(0),
                    read.most(0),
                    read.median(2) * 100.0
                );
                lab.variant(&what, ours);
            }
            let (ours, what) = (&row[1], format!("{}, {link}, adaptive", tcp.name()));
            // BBR takes random loss for what it is: no goal but that it loses little.
            if tcp != Algorithm::Bbr {
                lab.goal(
                    &format!("{what}, median [Mbit/s]"),
                    ours.median(0),
                    median..=f64::INFINITY,
                );
                lab.goal(
                    &format!("{what}, worst seed [Mbit/s]"),
                    ours.least(0),
                    worst..=f64::INFINITY,
                );
            }
        }
    }
    Ok(())
}

/// Nothing lost, 2 % at random, 1 % in bursts of 20, nothing lost.
pub fn changing(lab: &mut Lab) -> Result<()> {
    lab.quick();
    let losses = [Loss::NONE, Loss::Random(0.02), Loss::Bursts(0.01, 20), Loss::NONE];
    let losses: Vec<(Duration, Loss)> = losses
        .into_iter()
        .enumerate()
        .map(|(n, loss)| (Duration::from_secs((n * PHASE) as u64), loss))
        .collect();
    let codes = [
        ours(),
        None,
        layers(),
        blocks(),
        Some(Protection::fixed(10, &[1, 11], false)),
        Some(Protection::fixed(8, &[1, 20, 40], false)),
        Some(Protection::fixed(8, &[1, 19, 41], true)),
    ];
    let cases = codes.iter().map(|protection| Case {
        setting: Setting {
            losses: losses.clone(),
            length: Duration::from_secs((PHASES * PHASE) as u64),
            ..bulk(Loss::NONE, protection.clone(), Algorithm::Cubic)
        },
        by_delay: false,
        read: phases,
    });
    let read = read(lab, cases.collect())?;
    for (phase, name) in ["nothing lost", "2 % random", "1 % in bursts of 20", "nothing lost again"]
        .into_iter()
        .enumerate()
    {
        let best = read[1..].iter().map(|read| read.median(phase)).fold(0.0, f64::max);
        let ours = read[0].median(phase);
        let what =
            format!("changing loss, CUBIC, {name}: {ours:.1} Mbit/s; of the best fixed choice");
        lab.goal(&what, ours / best, 0.9..=f64::INFINITY);
    }
    let ours = &read[0];
    let by_second = |from: usize| {
        let seconds = 0..(PHASES * PHASE) as u32;
        plain(seconds.map(move |second| (second, ours.median(from + second as usize))))
    };
    lab.plot(
        Plot::new(
            "None lost, 2 %, 1 % in bursts of 20, none lost: the adaptive pair",
            "time [s]",
            "[Mbit/s]; repairs for a hundred packets",
        )
        .curve("CUBIC, goodput", CURVE, by_second(PHASES))
        .curve("repairs", CURVE, by_second(PHASES + PHASES * PHASE)),
    );
    Ok(())
}

/// Messages and short fetches.
pub fn thin(lab: &mut Lab) -> Result<()> {
    lab.quick();
    let lossy = Loss::Bursts(0.01, 10);
    let settings = [(Loss::NONE, None), (lossy, None), (lossy, ours())];
    let messages = vec![Work::Messages(Algorithm::Cubic, 116, 100), Work::Paced(1_000, 1_250)];
    let fetches = vec![Work::Fetches(Algorithm::Cubic, FETCH)];
    let mut cases = Vec::new();
    for work in [messages, fetches] {
        cases.extend(settings.iter().map(|(loss, protection)| Case {
            setting: Setting {
                length: Duration::from_secs(120),
                ..Setting::new(*loss, protection.clone(), work.clone(), 0)
            },
            by_delay: false,
            read: times,
        }));
    }
    let read = read(lab, cases)?;
    for (n, name) in ["nothing lost", "alone", "adaptive"].into_iter().enumerate() {
        for (what, read) in
            [("messages of 64 bytes", &read[n]), ("fetches of 300 KB", &read[3 + n])]
        {
            let what = format!(
                "{what}, 1 % in bursts of 10, {name} [ms]: p50, p90, p99, max (median seed)"
            );
            let ours = (0..4).map(|column| format!("{:.0}", read.median(column)));
            lab.variant(&what, ours.collect::<Vec<_>>().join(", "));
        }
    }
    let late = read[2].median(2) - read[0].median(0);
    lab.goal("messages, adaptive, p99 over the way [ms]", late, f64::NEG_INFINITY..=30.0);
    for (column, name, goal) in [(1, "p90", 1.1), (3, "the longest", 1.5)] {
        let part = read[5].median(column) / read[3].median(column);
        lab.goal(
            &format!("fetches, adaptive, {name}, times lossless"),
            part,
            f64::NEG_INFINITY..=goal,
        );
    }
    Ok(())
}
