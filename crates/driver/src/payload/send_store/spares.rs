//! Buffers and encoders of blocks that were let go, kept for reuse.

use wellspring_codec::raptorq::BlockEncoder;

/// The part of the store's bound that may be kept for reuse.
pub(super) const FREE_PART: usize = 4;
/// A free buffer is used again for a block of no less than this part of it: otherwise the block
/// would count for much more than its length.
const LEAST_PART: usize = 2;

/// Buffers and encoders that no block uses.
#[derive(Default)]
pub(super) struct Spares {
    buffers: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "boxes move between blocks, jobs and this list")]
    encoders: Vec<Box<BlockEncoder>>,
    bytes: usize,
}

impl Spares {
    /// What is allocated for them \[bytes\].
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same, added up anew.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn allocated(&self) -> usize {
        self.buffers.iter().map(Vec::capacity).sum::<usize>()
            + self.encoders.iter().map(|e| e.memory()).sum::<usize>()
    }

    /// Gives back to the system something that is kept; false if nothing is.
    pub(super) fn shrink(&mut self) -> bool {
        let bytes = match (self.encoders.pop(), self.buffers.len()) {
            (Some(encoder), _) => encoder.memory(),
            (None, 0) => return false,
            (None, _) => self.buffers.swap_remove(0).capacity(),
        };
        self.bytes -= bytes;
        true
    }

    /// A buffer for a block of so many bytes, from those that are free if one fits.
    pub(super) fn take_buffer(&mut self, len: usize) -> Vec<u8> {
        let fits = |b: &Vec<u8>| b.capacity() >= len && b.capacity() / LEAST_PART <= len;
        match self.buffers.iter().rposition(fits) {
            Some(index) => {
                let mut buffer = self.buffers.swap_remove(index);
                self.bytes -= buffer.capacity();
                buffer.resize(len, 0);
                buffer
            }
            None => vec![0; len],
        }
    }

    /// An encoder for a block, from those that are free if one is no larger than is reserved for it.
    pub(super) fn take_encoder(&mut self, reserved: usize) -> Option<Box<BlockEncoder>> {
        let index = self.encoders.iter().rposition(|e| e.memory() <= reserved)?;
        let encoder = self.encoders.swap_remove(index);
        self.bytes -= encoder.memory();
        Some(encoder)
    }

    /// Whether so many bytes more may be kept, of a store that has `total` allocated of `limit`.
    pub(super) fn may_keep(&self, bytes: usize, total: usize, limit: usize) -> bool {
        self.bytes + bytes <= limit / FREE_PART && total + bytes <= limit
    }

    /// Keeps a buffer.
    pub(super) fn keep_buffer(&mut self, buffer: Vec<u8>) {
        self.bytes += buffer.capacity();
        self.buffers.push(buffer);
    }

    /// Keeps an encoder.
    pub(super) fn keep_encoder(&mut self, encoder: Box<BlockEncoder>) {
        self.bytes += encoder.memory();
        self.encoders.push(encoder);
    }
}
