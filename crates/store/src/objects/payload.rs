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

/// Where the bytes of a received object go.
///
/// Called from worker threads, once for each block, blocks in any order and at the same time.
pub trait ObjectSink: Send + Sync {
    /// Takes the object's bytes from `offset` on: one whole source block without its padding.
    ///
    /// # Errors
    /// The bytes cannot be kept (the disk is full): the session is cancelled.
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()>;
}
