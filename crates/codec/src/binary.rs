//! Gauss-Jordan elimination over GF(2), one equation at a time.
//!
//! Rows are bits: coefficients, then the combination of accepted equations that the row is. They are
//! kept fully reduced: each has been solved for one unknown, which no other row has.

/// Bits of a word.
const WORD: usize = 64;

/// A system of binary linear equations in a fixed number of unknowns.
#[derive(Debug, Default)]
pub(crate) struct Binary {
    unknowns: usize,
    /// Words of a row's coefficients, and of its combination.
    words: usize,
    rows: Vec<u64>,
    /// The unknown each row has been solved for.
    pivots: Vec<u32>,
    candidate: Vec<u64>,
}

impl Binary {
    /// Forgets all equations.
    pub(crate) fn reset(&mut self, unknowns: usize) {
        self.unknowns = unknowns;
        self.words = words(unknowns);
        self.rows.clear();
        self.pivots.clear();
    }

    /// Reserves memory for systems in so many unknowns.
    pub(crate) fn reserve(&mut self, unknowns: usize) {
        let words = 2 * words(unknowns);
        self.rows.reserve_exact((unknowns * words).saturating_sub(self.rows.len()));
        self.pivots.reserve_exact(unknowns.saturating_sub(self.pivots.len()));
        self.candidate.reserve_exact(words.saturating_sub(self.candidate.len()));
    }

    pub(crate) fn memory(&self) -> usize {
        8 * (self.rows.capacity() + self.candidate.capacity()) + 4 * self.pivots.capacity()
    }

    pub(crate) fn rank(&self) -> usize {
        self.pivots.len()
    }

    /// How many more independent equations it takes to solve for every unknown.
    pub(crate) fn deficit(&self) -> usize {
        self.unknowns - self.pivots.len()
    }

    /// The unknowns that the rows have been solved for, row after row.
    pub(crate) fn pivots(&self) -> &[u32] {
        &self.pivots
    }

    /// The coefficients of a row, and the combination of accepted equations it is.
    pub(crate) fn row(&self, row: usize) -> (&[u64], &[u64]) {
        self.rows[row * 2 * self.words..][..2 * self.words].split_at(self.words)
    }

    /// Adds an equation unless it follows from those accepted before; says whether it was added.
    ///
    /// There are no more equations accepted than unknowns, so their combinations fit as many words.
    pub(crate) fn add(&mut self, equation: &[u64]) -> bool {
        let rank = self.rank();
        self.candidate.clear();
        self.candidate.extend_from_slice(equation);
        self.candidate.resize(2 * self.words, 0);
        let rows = self.rows.chunks_exact(2 * self.words);
        for (row, &pivot) in rows.zip(&self.pivots) {
            // Reduced rows have no other's unknown, so the bits to go by are those that were given.
            add_if(&mut self.candidate, row, bit(equation, pivot));
        }
        let Some(pivot) = ones(&self.candidate[..self.words]).next() else {
            return false;
        };
        self.candidate[self.words + rank / WORD] |= 1 << (rank % WORD);
        for row in self.rows.chunks_exact_mut(2 * self.words) {
            let wanted = bit(row, pivot);
            add_if(row, &self.candidate, wanted);
        }
        self.rows.extend_from_slice(&self.candidate);
        self.pivots.push(pivot);
        true
    }
}

/// Words that so many bits take.
pub(crate) fn words(bits: usize) -> usize {
    bits.div_ceil(WORD)
}

/// The places of the ones, ascending.
#[inline]
pub(crate) fn ones(words: &[u64]) -> impl Iterator<Item = u32> {
    (0..).step_by(WORD).zip(words).flat_map(|(first, &word)| {
        let rest = core::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
        rest.take_while(|&word| word != 0).map(move |word| first + word.trailing_zeros())
    })
}

/// Whether bit `place` is set.
#[inline]
pub(crate) fn bit(words: &[u64], place: u32) -> bool {
    words[place as usize / WORD] >> (place as usize % WORD) & 1 == 1
}

/// `to += from` if `wanted`, without a branch: every other bit is set, at random.
#[inline]
fn add_if(to: &mut [u64], from: &[u64], wanted: bool) {
    let mask = u64::from(wanted).wrapping_neg();
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_found_in_order() {
        let places = |words: &[u64]| ones(words).collect::<Vec<_>>();
        assert!(places(&[]).is_empty() && places(&[0, 0]).is_empty());
        assert_eq!(places(&[1 | 1 << 63, 0, 1 << 5]), [0, 63, 133]);
        assert_eq!(places(&[u64::MAX, 1]), (0..=64).collect::<Vec<_>>());
    }

    #[test]
    fn rows_are_the_combinations_they_say_and_dependent_equations_are_refused() {
        for unknowns in [1_u32, 40, 64, 65, 130] {
            let mut system = Binary::default();
            system.reset(unknowns as usize);
            let mut state = u64::from(unknowns);
            let mut accepted: Vec<Vec<u64>> = Vec::new();
            while system.rank() < unknowns as usize {
                let mut equation: Vec<u64> = (0..unknowns.div_ceil(64))
                    .map(|_| {
                        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
                    })
                    .collect();
                if !unknowns.is_multiple_of(64) {
                    *equation.last_mut().expect("a word") &= (1 << (unknowns % 64)) - 1;
                }
                if let [first, second, ..] = &accepted[..] {
                    let sum: Vec<u64> = first.iter().zip(second).map(|(a, b)| a ^ b).collect();
                    assert!(!system.add(&sum));
                }
                if system.add(&equation) {
                    accepted.push(equation);
                }
                for (row, &pivot) in system.pivots().iter().enumerate() {
                    let (coefficients, combination) = system.row(row);
                    let mut sum = vec![0; coefficients.len()];
                    for (i, equation) in (0..).zip(&accepted) {
                        add_if(&mut sum, equation, bit(combination, i));
                    }
                    assert_eq!(sum, coefficients);
                    let ones = system.pivots().iter().filter(|&&other| bit(coefficients, other));
                    assert_eq!(ones.collect::<Vec<_>>(), [&pivot]);
                }
            }
            assert!(!system.add(&accepted[0]), "the rank is full");
        }
    }
}
