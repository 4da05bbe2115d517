//! Encoding schedule of a code.

use wellspring_kernels::{Isa, Kernels, Program};

use super::constraints::Constraints;
use super::outputs::Eliminated;
use super::schedule::Schedule;
use super::solver::{Rank, Solver};

/// The encoding schedule of a code.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Forward elimination over the K' source symbols in external rows `0..K'`.
    pub(crate) forward: Program,
    /// Back-substitution: all intermediate symbols.
    pub(crate) backward: Program,
    pub(crate) schedule: Schedule,
    bits: Vec<u64>,
    words: usize,
}

impl Plan {
    /// The encoding schedule for source symbols in external rows `0..K'`.
    pub(crate) fn new(kernels: Kernels, constraints: &Constraints) -> Self {
        let mut solver = Solver::default();
        let source = 0..constraints.params.k_ext;
        let rank = solver.solve(kernels, constraints, source);
        // The systematic index J(K') was chosen for exactly this (RFC 6330 §5.6).
        assert_eq!(rank, Rank::Full, "source symbols determine the intermediate symbols");
        let (mut forward, mut backward) = (Program::new(), Program::new());
        let mut schedule = Schedule::default();
        schedule.forward_elimination(&mut forward, kernels, &mut solver, constraints, Some);
        schedule.back_substitution(&mut backward, &solver, &constraints.params, Some);
        forward.shrink_to_fit();
        backward.shrink_to_fit();
        schedule.shrink_to_fit();
        let (bits, words) = solver.take_bits();
        Plan { forward, backward, schedule, bits, words }
    }

    pub(crate) fn memory(&self) -> usize {
        self.forward.memory()
            + self.backward.memory()
            + self.schedule.memory()
            + 8 * self.bits.capacity()
    }

    /// The state after forward elimination.
    pub(crate) fn eliminated<'a>(
        &'a self,
        kernels: Kernels,
        constraints: &'a Constraints,
    ) -> Eliminated<'a> {
        let (bits, words) = (&self.bits, self.words);
        Eliminated { kernels, constraints, schedule: &self.schedule, bits, words }
    }

    /// Work rows that both programs use.
    pub(crate) fn work_rows(&self) -> usize {
        self.backward.work_rows().max(self.forward.work_rows())
    }
}

/// Columns processed at a time \[bytes\]: as many as a sum holds in eight registers, if so many of the work
/// rows fit the backward cache.
pub(crate) fn strip_len(isa: Isa, work_rows: usize) -> usize {
    const SECOND_CACHE: usize = 1280 << 10;
    if isa == Isa::Avx512 && work_rows * 512 <= SECOND_CACHE { 512 } else { 256 }
}
