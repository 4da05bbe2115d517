//! An object that is read in order while it is received, and kept nowhere.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::ObjectSink;
use super::part_file::{write_over, write_sparse};
use super::prefix::Prefix;
use super::{Digest, Disk, Node, StoreError, SystemDisk, hash_node, hash_nodes};

/// Objects up to this length need no file \[bytes\].
const IN_MEMORY: u64 = 4 << 20;

/// A nameless temporary file that reorders blocks for a reader who wants them in order. What was
/// read can be given back to the disk at once. A short object of verified blocks stays in memory instead.
#[derive(Debug)]
pub struct ScratchFile {
    bytes: Bytes,
    size: u64,
    digest: Digest,
    prefix: Prefix,
}

#[derive(Debug)]
enum Bytes {
    File(File),
    /// Blocks count here only once they are verified: nothing is hashed.
    Memory(Mutex<Box<[u8]>>),
}

impl ScratchFile {
    /// Makes one in the system's directory for temporary files (`TMPDIR`).
    ///
    /// # Errors
    /// The system's.
    pub fn new(size: u64, digest: Digest) -> Result<Self, StoreError> {
        let file = tempfile::tempfile()?;
        file.set_len(size)?;
        Ok(ScratchFile { bytes: Bytes::File(file), size, digest, prefix: Prefix::new() })
    }

    /// The same for blocks that are verified before they are written or noted: it hashes nothing. Up to 4 MiB stay in memory.
    ///
    /// # Errors
    /// The system's.
    pub fn of_verified(size: u64, digest: Digest) -> Result<Self, StoreError> {
        let prefix = Prefix::of_verified();
        if size > IN_MEMORY {
            return Ok(ScratchFile { prefix, ..ScratchFile::new(size, digest)? });
        }
        let memory = vec![0; size as usize].into_boxed_slice();
        Ok(ScratchFile { bytes: Bytes::Memory(Mutex::new(memory)), size, digest, prefix })
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
        match &self.bytes {
            Bytes::File(file) => file.read_exact_at(buffer, offset),
            Bytes::Memory(bytes) => {
                let range = range_of(offset, buffer.len());
                let bytes = lock(bytes);
                let bytes = bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
                buffer.copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Writes bytes that count only once they are [noted](Self::note): they may be wrong, and be written over.
    ///
    /// # Errors
    /// The system's; a block beyond the object's end.
    pub fn write_unverified(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        match &self.bytes {
            Bytes::File(file) => write_over(&SystemDisk, file, self.size, offset, block),
            Bytes::Memory(bytes) => write_into(&mut lock(bytes), offset, block),
        }
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
        match &self.bytes {
            Bytes::File(file) => hash_nodes(file, range, len),
            Bytes::Memory(bytes) => {
                let bytes = lock(bytes);
                let node = |start: u64| {
                    let piece = range_of(start, (range.end - start).min(len) as usize);
                    let piece = bytes.get(piece).ok_or(io::ErrorKind::UnexpectedEof)?;
                    Ok(hash_node(piece, start))
                };
                (range.start..range.end).step_by(len as usize).map(node).collect()
            }
        }
    }

    /// Verifies the object. Call it before bytes are released: what was hashed on arrival is not
    /// read again, the rest is.
    ///
    /// # Errors
    /// [`StoreError::BadDigest`] or the system's.
    pub fn verify(&self) -> Result<(), StoreError> {
        let got = match &self.bytes {
            Bytes::File(file) => self.prefix.digest(&SystemDisk, file, self.size)?,
            Bytes::Memory(_) if *self.contiguous().borrow() == self.size => None,
            Bytes::Memory(_) => {
                return Err(io::Error::other("bytes of the object are missing").into());
            }
        };
        match got {
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
        if let Bytes::File(file) = &self.bytes {
            // Only a kindness to the disk: nothing depends on it.
            let _ = SystemDisk.punch_hole(file, from..to.max(from));
        }
    }
}

impl ObjectSink for ScratchFile {
    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        match &self.bytes {
            Bytes::File(file) => {
                write_sparse(&SystemDisk, file, self.size, offset, block)?;
                self.prefix.wrote(&SystemDisk, file, offset, block)
            }
            Bytes::Memory(bytes) => {
                write_into(&mut lock(bytes), offset, block)?;
                self.prefix.note(offset, offset + block.len() as u64);
                Ok(())
            }
        }
    }
}

fn lock(bytes: &Mutex<Box<[u8]>>) -> MutexGuard<'_, Box<[u8]>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So many bytes from `offset` on; a range that no memory has if it would not fit.
fn range_of(offset: u64, len: usize) -> Range<usize> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    start..start.saturating_add(len)
}

fn write_into(bytes: &mut [u8], offset: u64, block: &[u8]) -> io::Result<()> {
    let there = bytes.get_mut(range_of(offset, block.len()));
    let there = there.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "block beyond the object's end")
    })?;
    there.copy_from_slice(block);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_objects_in_memory_and_long_ones_in_files_are_read_alike() {
        for size in [0, 5_000, IN_MEMORY, IN_MEMORY + 5_000] {
            let bytes: Vec<u8> = (0..size).map(|i| (i * 7 + i / 251) as u8).collect();
            let digest = Digest(*blake3::hash(&bytes).as_bytes());
            let scratch = ScratchFile::of_verified(size, digest).expect("made");
            assert_eq!(matches!(scratch.bytes, Bytes::Memory(_)), size <= IN_MEMORY);
            let mut blocks: Vec<_> = bytes.chunks(1_024).zip((0..).step_by(1_024)).collect();
            blocks.reverse();
            for (number, (block, offset)) in blocks.iter().enumerate() {
                assert!(scratch.verify().is_err(), "{number} blocks are not all");
                match number % 2 {
                    0 => scratch.write_block(*offset, block).expect("written"),
                    _ => {
                        scratch
                            .write_unverified(*offset, &[0; 1_024][..block.len()])
                            .expect("zeros");
                        scratch.write_unverified(*offset, block).expect("written over");
                        scratch.note(*offset..offset + block.len() as u64);
                    }
                }
            }
            scratch.verify().expect("whole");
            let mut read = vec![0; bytes.len()];
            scratch.read_at(0, &mut read).expect("read");
            assert!(read == bytes, "{size} bytes");
            let nodes = scratch.hash_nodes(0..size, 2_048).expect("hashed");
            let expected = bytes.chunks(2_048).zip((0..).step_by(2_048));
            let expected: Vec<_> = expected.map(|(piece, at)| hash_node(piece, at)).collect();
            assert_eq!(nodes, expected);
            assert!(
                scratch.write_block(size, b"x").is_err()
                    && scratch.write_block(u64::MAX, b"x").is_err()
            );
            assert!(scratch.read_at(size, &mut [0]).is_err());
        }
    }
}
