//! Files of random bytes to transfer, and digests to compare them by.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use wellspring_core::Seed;

use crate::exit::Failed;

/// Writes a file of `size` random bytes; the same seed gives the same bytes.
///
/// # Errors
/// The system's.
pub fn write(path: &Path, size: u64, seed: u64) -> Result<(), Failed> {
    let fill = || -> io::Result<()> {
        let mut stream = Seed(seed).stream("demo");
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        for _ in 0..size / 8 {
            out.write_all(&stream.next_u64().to_le_bytes())?;
        }
        let tail = (size % 8) as usize;
        out.write_all(&stream.next_u64().to_le_bytes()[..tail])?;
        out.flush()
    };
    fill().map_err(|error| Failed::system(path.display(), &error))
}

/// The BLAKE3 digest of a file, in hexadecimal digits.
///
/// # Errors
/// The system's.
pub fn digest(path: &Path) -> Result<String, Failed> {
    let mut hasher = blake3::Hasher::new();
    let read = File::open(path).and_then(|file| hasher.update_reader(file).map(drop));
    read.map_err(|error| Failed::system(path.display(), &error))?;
    Ok(hasher.finalize().to_hex().to_string())
}
