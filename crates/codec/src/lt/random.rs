//! Random draws and a logarithm that are identical on every machine.
//!
//! Two ends that derive neighbours from a seed must agree on every one of them. The platform's
//! logarithm may round differently from one to the next; sums, products, quotients and square roots
//! may not (IEEE 754), so all here is made of those.

use core::f64::consts::{LN_2, SQRT_2};

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function: spreads every bit over all.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The draws of one encoding symbol (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Seed and ID are mixed one after the other: neighbouring IDs start far apart, not one step.
    pub(super) fn new(seed: u64, id: u32) -> Self {
        Self(mix(mix(seed.wrapping_add(STEP)).wrapping_add(u64::from(id))))
    }

    /// 64 even bits.
    pub(super) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `limit`; the bias is less than one in 2^32.
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        ((u128::from(self.word()) * u128::from(limit)) >> 64) as u32
    }
}

/// The natural logarithm of a normal number above zero, to within a few units of the last place.
pub(super) fn ln(value: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    debug_assert!(value.is_normal() && value > 0.0);
    let bits = value.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1_023;
    let mut mantissa = f64::from_bits(bits & MANTISSA | 1_023 << 52);
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh s; |s| is at most 0.172, so that the twelfth term is beyond the last place.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let series = (0..12).rev().fold(0.0, |sum, n| sum * s * s + 1.0 / f64::from(2 * n + 1));
    f64::from(exponent) * LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_the_platforms_to_the_last_places() {
        let mut value = 1e-12;
        while value < 1e12 {
            let expected = f64::ln(value);
            assert!((ln(value) - expected).abs() <= 1e-14 * expected.abs().max(0.1), "{value}");
            value *= 1.001;
        }
        assert!(ln(1.0).to_bits() == 0);
    }

    #[test]
    fn draws_are_even_and_differ_from_id_to_id() {
        let mut counts = [0; 7];
        for id in 0..70_000 {
            counts[Random::new(5, id).below(7) as usize] += 1;
        }
        // Five standard deviations of a binomial count.
        assert!(counts.iter().all(|&count| (9_540..10_460).contains(&count)), "{counts:?}");
        let first: Vec<u64> = (0..4).map(|id| Random::new(0, id).word()).collect();
        let mut stream = Random::new(0, 0);
        let next: Vec<u64> = (0..4).map(|_| stream.word()).collect();
        assert_eq!(first[0], next[0]);
        assert!(first[1..].iter().all(|word| !next.contains(word)));
    }
}
