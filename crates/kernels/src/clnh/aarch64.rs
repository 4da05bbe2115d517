//! CLNH by PMULL, of one pair at a time.

use core::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use super::line::{BLOCK, Hash, Line, padded};

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
/// The CPU has the instruction set.
#[target_feature(enable = "neon,aes")]
unsafe fn hash(key: &[Line], message: &[u8]) -> u128 {
    // Sums of their own: products take longer than what is between them.
    let mut sums = [0_u128; 4];
    let (blocks, rest) = message.as_chunks::<BLOCK>();
    for (block, line) in blocks.iter().zip(key) {
        add(&mut sums, block, line);
    }
    if !rest.is_empty() {
        add(&mut sums, &padded(rest), &key[blocks.len()]);
    }
    sums.into_iter().fold(0, |all, sum| all ^ sum)
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn add(sums: &mut [u128; 4], block: &[u8; BLOCK], line: &Line) {
    let (pairs, keys) = (block.as_chunks::<16>().0, line.0.as_chunks::<16>().0);
    for ((pair, key), sum) in pairs.iter().zip(keys).zip(sums) {
        let pair = u128::from_le_bytes(*pair) ^ u128::from_le_bytes(*key);
        *sum ^= vmull_p64(pair as u64, (pair >> 64) as u64);
    }
}
