//! An object that is read in order while it is received, and kept nowhere.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use tokio::sync::watch;

use super::ObjectSink;
use super::part_file::{write_over, write_sparse};
use super::prefix::Prefix;
use super::{Digest, Disk, Node, StoreError, SystemDisk, hash_nodes};

/// A nameless temporary file that reorders blocks for a reader who wants them in order. What was
/// read can be given back to the disk at once.
#[derive(Debug)]
pub struct ScratchFile {
    file: File,
    size: u64,
    digest: Digest,
    prefix: Prefix,
}

impl ScratchFile {
    /// Makes one in the system's directory for temporary files (`TMPDIR`).
    ///
    /// # Errors
    /// The system's.
    pub fn new(size: u64, digest: Digest) -> Result<Self, StoreError> {
        let file = tempfile::tempfile()?;
        file.set_len(size)?;
        Ok(ScratchFile { file, size, digest, prefix: Prefix::new() })
    }

    /// The same for blocks that are verified before they are written: it hashes nothing.
    #[must_use]
    pub fn of_verified(mut self) -> Self {
        self.prefix = Prefix::of_verified();
        self
    }

    /// The object's length \[bytes\].
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes there without a gap from the beginning on \[bytes\]; watch it to follow.
    pub fn contiguous(&self) -> watch::Receiver<u64> {
        self.prefix.watch()
    }

    /// The end of the last block there \[bytes\].
    pub fn furthest(&self) -> u64 {
        self.prefix.furthest()
    }

    /// Reads bytes that are there.
    ///
    /// # Errors
    /// The system's.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Writes bytes that count only once they are [noted](Self::note): they may be wrong, and be written over.
    ///
    /// # Errors
    /// The system's; a block beyond the object's end.
    pub fn write_unverified(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        write_over(&SystemDisk, &self.file, self.size, offset, block)
    }

    /// Takes note of bytes that are in the file already, and verified.
    pub fn note(&self, range: Range<u64>) {
        self.prefix.note(range.start, range.end);
    }

    /// Nodes of the object's BLAKE3 tree, of the bytes in the file: see [`hash_nodes`].
    ///
    /// # Errors
    /// The system's.
    pub fn hash_nodes(&self, range: Range<u64>, len: u64) -> io::Result<Vec<Node>> {
        hash_nodes(&self.file, range, len)
    }

    /// Verifies the object. Call it before bytes are released: what was hashed on arrival is not
    /// read again, the rest is.
    ///
    /// # Errors
    /// [`StoreError::BadDigest`] or the system's.
    pub fn verify(&self) -> Result<(), StoreError> {
        match self.prefix.digest(&SystemDisk, &self.file, self.size)? {
            Some(got) if got != self.digest => {
                Err(StoreError::BadDigest { expected: self.digest, got })
            }
            _ => Ok(()),
        }
    }

    /// Bytes hashed so far: those may be released \[bytes\].
    pub fn hashed(&self) -> u64 {
        self.prefix.hashed()
    }

    /// Gives the disk space of a range back, where the file system can.
    pub fn release(&self, from: u64, to: u64) {
        // Only a kindness to the disk: nothing depends on it.
        let _ = SystemDisk.punch_hole(&self.file, from..to.max(from));
    }
}

impl ObjectSink for ScratchFile {
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        write_sparse(&SystemDisk, &self.file, self.size, offset, block)?;
        self.prefix.wrote(&SystemDisk, &self.file, offset, block)
    }
}
