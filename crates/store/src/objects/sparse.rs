//! Blocks written into files, zeros as holes: what is sparse at the sender stays so.

use std::fs::File;
use std::io;

use super::Disk;

/// Writes a block of a file that may have anything there; zeros become a hole where that is possible.
pub(super) fn write_over(
    disk: &dyn Disk,
    file: &File,
    size: u64,
    offset: u64,
    block: &[u8],
) -> io::Result<()> {
    let end = offset.checked_add(block.len() as u64).filter(|end| *end <= size);
    let end = end.ok_or_else(beyond_the_end)?;
    if block.iter().all(|byte| *byte == 0) && disk.punch_hole(file, offset..end).is_ok() {
        return Ok(());
    }
    disk.write_at(file, block, offset)
}

fn beyond_the_end() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "block beyond the object's end")
}

/// Writes a block of a file that is all holes where it was not written; zeros need no writing.
pub(super) fn write_sparse(
    disk: &dyn Disk,
    file: &File,
    size: u64,
    offset: u64,
    block: &[u8],
) -> io::Result<()> {
    let end = offset.checked_add(block.len() as u64);
    if end.is_none_or(|end| end > size) {
        return Err(beyond_the_end());
    }
    // Ends at the first byte that is not zero: costs nothing on ordinary data.
    if block.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    disk.write_at(file, block, offset)
}
