//! An object that is read in order while it is received, and kept nowhere.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::ObjectSink;
use super::prefix::Prefix;
use super::sparse::{write_over, write_sparse};
use super::{Digest, Disk, Node, StoreError, SystemDisk, hash_node, hash_nodes};

/// Objects up to this length need no file \[bytes\].
const IN_MEMORY: u64 = 4 << 20;

/// Memory that a caller lends for an object or a range of one, to be written in any order and by several threads at once.
pub trait Place: std::fmt::Debug + Send + Sync {
    /// Writes bytes at that distance from its beginning.
    ///
    /// # Errors
    /// They do not fit, or the memory is no longer lent.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads bytes that were written.
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at).
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()>;
}

/// A nameless temporary file that reorders blocks for a reader who wants them in order. What was
/// read can be given back to the disk at once. A short object of verified blocks stays in memory instead, and one that
/// a caller has a [`Place`] for goes there.
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
    /// A caller's, for those bytes of the object; the rest of a block that lies across an end is not kept.
    Lent(Box<dyn Place>, Range<u64>),
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

    /// As [`of_verified`](Self::of_verified), in memory that a caller lends for a range of the object.
    pub fn lent(size: u64, digest: Digest, place: Box<dyn Place>, range: Range<u64>) -> Self {
        ScratchFile {
            bytes: Bytes::Lent(place, range),
            size,
            digest,
            prefix: Prefix::of_verified(),
        }
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
            Bytes::Lent(place, range) => {
                let at = offset.checked_sub(range.start).ok_or(io::ErrorKind::UnexpectedEof)?;
                place.read_at(at, buffer)
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
            Bytes::Lent(place, range) => write_to(&**place, range, offset, block),
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
            Bytes::Lent(..) => {
                let mut piece = vec![0; (range.end - range.start).min(len) as usize];
                let node = |start: u64| {
                    let piece = &mut piece[..(range.end - start).min(len) as usize];
                    self.read_at(start, piece)?;
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
            _ if *self.contiguous().borrow() == self.size => None,
            Bytes::Memory(_) | Bytes::Lent(..) => {
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
            Bytes::Lent(place, range) => {
                write_to(&**place, range, offset, block)?;
                self.prefix.note(offset, offset + block.len() as u64);
                Ok(())
            }
        }
    }
}

/// Writes what a block has of a range to the place of that range.
fn write_to(place: &dyn Place, range: &Range<u64>, offset: u64, block: &[u8]) -> io::Result<()> {
    let before = range.start.saturating_sub(offset).min(block.len() as u64);
    let wanted = range.end.saturating_sub(offset).clamp(before, block.len() as u64);
    match before == wanted {
        true => Ok(()),
        false => {
            place.write_at(offset + before - range.start, &block[before as usize..wanted as usize])
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

    #[derive(Debug)]
    struct Kept(std::sync::Arc<Mutex<Vec<u8>>>);

    impl Place for Kept {
        fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
            write_into(&mut self.0.lock().expect("no panic"), at, bytes)
        }

        fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
            bytes.copy_from_slice(&self.0.lock().expect("no panic")[range_of(at, bytes.len())]);
            Ok(())
        }
    }

    #[test]
    fn a_lent_place_has_its_range_of_blocks_that_come_in_any_order() {
        const SIZE: u64 = 9_000;
        let bytes: Vec<u8> = (0..SIZE).map(|i| (i * 7 + i / 251) as u8).collect();
        let digest = Digest(*blake3::hash(&bytes).as_bytes());
        for range in [0..SIZE, 0..10, 1_024..2_048, 1_500..1_501, 1_500..7_300, SIZE - 1..SIZE] {
            let wanted = &bytes[range.start as usize..range.end as usize];
            let kept = std::sync::Arc::new(Mutex::new(vec![0; wanted.len()]));
            let place = Box::new(Kept(std::sync::Arc::clone(&kept)));
            let scratch = ScratchFile::lent(SIZE, digest, place, range.clone());
            let mut blocks: Vec<_> = bytes.chunks(1_024).zip((0..).step_by(1_024)).collect();
            blocks.reverse();
            for (number, (block, offset)) in blocks.into_iter().enumerate() {
                assert!(scratch.verify().is_err(), "{number} blocks are not all");
                if number % 2 == 0 {
                    scratch.write_block(offset, block).expect("written");
                } else {
                    scratch.write_unverified(offset, block).expect("written");
                    scratch.note(offset..offset + block.len() as u64);
                }
            }
            scratch.verify().expect("whole");
            assert!(*kept.lock().expect("no panic") == wanted, "{range:?}");
            let mut read = vec![0; wanted.len()];
            scratch.read_at(range.start, &mut read).expect("read");
            assert!(read == wanted, "{range:?}");
            if range.start != 0 {
                continue; // No node of the hash tree begins there.
            }
            let nodes = scratch.hash_nodes(range.clone(), 2_048).expect("hashed");
            let pieces = wanted.chunks(2_048).zip((range.start..).step_by(2_048));
            let expected: Vec<_> = pieces.map(|(piece, at)| hash_node(piece, at)).collect();
            assert!(nodes == expected, "{range:?}");
        }
    }
}
