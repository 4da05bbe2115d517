//! The objects that are put, and the names that they are put under.

use wellspring_core::Seed;
use wellspring_store::{Digest, Node, hash_node};

/// Length of a block: a node of the hash tree \[bytes\].
pub(crate) const BLOCK: usize = 1_024;

/// Names, the first of them the one that most sessions want.
pub(crate) const NAMES: [&str; 3] = ["a", "b", "folder/c"];

/// Lengths; two are of one length, and each has a block of zeros if it is long enough \[bytes\].
const LENS: [usize; 5] = [700, 5_000, 5_000, 9_300, 0];

/// An object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub bytes: Vec<u8>,
    pub digest: Digest,
}

impl Object {
    /// All of them, the same in each run.
    pub(crate) fn all() -> Vec<Object> {
        Object::of_lens(&LENS)
    }

    /// Objects of these lengths, the same in each run \[bytes\].
    pub(crate) fn of_lens(lens: &[usize]) -> Vec<Object> {
        let object = |(number, len): (usize, usize)| {
            let mut stream = Seed(number as u64).stream("object");
            let mut bytes: Vec<u8> = (0..len).map(|_| stream.next_u64() as u8).collect();
            if let Some(block) = bytes.get_mut(2 * BLOCK..3 * BLOCK) {
                block.fill(0);
            }
            let digest = Digest(*blake3::hash(&bytes).as_bytes());
            Object { bytes, digest }
        };
        lens.iter().copied().enumerate().map(object).collect()
    }

    pub(crate) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn blocks(&self) -> usize {
        self.bytes.len().div_ceil(BLOCK)
    }

    pub(crate) fn block(&self, number: usize) -> &[u8] {
        let start = number * BLOCK;
        &self.bytes[start..self.bytes.len().min(start + BLOCK)]
    }

    /// The node of the hash tree over a block; an object of one block has none.
    pub(crate) fn node(&self, number: usize) -> Node {
        hash_node(self.block(number), (number * BLOCK) as u64)
    }
}
