//! Blocks of messages and of keys.

/// Bytes that are read together.
pub(super) const BLOCK: usize = 64;

/// A block of a key, on a cache line of its own.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [u8; BLOCK]);

/// Hashes whole blocks and the last one, with a key of one more block than those.
pub(super) type Hash = unsafe fn(&[Line], &[[u8; BLOCK]], &[u8; BLOCK]) -> u128;
