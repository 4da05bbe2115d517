//! Note of a swap that is under way, for whoever comes after a process that was killed in it.
//!
//! It stands beside the trees and has the inode of the tree that takes the other's place, by which it is known whether
//! it has, and two lists of paths. The other's versions of those that were listed are of no more use; what the other was
//! given besides is brought over before it goes. What the new tree has besides, and somebody has removed or replaced by
//! then, is not: that is told by what it had.

use std::cmp::Ordering;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use wellspring_tree::{Cursor, order};

use super::listed::Listed;
use super::scan::{Scan, scan};

/// Longest note \[bytes\].
const MAX_LEN: u64 = 1 << 30;

/// A note.
#[derive(Debug)]
pub(super) struct SwapNote {
    inode: u64,
    /// Paths that were listed, each followed by a zero.
    listed: Vec<u8>,
    /// Likewise, others that the tree had then, each behind its [identity] and a space.
    had: Vec<u8>,
}

impl SwapNote {
    /// Writes a note, where there is none: `next` is about to take another tree's place. It is on the disk then. What is
    /// listed is gone through twice.
    pub(super) fn write(at: &Path, next: &Path, listed: [Listed<'_>; 2]) -> io::Result<()> {
        // Who may not look into the directory may not read the names in it here.
        let file = File::options().write(true).create_new(true).mode(0o600).open(at)?;
        let mut file = BufWriter::new(file);
        write!(file, "{}\0", fs::metadata(next)?.ino())?;
        let [mut all, mut listed] = listed;
        while let Some(path) = all.take()? {
            file.write_all(path.as_bytes())?;
            file.write_all(b"\0")?;
        }
        file.write_all(b"\0")?;
        let there = scan(&OwnedFd::from(File::open(next)?), Scan::ALL).map_err(io::Error::other)?;
        let mut there = Cursor::new(there.as_bytes()).map_err(io::Error::other)?;
        while let Some(entry) = there.next_entry().map_err(io::Error::other)? {
            if !listed.has(entry.path)? {
                let found = identity(&fs::symlink_metadata(next.join(entry.path))?);
                write!(file, "{found} {}\0", entry.path)?;
            }
        }
        file.write_all(b"\0")?;
        if file.stream_position()? > MAX_LEN {
            fs::remove_file(at)?;
            let text = "the names in the tree are too many to note";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }

    /// The note that is there, if it is whole.
    pub(super) fn read(at: &Path) -> io::Result<Option<SwapNote>> {
        SwapNote::read_within(at, MAX_LEN)
    }

    fn read_within(at: &Path, limit: u64) -> io::Result<Option<SwapNote>> {
        let file = match File::open(at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            let text = format!("{} is too long for a note of a swap: move it away", at.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(SwapNote::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> Option<SwapNote> {
        let end = bytes.iter().position(|&byte| byte == 0)?;
        let inode = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
        let (listed, rest) = paths(&bytes[end + 1..])?;
        let (had, rest) = paths(rest)?;
        let (listed, had) = (listed.to_vec(), had.to_vec());
        rest.is_empty().then_some(SwapNote { inode, listed, had })
    }

    /// Whether the tree has taken the place of that name.
    pub(super) fn has_happened(&self, target: &Path) -> bool {
        fs::metadata(target).is_ok_and(|found| found.ino() == self.inode)
    }

    /// The paths that were listed.
    pub(super) fn listed(&self) -> io::Result<Listed<'_>> {
        Listed::of_paths(each(&self.listed))
    }

    /// Others that the tree had.
    pub(super) fn had(&self) -> Had<'_> {
        let mut paths: Box<dyn Iterator<Item = &[u8]>> = Box::new(each(&self.had));
        Had { next: paths.next(), paths }
    }
}

/// Paths that a tree had, asked for in their order.
pub(super) struct Had<'a> {
    paths: Box<dyn Iterator<Item = &'a [u8]> + 'a>,
    next: Option<&'a [u8]>,
}

impl Had<'_> {
    /// The [identity] of what the tree had under a path; paths are asked for in their order.
    pub(super) fn identity(&mut self, path: &str) -> io::Result<Option<&str>> {
        while let Some(next) = self.next {
            let next = std::str::from_utf8(next).map_err(io::Error::other)?;
            let (identity, had) = next.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
            match order(had, path) {
                Ordering::Less => self.next = self.paths.next(),
                Ordering::Equal => return Ok(Some(identity)),
                Ordering::Greater => break,
            }
        }
        Ok(None)
    }
}

/// What tells something from whatever else has had, or will have, its name: the inode, and, since that is given to another
/// one day, when it was made, where the file system says so.
pub(super) fn identity(meta: &Metadata) -> String {
    let made = meta.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    format!("{}-{}", meta.ino(), made.unwrap_or_default().as_nanos())
}

/// A list of paths, and what comes after the zero that ends it.
fn paths(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = 0;
    loop {
        match bytes[end..].iter().position(|&byte| byte == 0)? {
            0 => return Some((&bytes[..end], &bytes[end + 1..])),
            len => end += len + 1,
        }
    }
}

fn each(paths: &[u8]) -> impl Iterator<Item = &[u8]> {
    paths.split(|&byte| byte == 0).take_while(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_for_a_note_is_not_read_to_its_end() {
        let home = tempfile::tempdir().expect("a directory");
        let at = home.path().join("note");
        assert!(SwapNote::read(&at).expect("none").is_none());
        fs::write(&at, b"7\0a\0\0\0").expect("written");
        assert_eq!(SwapNote::read_within(&at, 6).expect("read").expect("whole").inode, 7);
        let error = SwapNote::read_within(&at, 5).expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
