//! CLNH against products bit by bit.

use super::*;

/// Bytes that differ from place to place.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |at: u64| (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    (0..len as u64).map(|at| (word(at) ^ word(at) >> 32) as u8).collect()
}

fn key() -> [u8; UniversalHash::KEY] {
    pattern(UniversalHash::KEY, 99).try_into().expect("as long as a key")
}

fn by_bits(key: &[u8], message: &[u8]) -> u128 {
    let padded = message.len().next_multiple_of(BLOCK);
    let mut message = message.to_vec();
    message.resize(padded, 0);
    let word =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let mut sum = 0;
    for at in (0..padded).step_by(16) {
        let a = word(&message, at) ^ word(key, at);
        let b = word(&message, at + 8) ^ word(key, at + 8);
        sum ^=
            (0..64).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u128::from(a) << bit);
    }
    sum
}

#[test]
fn every_instruction_set_agrees_with_products_bit_by_bit() {
    let key = key();
    for hash in available() {
        let universal = UniversalHash { hash, ..UniversalHash::new(&key) };
        for len in (0..300).chain([1_400, 1_500, 2_047, 2_048]) {
            let message = pattern(len + 1, len as u64);
            assert_eq!(universal.hash(&message[1..]), by_bits(&key, &message[1..]), "{len} bytes");
        }
    }
}

#[test]
fn every_bit_of_a_message_counts() {
    let universal = UniversalHash::new(&key());
    let mut message = pattern(150, 5);
    let before = universal.hash(&message);
    for bit in 0..8 * message.len() {
        message[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(universal.hash(&message), before, "bit {bit}");
        message[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
#[should_panic(expected = "longer than the key")]
fn a_message_longer_than_the_key_is_refused() {
    let _ = UniversalHash::new(&key()).hash(&[0; UniversalHash::LONGEST + 1]);
}
