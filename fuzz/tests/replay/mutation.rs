//! Inputs made of seeds: bytes changed, cut out, doubled and taken from other seeds.

use wellspring_core::RandomStream;

/// Values at which lengths and counts go wrong.
const EDGES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
/// Changes of one input, at most.
const MOST_CHANGES: u64 = 4;
/// An input grows no longer, as libFuzzer's do not unless it is told otherwise.
const LONGEST: usize = 4_096;

/// One input of a seed; `other` lends bytes.
pub fn mutated(seed: &[u8], other: &[u8], random: &mut RandomStream) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(MOST_CHANGES) {
        change(&mut bytes, other, random);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut RandomStream) {
    let at = below(random, bytes.len());
    let end = at + below(random, bytes.len() - at);
    match random.below(7) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => bytes.extend_from_within(at..end),
        3 => bytes.extend_from_slice(&other[below(random, other.len())..]),
        4 => replace(bytes, at, |_| EDGES[below(random, EDGES.len())]),
        5 => replace(bytes, at, |byte| byte ^ 1 << random.below(8)),
        _ => replace(bytes, at, |byte| byte.wrapping_add(random.next_u64().to_le_bytes()[0])),
    }
}

fn replace(bytes: &mut [u8], at: usize, to: impl FnOnce(u8) -> u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = to(*byte);
    }
}

/// A number below a bound, and 0 below 0.
fn below(random: &mut RandomStream, bound: usize) -> usize {
    random.below(bound as u64) as usize
}
