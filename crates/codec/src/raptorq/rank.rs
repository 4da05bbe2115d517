//! Rank of sets of encoding symbols: decoding on coefficients alone.

use wellspring_kernels::Kernels;

use super::block::BlockShape;
use super::code::Code;
use super::solver::{Rank, Solver};
use crate::Error;

/// Determines from symbol IDs whether a block could be decoded, without any symbol.
///
/// The answers are exactly those of a [`BlockDecoder`](super::BlockDecoder): both run the same
/// elimination. (Only where symbols are chosen so badly that a solution is given up, a decoder waits for
/// more of them than the study does.) Studies of the code's overhead and simulations without payload need no more.
///
/// # Examples
///
/// ```
/// use wellspring_codec::raptorq::{Code, RankStudy};
/// # fn main() -> Result<(), wellspring_codec::Error> {
/// let code = Code::new(100)?;
/// let mut study = RankStudy::default();
/// let repair_only: Vec<u32> = (100..210).collect();
/// let needed = study.symbols_needed(&code, 100, &repair_only)?;
/// assert!(needed.is_some_and(|n| n <= 103));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct RankStudy {
    solver: Solver,
    kernels: Kernels,
}

impl RankStudy {
    /// How many of `symbols` (distinct encoding symbol IDs, in order of arrival) a receiver of a
    /// block of `k` source symbols needs to decode it; `None` if all of them do not suffice.
    ///
    /// # Errors
    ///
    /// [`Error::CodeSymbols`] if `code` is not for blocks of `k` symbols, [`Error::SymbolId`] if
    /// an ID is 2^24 or more.
    pub fn symbols_needed(
        &mut self,
        code: &std::sync::Arc<Code>,
        k: u32,
        symbols: &[u32],
    ) -> Result<Option<usize>, Error> {
        let shape = BlockShape::new(code.clone(), k, 1)?;
        for &esi in symbols {
            shape.internal_id(esi)?;
        }
        let first = k as usize;
        if symbols.len() < first {
            return Ok(None);
        }
        let padding = k..code.extended_symbols();
        let internal = |esi: &u32| shape.internal(*esi);
        let received = symbols[..first].iter().map(internal);
        let constraints = code.constraints();
        let mut rank = self.solver.solve(self.kernels, constraints, padding.chain(received));
        let mut needed = first;
        while rank != Rank::Full && needed < symbols.len() {
            needed += 1;
            rank = match rank {
                Rank::Short(_) => {
                    self.solver.extend(self.kernels, constraints, internal(&symbols[needed - 1]))
                }
                _ => {
                    let padding = k..code.extended_symbols();
                    let received = symbols[..needed].iter().map(internal);
                    self.solver.solve(self.kernels, constraints, padding.chain(received))
                }
            };
        }
        Ok((rank == Rank::Full).then_some(needed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_symbols_alone_suffice() {
        for k in [1, 10, 11, 100, 333] {
            let code = Code::new(k).expect("in range");
            let symbols: Vec<u32> = (0..k).collect();
            let needed = RankStudy::default().symbols_needed(&code, k, &symbols);
            assert_eq!(needed, Ok(Some(k as usize)));
            let needed = RankStudy::default().symbols_needed(&code, k, &symbols[1..]);
            assert_eq!(needed, Ok(None));
        }
    }

    #[test]
    fn two_symbols_more_than_k_nearly_always_suffice() {
        let code = Code::new(20).expect("in range");
        let mut study = RankStudy::default();
        let mut state = 1u32;
        let mut extra = [0; 4];
        for _ in 0..20_000 {
            let symbols: Vec<u32> = (0..23)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state >> 8
                })
                .collect();
            let needed = study.symbols_needed(&code, 20, &symbols).expect("24-bit IDs");
            extra[needed.expect("three more than K") - 20] += 1;
        }
        // The law says 0.64 %, 0.003 % and less.
        assert!(extra[0] > 19_800 && extra[2] + extra[3] <= 4, "{extra:?}");
    }
}
