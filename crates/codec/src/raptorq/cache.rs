//! A bounded store of codes.

use std::sync::{Arc, Mutex, PoisonError};

use super::code::Code;
use super::params::Parameters;
use crate::Error;

/// Keeps the codes of recently used block sizes, up to a bound on their memory.
///
/// Making a code costs about as much as encoding a block; using one again costs nothing. The lock
/// is held for a look-up only: encoders and decoders hold their code by [`Arc`] and never come back
/// here while they work, and code is made outside of the lock. A code that is evicted lives on in
/// those that use it.
///
/// Codes grow after they are handed out, with the first encoding (about 200 bytes a source symbol)
/// and, for blocks of less than about 2,000 symbols, with the inverse (L times K' bytes: 16 KB for
/// K = 100, 1.1 MB for K = 1000). The bound is applied to what they have grown to at each look-up:
/// the least recently used codes go first, and the one asked for stays even if it alone is larger.
///
/// # Examples
///
/// ```
/// use wellspring_codec::raptorq::CodeCache;
/// # fn main() -> Result<(), wellspring_codec::Error> {
/// let cache = CodeCache::new(16 << 20);
/// let code = cache.code(100)?;
/// assert!(std::sync::Arc::ptr_eq(&code, &cache.code(101)?)); // both have K' = 101
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CodeCache {
    max_memory: usize,
    /// Most recently used last.
    codes: Mutex<Vec<Arc<Code>>>,
}

impl CodeCache {
    /// A cache that holds codes of at most `max_memory` bytes together.
    #[must_use]
    pub const fn new(max_memory: usize) -> Self {
        Self { max_memory, codes: Mutex::new(Vec::new()) }
    }

    /// The code for source blocks of `k` symbols.
    ///
    /// # Errors
    ///
    /// [`Error::SourceSymbols`] if `k` is zero or more than 56,403 (RFC 6330 §5.1.2).
    pub fn code(&self, k: u32) -> Result<Arc<Code>, Error> {
        let k_ext = Parameters::for_source_symbols(k)?.k_ext;
        if let Some(code) = self.find(&mut self.lock(), k_ext) {
            return Ok(code);
        }
        let made = Code::new(k)?;
        let mut codes = self.lock();
        // Another thread may have made it meanwhile; then that one is shared by all.
        Ok(self.find(&mut codes, k_ext).unwrap_or_else(|| {
            codes.push(made.clone());
            self.evict(&mut codes);
            made
        }))
    }

    /// Memory the codes take by now \[bytes\].
    #[must_use]
    pub fn memory(&self) -> usize {
        self.lock().iter().map(|code| code.memory()).sum()
    }

    /// Number of codes held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no code is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Drops all codes.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Code>>> {
        // No panic can come between the steps of a change.
        self.codes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The code for K', which becomes the most recently used.
    fn find(&self, codes: &mut Vec<Arc<Code>>, k_ext: u32) -> Option<Arc<Code>> {
        let found = codes.iter().position(|code| code.extended_symbols() == k_ext)?;
        codes[found..].rotate_left(1);
        let code = codes.last().cloned();
        self.evict(codes);
        code
    }

    /// Drops the least recently used codes until the bound holds.
    fn evict(&self, codes: &mut Vec<Arc<Code>>) {
        let mut memory: usize = codes.iter().map(|code| code.memory()).sum();
        while memory > self.max_memory && codes.len() > 1 {
            // It may have grown since it was counted.
            memory = memory.saturating_sub(codes.remove(0).memory());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raptorq::BlockEncoder;

    fn grow(code: &Arc<Code>, k: u32) {
        let source = vec![1; k as usize];
        let mut encoder = BlockEncoder::new(code.clone(), k, 1).expect("the code is for K");
        let mut symbol = [0];
        encoder.encode(&source, k, &mut symbol).expect("a valid repair symbol");
    }

    #[test]
    fn codes_are_made_once_while_there_is_room() {
        let cache = CodeCache::new(1 << 20);
        let first = cache.code(100).expect("in range");
        assert!(Arc::ptr_eq(&first, &cache.code(98).expect("in range")));
        assert!(!Arc::ptr_eq(&first, &cache.code(102).expect("in range")));
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn the_least_recently_used_go_when_codes_have_grown() {
        let cache = CodeCache::new(400_000);
        for k in [100, 200, 300] {
            grow(&cache.code(k).expect("in range"), k);
        }
        let kept = cache.code(100).expect("in range");
        grow(&cache.code(400).expect("in range"), 400);
        assert!(Arc::ptr_eq(&kept, &cache.code(100).expect("in range")));
        assert!(cache.memory() <= 400_000, "{}", cache.memory());
        assert!(cache.len() < 4);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "threads are what the test is about")]
    fn threads_that_ask_at_once_share_one_code() {
        const SIZES: [u32; 4] = [10, 20, 30, 40];
        let cache = CodeCache::new(1 << 20);
        let warm = SIZES.map(|k| cache.code(k).expect("in range"));
        // No thread may find a code gone that another has just taken up, nor replace it.
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        for (k, warm) in SIZES.into_iter().zip(&warm) {
                            assert!(Arc::ptr_eq(warm, &cache.code(k).expect("in range")), "K {k}");
                        }
                    }
                });
            }
        });
        // Nor may one of several that are made at once win over another.
        for k in 100..140 {
            cache.clear();
            let start = std::sync::Barrier::new(4);
            let get = || {
                start.wait();
                cache.code(k).expect("in range")
            };
            let codes: Vec<Arc<Code>> = std::thread::scope(|scope| {
                let threads = [(); 4].map(|()| scope.spawn(get));
                threads.map(|thread| thread.join().expect("no panic")).into()
            });
            assert!(codes.iter().all(|code| Arc::ptr_eq(code, &codes[0])), "K {k}");
            assert_eq!(cache.len(), 1);
        }
    }

    // The documented figures are those of 64-bit pointers.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn what_a_code_costs_is_as_documented() {
        for (k, documented) in
            [(10, 5_000), (100, 33_000), (1000, 1_250_000), (1979, 4_400_000), (10_000, 1_700_000)]
        {
            let code = Code::new(k).expect("in range");
            let kernels = wellspring_kernels::Kernels::detect();
            code.plan(kernels);
            code.inverse(kernels);
            let memory = code.memory();
            // Where `usize` has 32 bits, the fields of small codes take less.
            let least = documented - documented / if usize::BITS < 64 { 8 } else { 20 };
            assert!(
                (least..=documented + documented / 20).contains(&memory),
                "K {k}: {memory} bytes"
            );
        }
    }
}
