//! CLNH, a universal hash by carry-less products (Lemire and Kaser, 2015), for keyed names of packets.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod line;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use line::{BLOCK, Hash, Line};

/// Blocks of a key.
const BLOCKS: usize = UniversalHash::LONGEST / BLOCK;

/// A key of CLNH.
///
/// A message is pairs of 64-bit words, m1 and m2, each with words of its own in the key, k1 and k2. Its hash is the sum
/// over all pairs of (m1 + k1) (m2 + k2), polynomials over GF(2), in blocks of 64 bytes, the last one filled up with
/// zeros. Two messages of as many blocks have hashes that differ by a given value with a chance of at most 2^-64 over keys,
/// unless they differ in such zeros alone. Of another number of blocks, the chance is below 2^-62: the last pair that one
/// alone has is a product of two independent words, which is zero with 2^-63, and few products give any other value.
///
/// That is all that it promises: whoever sees hashes learns the key. They are to be given, together with the message's
/// length, to a pseudorandom function.
#[derive(Clone)]
pub struct UniversalHash {
    key: Box<[Line; BLOCKS]>,
    hash: Hash,
}

impl UniversalHash {
    /// The longest message of one hash \[bytes\].
    pub const LONGEST: usize = 2_048;
    /// Bytes that a key is made of.
    pub const KEY: usize = BLOCKS * BLOCK;

    /// The hash with the key of these bytes, which should be as good as random ones and are for this alone.
    #[must_use]
    pub fn new(bytes: &[u8; Self::KEY]) -> Self {
        let (blocks, _) = bytes.as_chunks();
        let key = Box::new(core::array::from_fn(|block| Line(blocks[block])));
        UniversalHash { key, hash: detect() }
    }

    /// The hash of a message.
    ///
    /// # Panics
    ///
    /// If the message is longer than [`UniversalHash::LONGEST`].
    #[must_use]
    #[inline]
    pub fn hash(&self, message: &[u8]) -> u128 {
        assert!(message.len() <= Self::LONGEST, "a message longer than the key");
        // SAFETY: `detect` chose what this CPU has; the key is as long as the longest message.
        unsafe { (self.hash)(&self.key[..], message) }
    }
}

impl core::fmt::Debug for UniversalHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("UniversalHash")
    }
}

/// The fastest that this CPU has.
fn detect() -> Hash {
    available().last().unwrap_or(portable::hash)
}

/// All that this CPU has, slowest first.
fn available() -> impl Iterator<Item = Hash> {
    let portable: Hash = portable::hash;
    #[cfg(target_arch = "x86_64")]
    let fast = x86_64::available();
    #[cfg(target_arch = "aarch64")]
    let fast = aarch64::available();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let fast = core::iter::empty();
    core::iter::once(portable).chain(fast)
}
