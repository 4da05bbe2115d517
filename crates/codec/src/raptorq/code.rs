//! Codes: what is computed once for a number of source symbols and used for all blocks of that size.

use std::sync::{Arc, OnceLock};

use wellspring_kernels::Kernels;

use super::constraints::Constraints;
use super::inverse::{Inverse, InverseScratch};
use super::plan::Plan;
use super::systematic::TABLE;
use crate::Error;

/// The code for one K' of RFC 6330's table: everything about it that does not depend on the
/// symbols.
///
/// A code serves all blocks whose number of source symbols is extended to its K', in encoders and
/// decoders of any number of threads: share it by [`Arc`]. The encoding schedule is computed at
/// first use.
#[derive(Debug)]
pub struct Code {
    constraints: Constraints,
    plan: OnceLock<Plan>,
    inverse: OnceLock<Option<Inverse>>,
}

/// The largest inverse a code keeps \[bytes\]: enough for blocks of nearly 2,000 symbols.
const MAX_INVERSE: usize = 4 << 20;

impl Code {
    /// The code for source blocks of `k` symbols.
    ///
    /// # Errors
    ///
    /// [`Error::SourceSymbols`] if `k` is zero or more than 56,403 (RFC 6330 §5.1.2).
    pub fn new(k: u32) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            constraints: Constraints::new(k)?,
            plan: OnceLock::new(),
            inverse: OnceLock::new(),
        }))
    }

    /// K', the number of source symbols after extension by padding symbols (RFC 6330 §5.3.1).
    #[must_use]
    pub fn extended_symbols(&self) -> u32 {
        self.constraints.params.k_ext
    }

    /// L, the number of intermediate symbols (RFC 6330 §5.3.3.3).
    #[must_use]
    pub fn intermediate_symbols(&self) -> u32 {
        self.constraints.params.l
    }

    /// The smallest number of source symbols whose blocks use this code; the largest is K'.
    #[must_use]
    pub fn least_symbols(&self) -> u32 {
        let row = TABLE.partition_point(|row| row.0 < self.constraints.params.k_ext);
        row.checked_sub(1).map_or(1, |before| TABLE[before].0 + 1)
    }

    /// Whether blocks of `k` source symbols use this code.
    #[must_use]
    pub fn serves(&self, k: u32) -> bool {
        (self.least_symbols()..=self.extended_symbols()).contains(&k)
    }

    /// Memory the code takes by now \[bytes\].
    #[must_use]
    pub fn memory(&self) -> usize {
        let inverse = self.inverse.get().and_then(Option::as_ref).map_or(0, Inverse::memory);
        size_of::<Self>()
            + self.constraints.memory()
            + self.plan.get().map_or(0, Plan::memory)
            + inverse
    }

    pub(crate) fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    /// What computes symbols from the K' source symbols in external rows `0..K'`.
    pub(crate) fn plan(&self, kernels: Kernels) -> &Plan {
        self.plan.get_or_init(|| Plan::new(kernels, &self.constraints))
    }

    /// The inverse, unless it is too large to keep.
    pub(crate) fn inverse(&self, kernels: Kernels) -> Option<&Inverse> {
        let make = || {
            if !self.has_inverse() {
                return None;
            }
            let mut inverse = Inverse::default();
            let columns: Vec<u32> = (0..self.constraints.params.k_ext).collect();
            let mut scratch = InverseScratch::default();
            let plan = self.plan(kernels);
            inverse.make(kernels, &self.constraints, plan, columns.into_iter(), &mut scratch);
            Some(inverse)
        };
        self.inverse.get_or_init(make).as_ref()
    }

    /// Whether the inverse is small enough to keep.
    pub(crate) fn has_inverse(&self) -> bool {
        Inverse::size(&self.constraints) <= MAX_INVERSE
    }
}
