//! Bytes that are sent for a trial of a path.

use crate::store::tree::listing::SampleSize;

/// The bytes of a sample: nothing compresses them on the way, and they are the same at each server.
pub(super) fn bytes(size: SampleSize) -> Vec<u8> {
    let mut bytes = vec![0; size.len()];
    blake3::Hasher::new_derive_key("wellspring 2026 bytes of a trial")
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}
