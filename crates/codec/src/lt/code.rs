//! LT code: the neighbours of each encoding symbol.

use super::distribution::RobustSoliton;
use super::random::Random;

/// An LT code: a degree distribution and a seed.
///
/// Every 32-bit ID names an encoding symbol, and the same seed and ID give the same neighbours on
/// every machine. LTTP carries the neighbours in each packet instead (§III-C; see
/// [`write_description`](super::write_description)), so its receivers need no code.
///
/// # Examples
///
/// ```
/// use wellspring_codec::lt::{Code, RobustSoliton};
///
/// let code = Code::new(RobustSoliton::new(64, 0.2, 0.7)?, 7);
/// let (mut one, mut again) = (Vec::new(), Vec::new());
/// code.neighbours(3, &mut one);
/// code.neighbours(3, &mut again);
/// assert_eq!(one, again);
/// assert!(one.is_sorted() && one.iter().all(|index| *index < 64));
/// # Ok::<(), wellspring_codec::lt::LtError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    distribution: RobustSoliton,
    seed: u64,
}

impl Code {
    /// The code of that distribution and seed.
    #[must_use]
    pub fn new(distribution: RobustSoliton, seed: u64) -> Self {
        Self { distribution, seed }
    }

    /// The distribution of degrees.
    #[must_use]
    pub fn distribution(&self) -> &RobustSoliton {
        &self.distribution
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Source symbols of a block, k.
    #[must_use]
    pub fn source_symbols(&self) -> u32 {
        self.distribution.source_symbols()
    }

    /// Replaces `neighbours` by the source symbols in encoding symbol `id`, ascending.
    ///
    /// The degree is the first draw; the others choose a subset of that size, all subsets alike
    /// (Floyd's method: one draw a neighbour, whatever the degree).
    pub fn neighbours(&self, id: u32, neighbours: &mut Vec<u32>) {
        let mut random = Random::new(self.seed, id);
        let k = self.source_symbols();
        let degree = self.distribution.degree(random.word());
        neighbours.clear();
        for last in k - degree..k {
            let drawn = random.below(last + 1);
            match neighbours.binary_search(&drawn) {
                Ok(_) => neighbours.push(last),
                Err(place) => neighbours.insert(place, drawn),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(k: u32, seed: u64) -> Code {
        Code::new(RobustSoliton::new(k, 0.2, 0.7).expect("parameters in range"), seed)
    }

    #[test]
    fn neighbours_are_distinct_ascending_and_of_the_block() {
        for k in [1, 2, 3, 64, 1_000] {
            let mut neighbours = Vec::new();
            for id in 0..2_000 {
                code(k, 1).neighbours(id, &mut neighbours);
                assert!(!neighbours.is_empty());
                assert!(neighbours.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(neighbours.last().is_some_and(|last| *last < k));
            }
        }
    }

    #[test]
    fn every_source_symbol_is_as_likely_as_any_other() {
        let (code, mut neighbours) = (code(50, 9), Vec::new());
        let mut counts = [0_u32; 50];
        for id in 0..50_000 {
            code.neighbours(id, &mut neighbours);
            neighbours.iter().for_each(|index| counts[*index as usize] += 1);
        }
        let mean = f64::from(counts.iter().sum::<u32>()) / 50.0;
        let off = counts.iter().map(|count| (f64::from(*count) - mean).abs()).fold(0.0, f64::max);
        assert!(off < 5.0 * mean.sqrt(), "{off} from {mean}");
    }

    /// Two ends on different machines agree on this, or they do not understand each other.
    #[test]
    fn the_code_is_the_same_everywhere() {
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        let mut neighbours = Vec::new();
        for k in [1, 10, 64, 128, 256, 1_000, 4_096] {
            for id in (0..500).chain([u32::MAX]) {
                code(k, 0x5eed).neighbours(id, &mut neighbours);
                for byte in neighbours.iter().flat_map(|index| index.to_le_bytes()) {
                    digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                }
            }
        }
        assert_eq!(digest, 0x55cc_f5b1_4994_b804, "{digest:#018x}");
    }
}
