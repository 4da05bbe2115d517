//! Sources and sinks of an object's bytes.

use std::io;

/// The bytes of an object that is sent.
///
/// Called from the thread that fills datagrams and from workers, at any block, in any order, more
/// than once.
pub trait ObjectSource: Send + Sync {
    /// Fills `block` with the object's bytes from `offset` on.
    ///
    /// # Errors
    /// The bytes cannot be had (the file shrank, the disk failed): the session is cancelled.
    fn read_block(&self, offset: u64, block: &mut [u8]) -> io::Result<()>;
}

/// Whether a block has the object's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// It has.
    Right,
    /// It has not: some of its symbols were altered.
    Wrong,
    /// Not decidable yet. The block is kept, and checked again when its session requests it.
    Unknown,
}

/// Where the bytes of a received object go.
///
/// Called from worker threads, once for each block, blocks in any order and at the same time.
pub trait ObjectSink: Send + Sync {
    /// Checks the object's bytes from `offset` on, one whole source block, before they count. A
    /// sink that can never decide accepts all blocks.
    fn check(&self, _offset: u64, _block: &[u8]) -> Check {
        Check::Right
    }

    /// Takes the object's bytes from `offset` on: one whole source block without its padding.
    ///
    /// # Errors
    /// The bytes cannot be kept (the disk is full): the session is cancelled.
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()>;
}
