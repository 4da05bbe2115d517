//! Digests of whole files.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use blake3::hazmat::{self, ChainingValue, HasherExt, Mode};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Disk, SystemDisk};

/// Bytes hashed at a time: enough for the widest vector code, little enough for the cache, and for memory
/// that allocators keep, where larger pieces come from the kernel each time, to be cleared and given back.
const CHUNK: usize = 64 * 1024;
/// Bytes that one thread reads and hashes in one go.
const LEAF: u64 = 1 << 20;
/// Bytes that threads share, before all go on: a disk with heads reads on nearly in order.
const WINDOW: u64 = 64 << 20;

/// A BLAKE3 digest of a whole object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of an object of no bytes.
    pub fn of_nothing() -> Self {
        Digest(*blake3::hash(b"").as_bytes())
    }

    /// Its first eight bytes, as SCDP's options carry them for a quick look.
    pub fn tag(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text was not 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotADigest;

impl fmt::Display for NotADigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a digest is 64 hexadecimal digits")
    }
}

impl std::error::Error for NotADigest {}

impl FromStr for Digest {
    type Err = NotADigest;
    fn from_str(text: &str) -> Result<Self, NotADigest> {
        blake3::Hash::from_hex(text).map(|hash| Digest(*hash.as_bytes())).map_err(|_| NotADigest)
    }
}

/// How far the hashing of a file is; also how to stop it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct HashProgress(Arc<(AtomicU64, AtomicBool)>);

impl HashProgress {
    /// Bytes hashed.
    pub fn done(&self) -> u64 {
        self.0.0.load(Relaxed)
    }
    /// Notes that so many bytes more are hashed.
    ///
    /// # Errors
    /// It is to end.
    pub fn add(&self, bytes: u64) -> io::Result<()> {
        self.0.0.fetch_add(bytes, Relaxed);
        if self.0.1.load(Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "hashing was stopped"));
        }
        Ok(())
    }
    /// Makes the hashing end soon with an error of kind [`io::ErrorKind::Interrupted`].
    pub fn stop(&self) {
        self.0.1.store(true, Relaxed);
    }
}

/// Hashes the first `len` bytes of a file, by all processors: reading from memory takes longer than
/// hashing. Memory use does not grow with the file. Blocks the thread.
///
/// # Errors
/// The file ends early, cannot be read, or [`HashProgress::stop`] was called.
pub fn hash_file(file: &File, len: u64, progress: &HashProgress) -> io::Result<Digest> {
    let hash = if len <= LEAF {
        let mut hasher = blake3::Hasher::new();
        hash_range(&SystemDisk, file, 0..len, &mut hasher, progress)?;
        hasher.finalize()
    } else {
        let (left, right) = on_all_processors(|| halves(file, 0, len, progress))?;
        hazmat::merge_subtrees_root(&left, &right, Mode::Hash)
    };
    Ok(Digest(*hash.as_bytes()))
}

/// A node of an object's BLAKE3 tree: a chaining value.
pub type Node = [u8; 32];

/// The node over `bytes`, which stand at `offset` in their object and are not all of it. `offset`
/// must be a multiple of a power of two that is not less than their length, and of 1,024.
pub fn hash_node(bytes: &[u8], offset: u64) -> Node {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset).update(bytes).finalize_non_root()
}

/// The nodes of `len` bytes, a power of two and 1,024 or more, over a range of a file that begins
/// with one, by all processors. Blocks the thread.
///
/// # Errors
/// The file ends early, or cannot be read.
pub fn hash_nodes(file: &File, range: Range<u64>, len: u64) -> io::Result<Vec<Node>> {
    hash_nodes_on(&SystemDisk, file, range, len)
}

/// The same on any disk.
pub(super) fn hash_nodes_on(
    disk: &dyn Disk,
    file: &File,
    range: Range<u64>,
    len: u64,
) -> io::Result<Vec<Node>> {
    let starts: Vec<u64> = (range.start..range.end).step_by(len as usize).collect();
    let progress = HashProgress::default();
    let hash = |buffer: &mut Vec<u8>, start: u64| {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(start);
        let node = start..range.end.min(start + len);
        hash_range_with(disk, file, node, &mut hasher, &progress, buffer)?;
        Ok(hasher.finalize_non_root())
    };
    // Short ones are not worth a thread's attention each.
    let together = (LEAF / len).clamp(1, 8) as usize;
    let each = |starts: Vec<u64>| {
        let starts = starts.into_par_iter().with_min_len(together);
        starts.map_init(|| buffer_for(len), hash).collect()
    };
    on_all_processors(|| each(starts))
}

/// Does work on a pool of threads, a processor each, which belongs to this process: a child of `fork` has none of its
/// parent's threads, and would wait for them for ever.
fn on_all_processors<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let process = std::process::id();
    let pool = {
        let mut kept = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((of, pool)) if *of == process => Some(Arc::clone(pool)),
            _ => {
                let made = ThreadPoolBuilder::new().build().ok().map(Arc::new);
                let before =
                    std::mem::replace(&mut *kept, made.clone().map(|pool| (process, pool)));
                // Threads that are not there cannot be ended.
                std::mem::forget(before);
                made
            }
        }
    };
    // Where no thread can be started this one does it all.
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// The chaining values of both subtrees of BLAKE3's tree over a range, which is no leaf of ours.
fn halves(
    file: &File,
    from: u64,
    len: u64,
    progress: &HashProgress,
) -> io::Result<(ChainingValue, ChainingValue)> {
    let left_len = hazmat::left_subtree_len(len);
    let left = || subtree(file, from, left_len, progress);
    let right = || subtree(file, from + left_len, len - left_len, progress);
    if len > WINDOW {
        return Ok((left()?, right()?));
    }
    let (left, right) = rayon::join(left, right);
    Ok((left?, right?))
}

/// The chaining value of a range that is a subtree of BLAKE3's tree.
fn subtree(file: &File, from: u64, len: u64, progress: &HashProgress) -> io::Result<ChainingValue> {
    if len > LEAF {
        let (left, right) = halves(file, from, len, progress)?;
        return Ok(hazmat::merge_subtrees_non_root(&left, &right, Mode::Hash));
    }
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(from);
    hash_range(&SystemDisk, file, from..from + len, &mut hasher, progress)?;
    Ok(hasher.finalize_non_root())
}

/// What ranges of `len` bytes are read into.
fn buffer_for(len: u64) -> Vec<u8> {
    vec![0; len.min(CHUNK as u64) as usize]
}

/// Hashes a range of a file into `hasher`.
pub(super) fn hash_range(
    disk: &dyn Disk,
    file: &File,
    range: Range<u64>,
    hasher: &mut blake3::Hasher,
    progress: &HashProgress,
) -> io::Result<()> {
    let mut buffer = buffer_for(range.end.saturating_sub(range.start));
    hash_range_with(disk, file, range, hasher, progress, &mut buffer)
}

/// The same by way of `buffer`, as many bytes at a time as it has: it stays in the cache, and in memory
/// that the kernel has given once.
fn hash_range_with(
    disk: &dyn Disk,
    file: &File,
    range: Range<u64>,
    hasher: &mut blake3::Hasher,
    progress: &HashProgress,
    buffer: &mut [u8],
) -> io::Result<()> {
    let Range { start: mut at, end: to } = range;
    while at < to {
        if progress.0.1.load(Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "hashing was stopped"));
        }
        let len = (to - at).min(buffer.len() as u64) as usize;
        disk.read_at(file, &mut buffer[..len], at)?;
        hasher.update(&buffer[..len]);
        at += len as u64;
        progress.0.0.fetch_add(len as u64, Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn the_tree_over_threads_gives_the_digest_of_the_whole() {
        let bytes: Vec<u8> =
            (0..2 * WINDOW + 3 * LEAF + 5).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("temporary file");
        file.write_all(&bytes).expect("written");
        let around = |len: u64| [len - 1, len, len + 1, len + 1025];
        let mut lens: Vec<u64> =
            [LEAF, 2 * LEAF, 5 * LEAF, WINDOW, 2 * WINDOW].map(around).concat();
        lens.extend([0, 1, 1024, 1025, bytes.len() as u64]);
        for len in lens {
            let progress = HashProgress::default();
            let got = hash_file(&file, len, &progress).expect("hashed");
            assert_eq!(got.0, *blake3::hash(&bytes[..len as usize]).as_bytes(), "{len} bytes");
            assert_eq!(progress.done(), len);
        }
    }
}
