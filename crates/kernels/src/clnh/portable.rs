//! CLNH by integer multiplications, on any CPU.

use super::line::{BLOCK, Line, padded};

/// See [`UniversalHash::hash`](super::UniversalHash::hash).
pub(super) fn hash(key: &[Line], message: &[u8]) -> u128 {
    let (blocks, rest) = message.as_chunks();
    let whole = blocks.iter().zip(key).map(|(block, line)| of_block(block, line));
    let sum = whole.fold(0, |sum, block| sum ^ block);
    if rest.is_empty() { sum } else { sum ^ of_block(&padded(rest), &key[blocks.len()]) }
}

fn of_block(block: &[u8; BLOCK], line: &Line) -> u128 {
    let (pairs, keys) = (block.as_chunks::<16>().0, line.0.as_chunks::<16>().0);
    let products = pairs.iter().zip(keys).map(|(pair, key)| {
        let pair = u128::from_le_bytes(*pair) ^ u128::from_le_bytes(*key);
        product(pair as u64, (pair >> 64) as u64)
    });
    products.fold(0, |sum, product| sum ^ product)
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
