//! CLNH by PCLMULQDQ, of one, two or four pairs at a time.

use core::arch::x86_64::*;

use super::line::{BLOCK, Hash, Line};

/// What this CPU has, slowest first.
pub(super) fn available() -> impl Iterator<Item = Hash> {
    let one = is_x86_feature_detected!("pclmulqdq");
    let two = one && is_x86_feature_detected!("vpclmulqdq") && is_x86_feature_detected!("avx2");
    let four = two && is_x86_feature_detected!("avx512f");
    let all: [(bool, Hash); 3] = [(one, hash_128), (two, hash_256), (four, hash_512)];
    all.into_iter().filter_map(|(has, hash)| has.then_some(hash))
}

/// Defines the hash over vectors of one width. The remaining arguments name the width's intrinsics.
macro_rules! hash {
    ($name:ident, $features:literal, $vector:ty, $zero:ident, $load:ident, $xor:ident, $product:ident, $fold:ident) => {
        /// See [`UniversalHash::hash`](super::UniversalHash::hash).
        ///
        /// # Safety
        ///
        /// The CPU has the instruction set. The key has at least a line for each block and one more.
        #[target_feature(enable = $features)]
        unsafe fn $name(key: &[Line], blocks: &[[u8; BLOCK]], last: &[u8; BLOCK]) -> u128 {
            const VECTORS: usize = BLOCK / size_of::<$vector>();
            let mut sums = [$zero(); VECTORS];
            for (block, line) in blocks.iter().chain([last]).zip(key) {
                let (block, line) =
                    (block.as_ptr().cast::<$vector>(), line.0.as_ptr().cast::<$vector>());
                for (vector, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: both have `VECTORS` vectors.
                    let pairs = unsafe { $xor($load(block.add(vector)), $load(line.add(vector))) };
                    *sum = $xor(*sum, $product::<1>(pairs, pairs));
                }
            }
            let mut sum = $zero();
            for part in sums {
                sum = $xor(sum, part);
            }
            $fold(sum)
        }
    };
}

hash!(
    hash_128,
    "pclmulqdq",
    __m128i,
    _mm_setzero_si128,
    _mm_loadu_si128,
    _mm_xor_si128,
    _mm_clmulepi64_si128,
    fold_128
);
hash!(
    hash_256,
    "pclmulqdq,vpclmulqdq,avx2",
    __m256i,
    _mm256_setzero_si256,
    _mm256_loadu_si256,
    _mm256_xor_si256,
    _mm256_clmulepi64_epi128,
    fold_256
);
hash!(
    hash_512,
    "pclmulqdq,vpclmulqdq,avx512f",
    __m512i,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_xor_si512,
    _mm512_clmulepi64_epi128,
    fold_512
);

#[inline]
fn fold_128(sum: __m128i) -> u128 {
    // SAFETY: SSE2 is part of x86-64; both types are sixteen bytes, little-endian.
    unsafe { core::mem::transmute(sum) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn fold_256(sum: __m256i) -> u128 {
    fold_128(_mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn fold_512(sum: __m512i) -> u128 {
    fold_256(_mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum)))
}
