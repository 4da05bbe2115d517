//! Prints how each congestion controller of SCDP fares alone, under loss, at its start, and beside CUBIC.
//!
//! `cargo run --release -p wellspring-transport --example congestion [SEEDS] [alone|start|beside|bbr|groups] [RTT in us]...`

#[path = "../tests/it/coexistence.rs"]
mod coexistence;

use coexistence::{Path, alone, group_beside, jain, start, together};
use wellspring_core::{Duration, Rate};
use wellspring_transport::congestion::Algorithm;

const RTTS_US: [u64; 5] = [2_000, 20_000, 80_000, 240_000, 600_000];
const SHARED_RTTS_US: [u64; 5] = [200, 2_000, 10_000, 60_000, 100_000];
const QUEUES: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// The rate at the shortest round trip.
const FAST: Rate = Rate::from_mbps(1_000);

/// Paths of that round trip with several queues. At the shortest also a slow link's with a queue of 64 kB, as of a host or
/// a home router: almost all of the round trip is queue.
fn paths(rtt: Duration) -> Vec<Path> {
    let mut paths: Vec<_> = QUEUES.map(|queue| Path::new(rtt, queue)).into();
    if let Some(short) = paths.first().filter(|path| path.rate == FAST) {
        paths.push(Path { rate: Rate::from_mbps(100), queue: 26.0, ..*short });
    }
    paths
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seeds: u64 = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(3);
    let part = args.next().unwrap_or_default();
    let only: Vec<u64> = args.filter_map(|arg| arg.parse().ok()).collect();
    let wanted = |rtt: &u64| only.is_empty() || only.contains(rtt);
    if part.is_empty() || part == "alone" {
        table_alone(seeds, &wanted);
    }
    if part.is_empty() || part == "beside" {
        table_beside(seeds, &wanted, &[Algorithm::Veno, Algorithm::Bbr], false);
    }
    if part.is_empty() || part == "start" {
        table_start(seeds, &wanted);
    }
    if part.is_empty() || part == "bbr" {
        table_beside_bbr(seeds, &wanted);
    }
    if part.is_empty() || part == "groups" {
        table_beside(seeds, &wanted, &[Algorithm::Veno], true);
    }
}

fn mean(seeds: u64, of: impl Fn(u64) -> f64) -> (f64, f64, f64) {
    let all: Vec<f64> = (1..=seeds).map(of).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    (all.iter().sum::<f64>() / seeds as f64, least, most)
}

fn table_alone(seeds: u64, wanted: &dyn Fn(&u64) -> bool) {
    println!("alone: % of the line after ten round trips; queue 1 BDP; 100 Mbit/s; {seeds} seeds");
    println!("{:>8} {:>6} {:>7} {:>7} {:>7}", "RTT ms", "loss", "veno", "cubic", "bbr");
    for rtt in RTTS_US.into_iter().filter(wanted) {
        for loss in [0.0, 0.01, 0.05] {
            let path = Path { loss, ..Path::new(Duration::from_micros(rtt), 1.0) };
            let span = Duration::from_secs(15) + path.rtt * 20;
            let cells = Algorithm::ALL
                .map(|algorithm| mean(seeds, |seed| alone(seed, &path, algorithm, span)).0 * 1e2);
            let [veno, cubic, bbr] = cells;
            println!("{:>8} {loss:>6} {veno:>7.1} {cubic:>7.1} {bbr:>7.1}", rtt as f64 / 1e3);
        }
    }
}

/// What each controller gets beside one BBR.
fn table_beside_bbr(seeds: u64, wanted: &dyn Fn(&u64) -> bool) {
    println!("beside one BBR: % of what is used, mean (least to most) over {seeds} seeds");
    println!("{:>8} {:>6} {:>18} {:>18} {:>18}", "RTT ms", "queue", "veno", "cubic", "bbr");
    for rtt in SHARED_RTTS_US.into_iter().filter(wanted) {
        for queue in QUEUES {
            let path = Path::new(Duration::from_micros(rtt), queue);
            let (settle, secs) = if rtt < 1_000 { (2, 5) } else { (15, 30) };
            let cell = |algorithm| {
                let of = mean(seeds, |seed| {
                    let shares = together(seed, &path, &[algorithm, Algorithm::Bbr], settle, secs);
                    1e2 * shares[0] / shares.iter().sum::<f64>()
                });
                format!("{:.0} ({:.0}-{:.0})", of.0, of.1, of.2)
            };
            let [veno, cubic, bbr] = Algorithm::ALL.map(cell);
            println!("{:>8} {queue:>6} {veno:>18} {cubic:>18} {bbr:>18}", rtt as f64 / 1e3);
        }
    }
}

fn table_beside(
    seeds: u64,
    wanted: &dyn Fn(&u64) -> bool,
    algorithms: &[Algorithm],
    in_group: bool,
) {
    println!("beside CUBIC: % of what is used, mean (least to most) over {seeds} seeds");
    for &algorithm in algorithms {
        println!("{algorithm}, {}:", if in_group { "a group of three" } else { "one to one" });
        println!(
            "{:>8} {:>6} {:>18} {:>18} {:>12} {:>6}",
            "RTT ms", "queue", "beside 1", "beside 4", "two: Jain", "used"
        );
        for rtt in SHARED_RTTS_US.into_iter().filter(wanted) {
            for path in paths(Duration::from_micros(rtt)) {
                let queue = path.queue;
                // Ten times the rate, and short cycles.
                let (settle, secs) = if path.rate == FAST { (2, 5) } else { (15, 30) };
                let shares = |seed, others: &[Algorithm]| {
                    if in_group {
                        return group_beside(seed, &path, (algorithm, others), settle, secs);
                    }
                    let mut all = vec![algorithm];
                    all.extend_from_slice(others);
                    together(seed, &path, &all, settle, secs)
                };
                let beside = |cubics: usize| {
                    mean(seeds, |seed| {
                        let shares = shares(seed, &vec![Algorithm::Cubic; cubics]);
                        1e2 * shares[0] / shares.iter().sum::<f64>()
                    })
                };
                let two = |seed| shares(seed, &[algorithm]);
                let (one, four) = (beside(1), beside(4));
                let fair = mean(seeds, |seed| jain(&two(seed))).0;
                let used = two(1).iter().sum::<f64>() * 1e2;
                println!(
                    "{:>8} {queue:>6} {:>18} {:>18} {fair:>12.3} {used:>6.1}",
                    rtt as f64 / 1e3,
                    format!("{:.0} ({:.0}-{:.0})", one.0, one.1, one.2),
                    format!("{:.0} ({:.0}-{:.0})", four.0, four.1, four.2),
                );
            }
        }
    }
}

fn table_start(seeds: u64, wanted: &dyn Fn(&u64) -> bool) {
    println!(
        "start: % of the line in each round trip, and round trips lost; queue 1 BDP, 32 credits a pull; {seeds} seeds"
    );
    for rtt in RTTS_US.into_iter().filter(wanted) {
        let path = Path { burst: 32, ..Path::new(Duration::from_micros(rtt), 1.0) };
        for algorithm in Algorithm::ALL {
            let all: Vec<Vec<f64>> =
                (1..=seeds).map(|seed| start(seed, &path, algorithm, 24)).collect();
            let mean = |at: usize| all.iter().map(|parts| parts[at]).sum::<f64>() / seeds as f64;
            let parts: Vec<f64> = (0..24).map(mean).collect();
            let lost: f64 = parts.iter().map(|part| 1.0 - part).sum();
            let percent = parts.iter().map(|part| format!(" {:>3.0}", part * 1e2));
            println!(
                "{:>8} {algorithm:>6} {lost:>5.1}{}",
                rtt as f64 / 1e3,
                percent.collect::<String>()
            );
        }
    }
}
