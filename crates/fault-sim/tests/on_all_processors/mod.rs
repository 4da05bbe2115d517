//! Runs of a simulation, each from one seed and on one thread, on all processors.

use std::ops::{AddAssign, Range};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Seeds that fail until no more are run.
const ENOUGH: usize = 10;

/// The number in an environment variable.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

/// The seeds that the environment asks for, or the first `count`.
pub fn seeds(count: u64) -> Range<u64> {
    let first = number("FIRST").unwrap_or(0);
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + number("SEEDS").unwrap_or(count),
    }
}

/// What the seeds led to that were run.
#[derive(Default)]
pub struct Total<C> {
    pub counters: C,
    /// Seeds that broke a promise.
    pub failed: Vec<u64>,
}

/// Runs seeds, each on one thread, on as many threads as there are processors. `run` says what came of
/// one, and which promises were broken; `again` is the command that runs it once more.
pub fn run_all<C: AddAssign + Default + Send>(
    seeds: impl Iterator<Item = u64> + Send,
    run: impl Fn(u64) -> (C, Vec<String>) + Sync,
    again: impl Fn(u64) -> String + Sync,
) -> Total<C> {
    let (seeds, total) = (Mutex::new(seeds), Mutex::new(Total::default()));
    let done = AtomicU64::new(0);
    let work = || {
        loop {
            let enough =
                total.lock().unwrap_or_else(PoisonError::into_inner).failed.len() >= ENOUGH;
            let next = seeds.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(seed) = next.filter(|_| !enough) else { return };
            let (counters, breaches) = run(seed);
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.counters += counters;
            if !breaches.is_empty() {
                println!("seed {seed}: {}", breaches.join("; "));
                println!("{}", again(seed));
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
