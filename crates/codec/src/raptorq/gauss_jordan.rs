//! Gauss-Jordan elimination over GF(256), one equation at a time.
//!
//! Equations are kept fully reduced, with the combination of accepted equations each of them is,
//! so that one more equation costs one row and the inverse is there as soon as the rank is full.

use wellspring_kernels::{Kernels, gf256};

use super::capacity;

/// Rows are worked on in pieces of so many bytes, the longest vector: a masked store is slow to read again.
const WHOLE: usize = 64;

/// A system of linear equations in a fixed number of unknowns.
#[derive(Debug, Default)]
pub(crate) struct GaussJordan {
    unknowns: usize,
    stride: usize,
    /// One row an accepted equation: coefficients, then the combination of equations it is.
    rows: Vec<u8>,
    /// The unknown each row has been solved for.
    pivots: Vec<u32>,
    candidate: Vec<u8>,
    factors: Vec<u8>,
}

impl GaussJordan {
    /// Forgets all equations.
    pub(crate) fn reset(&mut self, unknowns: usize) {
        self.unknowns = unknowns;
        self.stride = (2 * unknowns).next_multiple_of(WHOLE);
        self.rows.clear();
        self.pivots.clear();
    }

    /// Reserves memory for systems in so many unknowns.
    pub(crate) fn reserve(&mut self, unknowns: usize) {
        let stride = (2 * unknowns).next_multiple_of(WHOLE);
        capacity::reserve(&mut self.rows, unknowns * stride);
        capacity::reserve(&mut self.pivots, unknowns);
        capacity::reserve(&mut self.candidate, stride);
        capacity::reserve(&mut self.factors, unknowns);
    }

    pub(crate) fn memory(&self) -> usize {
        self.rows.capacity()
            + self.pivots.capacity() * 4
            + self.candidate.capacity()
            + self.factors.capacity()
    }

    pub(crate) fn rank(&self) -> usize {
        self.pivots.len()
    }

    pub(crate) fn deficit(&self) -> usize {
        self.unknowns - self.pivots.len()
    }

    /// Adds an equation unless it follows from those accepted before; says whether it was added.
    ///
    /// `equation` has one coefficient an unknown; any beyond are ignored.
    pub(crate) fn add(&mut self, kernels: Kernels, equation: &[u8]) -> bool {
        let (n, rank) = (self.unknowns, self.rank());
        if rank == n {
            return false;
        }
        self.candidate.clear();
        self.candidate.extend_from_slice(&equation[..n]);
        self.candidate.resize(self.stride, 0);
        self.candidate[n + rank] = 1;
        let live = (n + rank + 1).next_multiple_of(WHOLE);
        self.factors.clear();
        self.factors.extend(self.pivots.iter().map(|&pivot| equation[pivot as usize]));
        kernels.combine(&mut self.candidate[..live], &self.rows, self.stride, &self.factors);
        let Some(pivot) = self.candidate[..n].iter().position(|&c| c != 0) else {
            return false;
        };
        let scale = gf256::inverse(self.candidate[pivot]);
        if scale != 1 {
            kernels.scale(&mut self.candidate, scale);
        }
        self.factors.clear();
        self.factors.extend(self.rows.chunks_exact(self.stride).map(|row| row[pivot]));
        kernels.rank_one(&mut self.rows, self.stride, &self.factors, &self.candidate[..live]);
        self.rows.extend_from_slice(&self.candidate);
        self.pivots.push(u32::try_from(pivot).expect("unknowns are counted in 32 bits"));
        true
    }

    /// The inverse, once the rank is full: unknown `i` is the sum of `row(i)[j]` times the
    /// right-hand side of the `j`th accepted equation.
    pub(crate) fn inverse_into(&self, inverse: &mut Vec<u8>) {
        debug_assert_eq!(self.deficit(), 0);
        let n = self.unknowns;
        inverse.clear();
        inverse.resize(n * n, 0);
        for (row, &pivot) in self.rows.chunks_exact(self.stride).zip(&self.pivots) {
            inverse[pivot as usize * n..][..n].copy_from_slice(&row[n..2 * n]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_solves_and_dependent_equations_are_refused() {
        let kernels = Kernels::detect();
        let n = 40;
        let mut system = GaussJordan::default();
        system.reset(n);
        let mut state = 1u32;
        let mut accepted: Vec<Vec<u8>> = Vec::new();
        while system.deficit() > 0 {
            let mut row: Vec<u8> = (0..n)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // Two thirds zeros, so that some pivots are missing at first.
                    if state >> 30 > 1 { (state >> 16) as u8 } else { 0 }
                })
                .collect();
            if accepted.len() > 2 && accepted.len().is_multiple_of(3) {
                let twice: Vec<u8> = accepted[0].iter().map(|&c| gf256::mul(9, c)).collect();
                let mut sum = twice.clone();
                kernels.xor(&mut sum, &accepted[2]);
                assert!(!system.add(kernels, &sum));
            }
            if system.add(kernels, &row) {
                row.truncate(n);
                accepted.push(row);
            }
        }
        let mut inverse = Vec::new();
        system.inverse_into(&mut inverse);
        for i in 0..n {
            for j in 0..n {
                let combination = &inverse[i * n..][..n];
                let terms = combination.iter().zip(&accepted);
                let entry = terms.fold(0, |sum, (&c, row)| sum ^ gf256::mul(c, row[j]));
                assert_eq!(entry, u8::from(i == j));
            }
        }
    }
}
