//! Named random streams of one seed.
//!
//! Every draw belongs to a stream with a name, so that adding a draw in one place shifts nothing
//! elsewhere, and two protocols simulated with one seed meet the same workload.

use core::convert::Infallible;
use rand_core::{Rng, SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The seed of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream of that name: the same for the same seed and name on every machine.
    pub fn stream(self, name: &str) -> RandomStream {
        self.numbered_stream(name, 0)
    }

    /// One of many streams under one name (a host's, a flow's).
    pub fn numbered_stream(self, name: &str, number: u64) -> RandomStream {
        // FNV-1a over the name separates streams; SplitMix64 inside `seed_from_u64` spreads it.
        let mut key = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes().chain(number.to_le_bytes()).chain(self.0.to_le_bytes()) {
            key = (key ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        RandomStream(Xoshiro256PlusPlus::seed_from_u64(key))
    }
}

/// A stream of random numbers (xoshiro256++: fast, not for secrets).
#[derive(Clone, Debug)]
pub struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound` without bias; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // Lemire's method: the high word of the product, redrawn in the biased corner.
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with that probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

/// So that distributions of `rand`'s family can draw from a stream.
impl TryRng for RandomStream {
    type Error = Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.next_u32())
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill_bytes(dst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_apart() {
        let seed = Seed(7);
        let draw = |mut s: RandomStream| [s.next_u64(), s.next_u64()];
        assert_eq!(draw(seed.stream("ecmp")), draw(seed.stream("ecmp")));
        assert_ne!(draw(seed.stream("ecmp")), draw(seed.stream("loss")));
        assert_ne!(draw(seed.stream("ecmp")), draw(Seed(8).stream("ecmp")));
        assert_ne!(draw(seed.numbered_stream("host", 1)), draw(seed.numbered_stream("host", 2)));
    }

    #[test]
    fn a_stream_is_the_same_on_every_machine() {
        assert_eq!(Seed(1).stream("golden").next_u64(), GOLDEN);
    }
    const GOLDEN: u64 = 16_022_359_570_485_426_086;

    #[test]
    fn bounded_draws_are_even() {
        let mut stream = Seed(3).stream("even");
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[stream.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|c| (9_500..10_500).contains(c)), "{counts:?}");
        assert_eq!(stream.below(0), 0);
        assert_eq!(stream.below(1), 0);
    }
}
