//! CLNH by integer multiplications, on any CPU.

use super::line::{BLOCK, Line};

/// See [`UniversalHash::hash`](super::UniversalHash::hash).
pub(super) fn hash(key: &[Line], blocks: &[[u8; BLOCK]], last: &[u8; BLOCK]) -> u128 {
    let mut sum = 0;
    for (block, line) in blocks.iter().chain([last]).zip(key) {
        let (pairs, keys) = (block.as_chunks::<16>().0, line.0.as_chunks::<16>().0);
        for (pair, key) in pairs.iter().zip(keys) {
            let pair = u128::from_le_bytes(*pair) ^ u128::from_le_bytes(*key);
            sum ^= product(pair as u64, (pair >> 64) as u64);
        }
    }
    sum
}

/// The product of two polynomials over GF(2).
fn product(a: u64, b: u64) -> u128 {
    let low = low_half(a, b);
    // The high half is the low one of the mirror images.
    let high = low_half(a.reverse_bits(), b.reverse_bits()).reverse_bits() >> 1;
    u128::from(high) << 64 | u128::from(low)
}

/// The low half of a product. Of each factor every fourth bit is taken at a time: the integer product then has room for
/// the carries between the bits that count, and only one of them is kept.
fn low_half(a: u64, b: u64) -> u64 {
    const EVERY_FOURTH: u64 = 0x1111_1111_1111_1111;
    let every = |from: u32| EVERY_FOURTH << from;
    let mut product = 0;
    for at in 0..4 {
        let terms = (0..4).map(|i| (a & every(i)).wrapping_mul(b & every((at + 4 - i) % 4)));
        product |= terms.fold(0, |sum, term| sum ^ term) & every(at);
    }
    product
}
