//! Blocks of messages and of keys.

/// Bytes that are read together.
pub(super) const BLOCK: usize = 64;

/// A block of a key, on a cache line of its own.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [u8; BLOCK]);

/// Hashes a message, with a key of at least as many blocks.
pub(super) type Hash = unsafe fn(&[Line], &[u8]) -> u128;

/// The last bytes of a message, filled up with zeros.
pub(super) fn padded(rest: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block
}
