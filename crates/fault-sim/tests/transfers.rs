//! Seeds of the simulation of transfers. `SEED=N` runs one and prints why transfers fail, `SEEDS=N` runs so many from
//! 0 on, or from `FIRST`.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use wellspring_fault_sim::{TransferCounters, TransferOptions, run_transfers};

/// Runs of the tests: 20 seconds of a processor.
const SEEDS: u64 = 800;
/// Seeds that have found a fault.
const FOUND: [u64; 1] = [452];
/// Seeds that fail until no more are run.
const ENOUGH: usize = 10;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

fn seeds() -> Range<u64> {
    let first = number("FIRST").unwrap_or(0);
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + number("SEEDS").unwrap_or(SEEDS),
    }
}

/// What the seeds led to that were run.
#[derive(Default)]
struct Total {
    counters: TransferCounters,
    failed: Vec<u64>,
}

/// Runs seeds, each on one thread, on as many threads as there are processors.
fn run_all(seeds: impl Iterator<Item = u64> + Send, says: bool) -> Total {
    let (seeds, total) = (Mutex::new(seeds), Mutex::new(Total::default()));
    let done = AtomicU64::new(0);
    let work = || {
        loop {
            let enough =
                total.lock().unwrap_or_else(PoisonError::into_inner).failed.len() >= ENOUGH;
            let next = seeds.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(seed) = next.filter(|_| !enough) else { return };
            let run = run_transfers(seed, TransferOptions { says, ..TransferOptions::default() });
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.counters += run.counters;
            if !run.breaches.is_empty() {
                println!("seed {seed}: {}", run.breaches.join("; "));
                println!("SEED={seed} make transfers");
                total.failed.push(seed);
            }
            let done = done.fetch_add(1, Relaxed) + 1;
            if done.is_multiple_of(10_000) {
                println!("{done} seeds");
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn no_transfer_loses_or_alters_an_object_whatever_fails() {
    let (seeds, is_one) = (seeds(), number("SEED").is_some());
    let count = seeds.end - seeds.start;
    let others = FOUND.into_iter().filter(|seed| !is_one && !seeds.contains(seed));
    let others: Vec<u64> = others.collect();
    let Total { counters, failed } = run_all(seeds.chain(others), is_one);
    println!("{count} seeds: {counters:?}");
    assert!(failed.is_empty(), "seeds {failed:?} failed");
    if count >= SEEDS {
        let TransferCounters { got, not_got, put, not_put, kills, power_cuts, .. } = counters;
        let all = [got, not_got, put, not_put, kills, power_cuts, counters.cuts, counters.returns];
        let datagrams = counters.datagrams;
        let datagrams = [datagrams.lost, datagrams.twice, datagrams.damaged, datagrams.altered];
        assert!(all.iter().chain(&datagrams).all(|count| *count > 10), "{counters:?}");
    }
}

#[test]
fn a_seed_always_leads_to_the_same_transfers() {
    let seeds = number("SEED").map_or(0..10, |seed| seed..seed + 1);
    for seed in seeds {
        let run = || run_transfers(seed, TransferOptions::default());
        let (first, second) = (run(), run());
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.span, second.span, "seed {seed}");
        assert_eq!(first.breaches, second.breaches, "seed {seed}");
    }
}

#[test]
fn a_receiver_that_does_not_sync_is_found_out() {
    let options = TransferOptions { skips_syncs: true, ..TransferOptions::default() };
    let finds = |seed: &u64| {
        let breaches = run_transfers(*seed, options).breaches;
        breaches.iter().any(|breach| breach.contains("is there, not what was complete"))
    };
    let found = (0..SEEDS).find(finds);
    println!("found by seed {found:?}");
    assert!(found.is_some(), "then no power cut is worth anything");
}
