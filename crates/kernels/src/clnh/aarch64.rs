//! CLNH by PMULL, of one pair at a time.

use core::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use super::line::{BLOCK, Hash, Line};

/// What this CPU has.
pub(super) fn available() -> impl Iterator<Item = Hash> {
    let hash: Hash = hash;
    let has = is_aarch64_feature_detected!("aes") && is_aarch64_feature_detected!("pmull");
    has.then_some(hash).into_iter()
}

/// See [`UniversalHash::hash`](super::UniversalHash::hash).
///
/// # Safety
///
/// The CPU has the instruction set. The key has at least a line for each block and one more.
#[target_feature(enable = "neon,aes")]
unsafe fn hash(key: &[Line], blocks: &[[u8; BLOCK]], last: &[u8; BLOCK]) -> u128 {
    // Sums of their own: products take longer than what is between them.
    let mut sums = [0_u128; 4];
    for (block, line) in blocks.iter().chain([last]).zip(key) {
        let (pairs, keys) = (block.as_chunks::<16>().0, line.0.as_chunks::<16>().0);
        for ((pair, key), sum) in pairs.iter().zip(keys).zip(&mut sums) {
            let pair = u128::from_le_bytes(*pair) ^ u128::from_le_bytes(*key);
            *sum ^= vmull_p64(pair as u64, (pair >> 64) as u64);
        }
    }
    sums.into_iter().fold(0, |all, sum| all ^ sum)
}
