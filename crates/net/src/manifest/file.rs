//! Nodes of a file's hash tree.

use std::fs::File;
use std::io;

use super::{PageId, root_of};
use crate::store::{Digest, DigestCache, HashProgress, Node, hash_file, hash_nodes};

/// Length of the nodes that are kept of every file that was hashed \[bytes\]: those below are
/// computed from the file when they are asked for.
pub const SECTION: u64 = 4 << 20;
/// Sections that threads share, before all go on: a disk with heads reads on nearly in order.
const TOGETHER: u64 = 16;

/// Hashes the first `len` bytes of a file, by all processors: its digest, and its nodes of
/// 4 MiB if it is longer than one. Blocks the thread.
///
/// # Errors
/// The file ends early, cannot be read, or [`HashProgress::stop`] was called.
pub fn hash_sections(
    file: &File,
    len: u64,
    progress: &HashProgress,
) -> io::Result<(Digest, Vec<Node>)> {
    if len <= SECTION {
        return Ok((hash_file(file, len, progress)?, Vec::new()));
    }
    let mut sections = Vec::new();
    let mut at = 0;
    while at < len {
        let end = len.min(at + TOGETHER * SECTION);
        sections.extend(hash_nodes(file, at..end, SECTION)?);
        progress.add(end - at)?;
        at = end;
    }
    let digest = root_of(&sections, len, SECTION).expect("longer than one section");
    Ok((digest, sections))
}

/// Sections of the shortest object of which they are worth keeping on the disk: others are hashed in 50 ms.
const KEPT_FROM: usize = 16;

/// Keeps the sections of an object for the next process.
pub fn keep_sections(cache: &DigestCache, digest: &Digest, sections: &[Node]) {
    if sections.len() >= KEPT_FROM {
        cache.keep_nodes(digest, sections);
    }
}

/// The sections of an object that an earlier process has kept, if they are the object's.
pub fn kept_sections(cache: &DigestCache, digest: &Digest, size: u64) -> Option<Vec<Node>> {
    if size <= SECTION {
        return None;
    }
    let sections = cache.nodes(digest)?;
    let is_whole = sections.len() as u64 == size.div_ceil(SECTION);
    (is_whole && root_of(&sections, size, SECTION) == Some(*digest)).then_some(sections)
}

impl PageId {
    /// Whether its nodes are hashed from the file of an object of that size when they are asked for: they are shorter
    /// than those that are kept of every object.
    pub fn is_read(&self, size: u64) -> bool {
        self.node_len < SECTION || size <= SECTION
    }
}

/// The nodes of a page, from the bytes of the file below it.
///
/// # Errors
/// The file ends early, or cannot be read.
pub(super) fn hash_page(file: &File, size: u64, page: PageId) -> io::Result<Vec<Node>> {
    hash_nodes(file, page.range(size), page.node_len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn sections_hash_to_the_digest_of_b3sum() {
        let bytes: Vec<u8> =
            (0..17 * SECTION as usize + 12_345).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("temporary file");
        file.write_all(&bytes).expect("written");
        let whole = bytes.len() as u64;
        for len in [0, 1, SECTION, SECTION + 1, 2 * SECTION, 16 * SECTION + 1_025, whole] {
            let progress = HashProgress::default();
            let (digest, sections) = hash_sections(&file, len, &progress).expect("hashed");
            assert_eq!(digest.0, *blake3::hash(&bytes[..len as usize]).as_bytes(), "{len} bytes");
            assert_eq!(progress.done(), len);
            let expected = if len > SECTION { len.div_ceil(SECTION) } else { 0 };
            assert_eq!(sections.len() as u64, expected);
        }
    }
    #[test]
    fn only_sections_that_hash_to_the_digest_are_taken_from_the_disk() {
        let home = tempfile::tempdir().expect("temporary directory");
        let cache = DigestCache::open(home.path()).expect("opens");
        let size = 20 * SECTION - 1_000;
        let file = tempfile::tempfile().expect("temporary file");
        file.set_len(size).expect("sparse");
        let (digest, mut sections) =
            hash_sections(&file, size, &HashProgress::default()).expect("hashed");
        assert_eq!(kept_sections(&cache, &digest, size), None);
        keep_sections(&cache, &digest, &sections);
        let cache = DigestCache::open(home.path()).expect("opens again");
        assert_eq!(kept_sections(&cache, &digest, size).as_ref(), Some(&sections));
        assert_eq!(kept_sections(&cache, &digest, size + SECTION), None);
        sections[7][3] ^= 1;
        keep_sections(&cache, &digest, &sections);
        assert_eq!(kept_sections(&cache, &digest, size), None, "forged");
        keep_sections(&cache, &digest, &sections[..3]);
        assert_eq!(kept_sections(&cache, &digest, size), None, "cut short, and not kept at all");
    }
}
