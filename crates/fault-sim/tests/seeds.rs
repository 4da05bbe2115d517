//! Seeds of the simulation. `SEED=N` runs one, `SEEDS=N` so many from 0 on.

use std::ops::Range;

use wellspring_fault_sim::{Counters, run};

/// Runs of the tests: 15 to 20 seconds of a processor.
const SEEDS: u64 = 5_000;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

fn seeds() -> Range<u64> {
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(SEEDS),
    }
}

#[test]
fn no_object_is_lost_or_wrong_whatever_fails() {
    let seeds = seeds();
    let mut total = Counters::default();
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        let run = run(seed);
        total += run.counters;
        if !run.breaches.is_empty() {
            println!("seed {seed}: {}", run.breaches.join("; "));
            println!("SEED={seed} cargo test -p wellspring-fault-sim --test seeds -- --nocapture");
            failed.push(seed);
        }
        assert!(failed.len() < 10, "seeds {failed:?} failed, and no more were run");
    }
    println!("{} seeds: {total:?}", seeds.end - seeds.start);
    assert!(failed.is_empty(), "seeds {failed:?} failed");
    if seeds.end - seeds.start >= 1_000 {
        let Counters { complete, confirmed, refused, altered, failed, given_up, .. } = total;
        let all = [complete, confirmed, refused, altered, failed, given_up];
        let others = [total.resumed_blocks, total.kills, total.power_cuts];
        assert!(all.iter().chain(&others).all(|count| *count > 50), "{total:?}");
    }
}

#[test]
fn a_seed_always_leads_to_the_same_run() {
    for seed in 0..20 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.breaches, second.breaches, "seed {seed}");
    }
}
