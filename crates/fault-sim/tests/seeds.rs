//! Seeds of the simulation. `SEED=N` runs one, `SEEDS=N` so many from 0 on, or from `FIRST`.

mod on_all_processors;

use on_all_processors::{Total, run_all, seeds};
use wellspring_fault_sim::{Counters, run};

/// Runs of the tests: ten seconds of a processor.
const SEEDS: u64 = 2_000;

#[test]
fn no_object_is_lost_or_wrong_whatever_fails() {
    let seeds = seeds(SEEDS);
    let count = seeds.end - seeds.start;
    let run = |seed| {
        let run = run(seed);
        (run.counters, run.breaches)
    };
    let again = |seed| {
        format!("SEED={seed} cargo test -p wellspring-fault-sim --test seeds -- --nocapture")
    };
    let Total { counters, failed } = run_all(seeds, run, again);
    println!("{count} seeds: {counters:?}");
    assert!(failed.is_empty(), "seeds {failed:?} failed");
    if count >= 1_000 {
        let Counters { complete, confirmed, refused, altered, failed, given_up, .. } = counters;
        let all = [complete, confirmed, refused, altered, failed, given_up];
        let others = [counters.resumed_blocks, counters.kills, counters.power_cuts];
        assert!(all.iter().chain(&others).all(|count| *count > 50), "{counters:?}");
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
