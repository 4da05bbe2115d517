//! CLNH by PCLMULQDQ, of one, two or four pairs at a time.

use core::arch::x86_64::*;

use super::line::{BLOCK, Hash, Line, padded};

/// What this CPU has, slowest first.
pub(super) fn available() -> impl Iterator<Item = Hash> {
    let one = is_x86_feature_detected!("pclmulqdq");
    let two = one && is_x86_feature_detected!("vpclmulqdq") && is_x86_feature_detected!("avx2");
    let four = two && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    let all: [(bool, Hash); 3] = [(one, hash_128), (two, hash_256), (four, hash_512)];
    all.into_iter().filter_map(|(has, hash)| has.then_some(hash))
}

/// Defines the hash over vectors of one width. The remaining arguments name the width's intrinsics.
macro_rules! hash {
    (
        $name:ident, $features:literal, $vector:ty, $zero:ident, $load:ident, $xor:ident, $product:ident,
        $rest:ident, $fold:ident
    ) => {
        /// See [`UniversalHash::hash`](super::UniversalHash::hash).
        ///
        /// # Safety
        ///
        /// The CPU has the instruction set.
        #[target_feature(enable = $features)]
        unsafe fn $name(key: &[Line], message: &[u8]) -> u128 {
            type Block = [$vector; BLOCK / size_of::<$vector>()];
            #[inline]
            #[target_feature(enable = $features)]
            fn load(block: &[u8; BLOCK]) -> Block {
                let from = block.as_ptr().cast::<$vector>();
                // SAFETY: the vectors are the block's.
                core::array::from_fn(|at| unsafe { $load(from.add(at)) })
            }
            #[inline]
            #[target_feature(enable = $features)]
            fn add(sums: &mut Block, block: Block, line: &Line) {
                for ((sum, pairs), key) in sums.iter_mut().zip(block).zip(load(&line.0)) {
                    let pairs = $xor(pairs, key);
                    *sum = $xor(*sum, $product::<1>(pairs, pairs));
                }
            }
            let mut sums: Block = [$zero(); _];
            let (blocks, rest) = message.as_chunks();
            for (block, line) in blocks.iter().zip(key) {
                add(&mut sums, load(block), line);
            }
            if !rest.is_empty() {
                add(&mut sums, $rest!(load, rest), &key[blocks.len()]);
            }
            let mut sum = $zero();
            for part in sums {
                sum = $xor(sum, part);
            }
            $fold(sum)
        }
    };
}

macro_rules! by_copy {
    ($load:ident, $rest:ident) => {
        $load(&padded($rest))
    };
}

/// Without a copy, which would be read before all of it is written.
macro_rules! by_mask {
    ($load:ident, $rest:ident) => {
        // SAFETY: lanes beyond the bytes, fewer than 64, are not read.
        [unsafe { _mm512_maskz_loadu_epi8((1 << $rest.len()) - 1, $rest.as_ptr().cast()) }]
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
    by_copy,
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
    by_copy,
    fold_256
);
hash!(
    hash_512,
    "pclmulqdq,vpclmulqdq,avx512f,avx512bw",
    __m512i,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_xor_si512,
    _mm512_clmulepi64_epi128,
    by_mask,
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
