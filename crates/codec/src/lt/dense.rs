//! Gaussian elimination over GF(2) on rows of bits, one equation at a time.

/// Bits of a word.
const WORD: usize = 64;
/// No row has this pivot.
const NONE: u32 = u32::MAX;

/// Words that so many bits take.
pub(super) fn words(bits: usize) -> usize {
    bits.div_ceil(WORD)
}

/// `sum ^= bits`.
pub(super) fn add(sum: &mut [u64], bits: &[u64]) {
    sum.iter_mut().zip(bits).for_each(|(sum, bits)| *sum ^= bits);
}

/// The places of the ones, ascending.
pub(super) fn ones(bits: &[u64]) -> impl Iterator<Item = usize> {
    bits.iter().enumerate().flat_map(|(place, &word)| {
        let mut left = word;
        core::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (bit < WORD).then_some(place * WORD + bit)
        })
    })
}

/// A system of equations in a fixed number of unknowns, in echelon form, with the combination of
/// accepted equations that each row is.
#[derive(Debug, Default)]
pub(super) struct Dense {
    unknowns: usize,
    words: usize,
    /// One row an accepted equation: a bit an unknown, then a bit an equation.
    rows: Vec<u64>,
    /// By unknown: the row whose first unknown it is.
    pivots: Vec<u32>,
    rank: usize,
    solved: Vec<u64>,
}

impl Dense {
    /// Forgets all equations.
    pub(super) fn reset(&mut self, unknowns: usize) {
        self.unknowns = unknowns;
        self.words = words(unknowns);
        self.rows.clear();
        self.pivots.clear();
        self.pivots.resize(unknowns, NONE);
        self.rank = 0;
    }

    /// How many more independent equations it takes.
    pub(super) fn deficit(&self) -> usize {
        self.unknowns - self.rank
    }

    /// Accepts an equation unless it follows from those accepted before; says whether it did. The
    /// equation is one bit an unknown, and is overwritten.
    pub(super) fn add(&mut self, equation: &mut Vec<u64>) -> bool {
        let words = self.words;
        equation.resize(2 * words, 0);
        equation[words..].fill(0);
        // Rows have nothing below their pivots, so one pass upwards meets every one that matters.
        for place in 0..words {
            while equation[place] != 0 {
                let unknown = place * WORD + equation[place].trailing_zeros() as usize;
                let pivot = self.pivots[unknown];
                if pivot == NONE {
                    equation[words + self.rank / WORD] ^= 1 << (self.rank % WORD);
                    self.pivots[unknown] = self.rank as u32;
                    self.rank += 1;
                    self.rows.extend_from_slice(equation);
                    return true;
                }
                let row = &self.rows[pivot as usize * 2 * words..][..2 * words];
                add(&mut equation[place..], &row[place..]);
            }
        }
        false
    }

    /// Solves for every unknown, once the rank is full: afterwards
    /// [`combination`](Self::combination) tells which equations add up to it.
    pub(super) fn solve(&mut self) {
        debug_assert_eq!(self.deficit(), 0);
        let stride = 2 * self.words;
        // From the last unknown down: by then its row has nothing but the pivot.
        for unknown in (0..self.unknowns).rev() {
            let own = self.pivots[unknown] as usize;
            self.solved.clear();
            self.solved.extend_from_slice(&self.rows[own * stride..][..stride]);
            let (word, bit) = (unknown / WORD, unknown % WORD);
            for &row in &self.pivots[..unknown] {
                let row = &mut self.rows[row as usize * stride..][..stride];
                if row[word] >> bit & 1 == 1 {
                    add(row, &self.solved);
                }
            }
        }
    }

    /// The equations, counted as they were accepted, whose sum is that unknown.
    pub(super) fn combination(&self, unknown: usize) -> impl Iterator<Item = usize> {
        let start = self.pivots[unknown] as usize * 2 * self.words;
        ones(&self.rows[start + self.words..][..self.words])
    }

    pub(super) fn memory(&self) -> usize {
        8 * (self.rows.capacity() + self.solved.capacity()) + 4 * self.pivots.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Right-hand sides of a known solution give it back; dependent equations are refused.
        #[test]
        fn the_combinations_solve(unknowns in 1_usize..200, seed in any::<u64>()) {
            let mut random = super::super::random::Random::new(seed, 0);
            let value: Vec<bool> = (0..unknowns).map(|_| random.word() & 1 == 1).collect();
            let mut system = Dense::default();
            system.reset(unknowns);
            let (mut sides, mut accepted) = (Vec::new(), Vec::<Vec<u64>>::new());
            for turn in 0.. {
                if system.deficit() == 0 {
                    break;
                }
                let mut equation = vec![0; words(unknowns)];
                if turn % 3 == 2 && accepted.len() > 1 {
                    let (one, two) = (random.below(accepted.len() as u32), accepted.len() - 1);
                    add(&mut equation, &accepted[one as usize]);
                    if one as usize != two {
                        add(&mut equation, &accepted[two]);
                    }
                    prop_assert!(!system.add(&mut equation));
                    continue;
                }
                for unknown in 0..unknowns {
                    equation[unknown / 64] |= (random.word() & 1) << (unknown % 64);
                }
                let kept = equation.clone();
                if system.add(&mut equation) {
                    sides.push(ones(&kept).fold(false, |sum, unknown| sum ^ value[unknown]));
                    accepted.push(kept);
                }
            }
            prop_assert_eq!(accepted.len(), unknowns);
            system.solve();
            for (unknown, value) in value.into_iter().enumerate() {
                let sum = system.combination(unknown).fold(false, |sum, side| sum ^ sides[side]);
                prop_assert_eq!(sum, value);
            }
        }
    }
}
