//! Overhead study: decoding on neighbours alone.

use super::code::Code;
use super::description::description_len;
use super::structure::{Added, Method, Structure};

/// What a receiver had received when its block was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Source symbols of the block.
    pub source_symbols: u32,
    /// Encoding symbols received.
    pub symbols: u32,
    /// Degrees and indices carried with them \[bytes\].
    pub description: u64,
}

impl Needed {
    /// Symbols received beyond k, as a fraction of k.
    #[must_use]
    pub fn symbol_overhead(&self) -> f64 {
        f64::from(self.symbols) / f64::from(self.source_symbols) - 1.0
    }

    /// LTTP's bandwidth overhead (§V-D): bytes received beyond the block's, degrees and indices
    /// among them, as a fraction of the block.
    #[must_use]
    pub fn byte_overhead(&self, symbol_size: usize) -> f64 {
        let block = f64::from(self.source_symbols) * symbol_size as f64;
        let received = f64::from(self.symbols) * symbol_size as f64 + self.description as f64;
        received / block - 1.0
    }
}

/// Computes from symbol IDs when a block would be complete, without any symbol.
///
/// The answers are exactly those of a [`Decoder`](super::Decoder): both follow the same structure.
///
/// # Examples
///
/// ```
/// use wellspring_codec::lt::{Code, Method, OverheadStudy, RobustSoliton};
///
/// let code = Code::new(RobustSoliton::new(256, 0.2, 0.7)?, 1);
/// let mut study = OverheadStudy::default();
/// let mut needed = |method| study.needed(&code, method, 0..10_000).map(|needed| needed.symbols);
/// assert!(needed(Method::Elimination) <= needed(Method::Improved));
/// assert!(needed(Method::Improved) <= needed(Method::Rounds));
/// # Ok::<(), wellspring_codec::lt::LtError>(())
/// ```
#[derive(Debug)]
pub struct OverheadStudy {
    structure: Structure,
    neighbours: Vec<u32>,
}

impl Default for OverheadStudy {
    fn default() -> Self {
        Self { structure: Structure::new(1, Method::Improved), neighbours: Vec::new() }
    }
}

impl OverheadStudy {
    /// What a receiver of the encoding symbols `ids`, in order of arrival, needs to complete a
    /// block; `None` if they do not suffice.
    pub fn needed(
        &mut self,
        code: &Code,
        method: Method,
        ids: impl IntoIterator<Item = u32>,
    ) -> Option<Needed> {
        let k = code.source_symbols();
        self.structure.reset(k, method);
        // Whoever studies bad parameters wants to know how bad.
        self.structure.set_max_symbols(u32::MAX);
        let mut needed = Needed { source_symbols: k, symbols: 0, description: 0 };
        for id in ids {
            code.neighbours(id, &mut self.neighbours);
            needed.symbols += 1;
            needed.description += description_len(k, self.neighbours.len()) as u64;
            let added = self.structure.add(&self.neighbours);
            if added == Added::New && self.structure.is_complete() {
                return Some(needed);
            }
        }
        None
    }
}
