//! RaptorQ blocks that do not decode, by the symbols received.

use super::lab::Lab;
use super::plot::{LINE, Plot, plain};
use anyhow::Result;
use std::collections::BTreeSet;
use std::sync::Arc;
use wellspring_codec::raptorq::{Code, ENCODING_SYMBOLS, RankStudy};
use wellspring_core::Seed;
use wellspring_experiments::run::Progress;

/// Source symbols of SCDP's blocks (§V).
const K: u32 = 100;
/// Symbols beyond K that are told apart.
const BEYOND: usize = 3;
/// Blocks between two reports of the progress.
const CHUNK: u64 = 500;

/// How many of so many blocks do not decode from K, K + 1 and K + 2 symbols, drawn at random from all.
fn undecoded(
    code: &Arc<Code>,
    blocks: u64,
    seed: u64,
    report: &mut dyn FnMut(Progress),
) -> Result<[u64; BEYOND]> {
    let mut random = Seed(seed).stream("symbols");
    let mut study = RankStudy::default();
    let mut failures = [0; BEYOND];
    for block in 0..blocks {
        if block % CHUNK == 0 {
            let parts = block as f64 / blocks as f64;
            report(Progress { simulated: 0.0, events: block, limit: 1.0, finished: (0, 1), parts });
        }
        let mut drawn = BTreeSet::new();
        let mut symbols = Vec::new();
        while symbols.len() < K as usize + BEYOND - 1 {
            let symbol = random.below(u64::from(ENCODING_SYMBOLS)) as u32;
            if drawn.insert(symbol) {
                symbols.push(symbol);
            }
        }
        let needed = study.symbols_needed(code, K, &symbols)?;
        let beyond = needed.map_or(BEYOND, |needed| needed - K as usize);
        failures[..beyond].iter_mut().for_each(|count| *count += 1);
    }
    Ok(failures)
}

/// Failures at K, K + 1 and K + 2 symbols, on the code's coefficients.
pub fn figure(lab: &mut Lab) -> Result<()> {
    let (seeds, blocks): (u64, u64) = if lab.quick() { (4, 2_500) } else { (100, 10_000) };
    let code = Code::new(K)?;
    let seeds: Vec<u64> = (1..=seeds).collect();
    lab.ran(&seeds);
    let counts = lab.each(&seeds, |seed, report| undecoded(&code, blocks, *seed, report))?;
    let all = (seeds.len() as u64 * blocks) as f64;
    let share = |beyond: usize| counts.iter().map(|of| of[beyond]).sum::<u64>() as f64 / all;
    let shares = [share(0), share(1), share(2)];
    let digits = |share: f64| format!("{share:.1e}");
    lab.note("blocks of 100 that do not decode from K", "-", digits(shares[0]));
    lab.note("... from K + 1", "-", digits(shares[1]));
    let what = format!("... from K + 2, of {all:.0} blocks");
    lab.number_as(&what, "~1e-6", shares[2], 0.0..=1e-5, &digits);
    let points = shares.iter().enumerate().map(|(beyond, share)| (beyond as f64, *share));
    lab.plot(
        Plot::over(
            "Blocks of 100 symbols that do not decode",
            "symbols received",
            "share of blocks",
            &["K", "K + 1", "K + 2"],
        )
        .log_y()
        .curve("RaptorQ", LINE, plain(points))
        .paper([(2.0, 1e-6)]),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_symbol_more_makes_failures_rarer() {
        let code = Code::new(K).unwrap();
        let [at, one, two] = undecoded(&code, 3_000, 1, &mut |_| {}).unwrap();
        // 1 in 200 or so, and a hundredth of that.
        assert!((3..60).contains(&at), "{at}");
        assert!(one <= at / 3 && two <= one, "{at} {one} {two}");
    }
}
