//! `wellspring-lab fec failure-law`: decoding failure probability of RaptorQ.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use wellspring_codec::raptorq::{Code, ENCODING_SYMBOLS, RankStudy};
use wellspring_console::bar;
use wellspring_console::exit::Failed;
use wellspring_console::output::Stdout;

use crate::report::codec_error;

/// Measure how often a block cannot be decoded from K, K+1 and K+2 symbols.
///
/// Each trial draws distinct encoding symbols at random from all 2^24 and determines how many of them
/// a receiver needs, on coefficients alone. The same seed gives the same counts on every machine. The
/// interval is Wilson's with 95 % confidence.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring-lab fec failure-law
  wellspring-lab fec failure-law --k 100 --trials 1000000 --json")]
pub struct FailureLawArgs {
    /// Source symbols per block (K).
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "10,100,1000",
          value_parser = clap::value_parser!(u32).range(1..=56_403))]
    k: Vec<u32>,
    /// Trials for each K; default: a million up to K = 200, and above as many as take the same time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    trials: Option<u64>,
    /// Seed of the draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Symbols beyond K up to which trials are counted separately.
const OVERHEADS: usize = 3;

/// Trials drawn from one stream: small enough to share out, and independent of the threads.
const BATCH: u64 = 1000;

/// SplitMix64: small, seedable, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Draws distinct symbol IDs.
struct Draw {
    seen: Vec<u64>,
    symbols: Vec<u32>,
}

impl Draw {
    fn new() -> Self {
        Self { seen: vec![0; ENCODING_SYMBOLS as usize / 64], symbols: Vec::new() }
    }

    fn draw(&mut self, random: &mut Random, count: usize) -> &[u32] {
        self.symbols.clear();
        while self.symbols.len() < count {
            let id = u32::try_from(random.next() >> 40).expect("24 bits");
            let word = &mut self.seen[id as usize / 64];
            if *word >> (id % 64) & 1 == 0 {
                *word |= 1 << (id % 64);
                self.symbols.push(id);
            }
        }
        for id in &self.symbols {
            self.seen[*id as usize / 64] = 0;
        }
        &self.symbols
    }
}

/// Wilson's interval for `hits` of `trials` at 95 %.
fn interval(hits: u64, trials: u64) -> (f64, f64) {
    let (n, p, z) = (trials as f64, hits as f64 / trials as f64, 1.959_964);
    let centre = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    ((centre - half).max(0.0), centre + half)
}

/// Failures at K, K+1 and K+2 symbols.
fn count(
    code: &Arc<Code>,
    k: u32,
    trials: u64,
    seed: u64,
    bar: &indicatif::ProgressBar,
) -> [u64; OVERHEADS] {
    let failures: [AtomicU64; OVERHEADS] = Default::default();
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (mut study, mut draw) = (RankStudy::default(), Draw::new());
                loop {
                    let first = next.fetch_add(BATCH, Ordering::Relaxed);
                    if first >= trials {
                        break;
                    }
                    let mut random = Random(seed ^ u64::from(k) << 40 ^ first << 1);
                    for _ in first..trials.min(first + BATCH) {
                        let symbols = draw.draw(&mut random, k as usize + OVERHEADS - 1);
                        let needed = study
                            .symbols_needed(code, k, symbols)
                            .expect("IDs have 24 bits and the code is for K");
                        let extra = needed.map_or(OVERHEADS, |n| n - k as usize);
                        for failed in &failures[..extra] {
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    bar.inc(BATCH.min(trials - first));
                }
            });
        }
    });
    failures.map(AtomicU64::into_inner)
}

pub(super) fn run(args: &FailureLawArgs, quiet: bool) -> Result<(), Failed> {
    if !args.json {
        writeln!(
            Stdout,
            "decode failure, all symbols drawn from 2^24 at random, seed {}",
            args.seed
        )?;
        writeln!(
            Stdout,
            "{:>6} {:>7} {:>9} {:>9} {:>11}   95 % interval",
            "K", "symbols", "trials", "failures", "probability"
        )?;
    }
    for &k in &args.k {
        let trials = args.trials.unwrap_or_else(|| (200_000_000 / u64::from(k)).min(1_000_000));
        let code = Code::new(k).map_err(codec_error)?;
        let bar = bar::counting(quiet || args.json, trials, "trials");
        let failures = count(&code, k, trials, args.seed, &bar);
        bar.finish_and_clear();
        for (overhead, failures) in failures.into_iter().enumerate() {
            let (low, high) = interval(failures, trials);
            let probability = failures as f64 / trials as f64;
            if args.json {
                let line = serde_json::json!({
                    "k": k, "overhead": overhead, "trials": trials, "failures": failures,
                    "probability": probability, "low": low, "high": high, "seed": args.seed,
                });
                writeln!(Stdout, "{line}")?;
            } else {
                writeln!(
                    Stdout,
                    "{k:>6} {:>7} {trials:>9} {failures:>9} {probability:>11.2e}   \
                     {low:.2e} to {high:.2e}",
                    if overhead == 0 { "K".into() } else { format!("K+{overhead}") }
                )?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_estimate_and_narrows() {
        let (low, high) = interval(65, 10_000);
        assert!(low < 0.0065 && high > 0.0065);
        let (closer, nearer) = interval(6_500, 1_000_000);
        assert!(closer > low && nearer < high);
        assert!(interval(0, 1_000_000).1 < 1e-5);
    }

    #[test]
    fn draws_are_distinct() {
        let mut draw = Draw::new();
        let mut symbols = draw.draw(&mut Random(3), 5000).to_vec();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), 5000);
        assert!(draw.seen.iter().all(|word| *word == 0));
    }
}
