//! Gauss-Jordan elimination over GF(2), one equation at a time.
//!
//! Rows are bits: coefficients, then the combination of accepted equations that the row is. They are
//! kept fully reduced, as those of [`Elimination`](super::Elimination).

use crate::raptorq::room;

/// A system of binary linear equations in a fixed number of unknowns.
#[derive(Debug, Default)]
pub(super) struct Binary {
    /// Words of a row's coefficients, and of its combination.
    words: usize,
    rows: Vec<u64>,
    /// The unknown each row has been solved for.
    pivots: Vec<u32>,
    candidate: Vec<u64>,
}

impl Binary {
    /// Forgets all equations.
    pub(super) fn reset(&mut self, unknowns: usize) {
        self.words = unknowns.div_ceil(64);
        self.rows.clear();
        self.pivots.clear();
    }

    /// Makes room for systems in so many unknowns.
    pub(super) fn reserve(&mut self, unknowns: usize) {
        let words = 2 * unknowns.div_ceil(64);
        room::reserve(&mut self.rows, unknowns * words);
        room::reserve(&mut self.pivots, unknowns);
        room::reserve(&mut self.candidate, words);
    }

    pub(super) fn memory(&self) -> usize {
        8 * (self.rows.capacity() + self.candidate.capacity()) + 4 * self.pivots.capacity()
    }

    pub(super) fn rank(&self) -> usize {
        self.pivots.len()
    }

    /// The unknowns that the rows have been solved for, row after row.
    pub(super) fn pivots(&self) -> &[u32] {
        &self.pivots
    }

    /// The coefficients of a row, and the combination of accepted equations it is.
    pub(super) fn row(&self, row: usize) -> (&[u64], &[u64]) {
        self.rows[row * 2 * self.words..][..2 * self.words].split_at(self.words)
    }

    /// Adds an equation unless it follows from those accepted before; says whether it was added.
    ///
    /// There are no more equations accepted than unknowns, so their combinations fit as many words.
    pub(super) fn add(&mut self, equation: &[u64]) -> bool {
        let rank = self.rank();
        self.candidate.clear();
        self.candidate.extend_from_slice(equation);
        self.candidate.resize(2 * self.words, 0);
        let rows = self.rows.chunks_exact(2 * self.words);
        for (row, &pivot) in rows.zip(&self.pivots) {
            // Reduced rows have no other's unknown, so the bits to go by are those that were given.
            add_if(&mut self.candidate, row, bit(equation, pivot));
        }
        let Some(pivot) = first_bit(&self.candidate[..self.words]) else {
            return false;
        };
        self.candidate[self.words + rank / 64] |= 1 << (rank % 64);
        for row in self.rows.chunks_exact_mut(2 * self.words) {
            let wanted = bit(row, pivot);
            add_if(row, &self.candidate, wanted);
        }
        self.rows.extend_from_slice(&self.candidate);
        self.pivots.push(pivot);
        true
    }
}

/// Whether bit `place` is set.
#[inline]
pub(super) fn bit(words: &[u64], place: u32) -> bool {
    words[place as usize / 64] >> (place % 64) & 1 == 1
}

fn first_bit(words: &[u64]) -> Option<u32> {
    let word = words.iter().position(|&word| word != 0)?;
    Some(u32::try_from(64 * word).ok()? + words[word].trailing_zeros())
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
