//! Digests of whole files.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Bytes hashed at a time: enough for the widest vector code, little enough for the cache.
const CHUNK: usize = 256 * 1024;

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
    /// Makes the hashing end soon with an error of kind [`io::ErrorKind::Interrupted`].
    pub fn stop(&self) {
        self.0.1.store(true, Relaxed);
    }
}

/// Hashes the first `len` bytes of a file; memory use does not grow with it. Blocks the thread.
///
/// # Errors
/// The file ends early, cannot be read, or [`HashProgress::stop`] was called.
pub fn hash_file(file: &File, len: u64, progress: &HashProgress) -> io::Result<Digest> {
    let mut hasher = blake3::Hasher::new();
    hash_range(file, 0, len, &mut hasher, progress)?;
    Ok(Digest(*hasher.finalize().as_bytes()))
}

/// Hashes a range of a file into `hasher`.
pub(super) fn hash_range(
    file: &File,
    from: u64,
    to: u64,
    hasher: &mut blake3::Hasher,
    progress: &HashProgress,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK.min(usize::try_from(to.saturating_sub(from)).unwrap_or(CHUNK))];
    let mut at = from;
    while at < to {
        if progress.0.1.load(Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "hashing was stopped"));
        }
        let len = (to - at).min(CHUNK as u64) as usize;
        file.read_exact_at(&mut buffer[..len], at)?;
        hasher.update(&buffer[..len]);
        at += len as u64;
        progress.0.0.fetch_add(len as u64, Relaxed);
    }
    Ok(())
}
