//! Seeds of the simulation of transfers. `SEED=N` runs one and prints why transfers fail, `SEEDS=N` runs so many from
//! 0 on, or from `FIRST`.

mod on_all_processors;

use on_all_processors::{Total, number, run_all, seeds};
use wellspring_fault_sim::{TransferCounters, TransferOptions, run_transfers};

/// Runs of the tests: four minutes of a processor.
const SEEDS: u64 = 10_000;
/// Runs among which everything that can happen has happened.
const VARIED: u64 = 800;
/// Seeds that have found a fault.
const FOUND: [u64; 2] = [452, 946_006];

#[test]
fn no_transfer_loses_or_alters_an_object_whatever_fails() {
    let (seeds, is_one) = (seeds(SEEDS), number("SEED").is_some());
    let count = seeds.end - seeds.start;
    let others = FOUND.into_iter().filter(|seed| !is_one && !seeds.contains(seed));
    let others: Vec<u64> = others.collect();
    let options = TransferOptions { says: is_one, ..TransferOptions::default() };
    let run = |seed| {
        let run = run_transfers(seed, options);
        (run.counters, run.breaches)
    };
    let Total { counters, failed } =
        run_all(seeds.chain(others), run, |seed| format!("SEED={seed} make transfers"));
    println!("{count} seeds: {counters:?}");
    assert!(failed.is_empty(), "seeds {failed:?} failed");
    if count >= VARIED {
        let TransferCounters { got, not_got, put, not_put, kills, power_cuts, .. } = counters;
        let more = [counters.cuts, counters.returns, counters.with_keys];
        let all = [got, not_got, put, not_put, kills, power_cuts].into_iter().chain(more);
        let datagrams = counters.datagrams;
        let datagrams = [datagrams.lost, datagrams.twice, datagrams.damaged, datagrams.altered];
        assert!(all.chain(datagrams).all(|count| count > 10), "{counters:?}");
    }
}

#[test]
fn a_seed_always_leads_to_the_same_transfers() {
    let one = number("SEED");
    let seeds = one.map_or(0..20, |seed| seed..seed + 1);
    let mut with_keys = 0;
    for seed in seeds {
        let run = || run_transfers(seed, TransferOptions::default());
        let (first, second) = (run(), run());
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.span, second.span, "seed {seed}");
        assert_eq!(first.breaches, second.breaches, "seed {seed}");
        with_keys += first.counters.with_keys;
    }
    assert!(one.is_some() || with_keys > 0, "none had keys");
}

#[test]
fn a_receiver_that_does_not_sync_is_found_out() {
    let options = TransferOptions { skips_syncs: true, ..TransferOptions::default() };
    let finds = |seed: &u64| {
        let breaches = run_transfers(*seed, options).breaches;
        breaches.iter().any(|breach| breach.contains("is there, not what was complete"))
    };
    let found = (0..VARIED).find(finds);
    println!("found by seed {found:?}");
    assert!(found.is_some(), "then no power cut is worth anything");
}
