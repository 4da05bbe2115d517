//! Bytes of objects for tests.

use wellspring_core::Seed;

/// So many bytes that look random, the same for the same seed.
pub fn random_bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut stream = Seed(seed).stream("object");
    let mut bytes = vec![0; len];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&stream.next_u64().to_le_bytes()[..chunk.len()]);
    }
    bytes
}
