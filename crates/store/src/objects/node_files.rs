//! Nodes of objects' hash trees in a directory, a file an object.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Digest, Node};
use crate::atomic_file::{AtomicFile, Existing};

/// What the files take, at most \[bytes\]: enough for 8 TiB of objects with nodes of 4 MiB.
const MAX_BYTES: u64 = 64 << 20;
/// What a file takes at least \[bytes\]: a block of the file system.
const LEAST_BYTES: u64 = 4_096;

/// The nodes that are kept of an object of that digest. Nothing says that they are its own but that they hash to
/// the digest, which is for the caller to check.
pub(super) fn read(directory: &Path, digest: &Digest) -> Option<Vec<Node>> {
    let mut bytes = Vec::new();
    let file = File::open(path(directory, digest)).ok()?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let (nodes, rest) = bytes.as_chunks();
    (rest.is_empty() && bytes.len() as u64 <= MAX_BYTES).then(|| nodes.to_vec())
}

/// Keeps the nodes of an object; the oldest files go if they pass the bound. A directory that cannot be written costs
/// no more than that the nodes are computed again.
pub(super) fn keep(directory: &Path, digest: &Digest, nodes: &[Node]) {
    let bytes = nodes.as_flattened();
    if bytes.len() as u64 > MAX_BYTES {
        return;
    }
    let written = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .and_then(|()| AtomicFile::private(&path(directory, digest), Existing::Replace))
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.finish()
        });
    match written {
        Ok(()) => trim(directory, MAX_BYTES),
        Err(error) => {
            tracing::warn!(path = %directory.display(), %error, "cannot keep a hash tree on disk");
        }
    }
}

fn path(directory: &Path, digest: &Digest) -> PathBuf {
    directory.join(digest.to_string())
}

/// Removes the oldest files as long as all take more than `limit` bytes.
fn trim(directory: &Path, limit: u64) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let meta = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((meta.modified().ok()?, meta.len().max(LEAST_BYTES), entry.path()))
        })
        .collect();
    files.sort_unstable();
    let mut all: u64 = files.iter().map(|(_, len, _)| len).sum();
    for (_, len, path) in files {
        if all <= limit {
            return;
        }
        // Gone already, or it stays: the next one is tried.
        if fs::remove_file(path).is_ok() {
            all -= len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_read_back_and_the_oldest_go_first() {
        let home = tempfile::tempdir().expect("temporary directory");
        let directory = home.path().join("deep").join("nodes");
        let digest = |number: u8| Digest([number; 32]);
        assert_eq!(read(&directory, &digest(1)), None);
        for number in 1..=4 {
            keep(&directory, &digest(number), &[[number; 32]; 200]);
            let file = File::options().write(true).open(path(&directory, &digest(number)));
            let age = std::time::Duration::from_secs(1_000 + u64::from(number));
            let time = SystemTime::UNIX_EPOCH + age;
            file.expect("there").set_modified(time).expect("set");
            assert_eq!(read(&directory, &digest(number)), Some(vec![[number; 32]; 200]));
        }
        trim(&directory, 4 * 6_400);
        assert!(read(&directory, &digest(1)).is_some());
        trim(&directory, 3 * 6_400 - 1);
        let there = [1, 2, 3, 4].map(|number| read(&directory, &digest(number)).is_some());
        assert_eq!(there, [false, false, true, true]);
        fs::write(path(&directory, &digest(9)), [7; 33]).expect("written");
        assert_eq!(read(&directory, &digest(9)), None, "no whole nodes");
    }
}
