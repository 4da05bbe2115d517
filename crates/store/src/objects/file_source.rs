//! An object's bytes out of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ObjectSource;
use super::{Digest, Fingerprint, HashProgress, hash_file};

/// A file whose times change again and again (a log that grows, say) is read again for at most one
/// part in so many of the time.
const PAUSE: u32 = 9;

/// Reads blocks from an open file as long as its bytes are those of its digest.
///
/// What happens to the file's names or rights (it is removed, replaced, renamed, linked, its mode
/// is changed) shows in its change time alone and means nothing: the descriptor has the same bytes.
/// When its length or the time of its last modification changes, the bytes may have: they are read
/// again, and a transfer ends only if their digest is another. A writer who sets the modification
/// time back goes unnoticed here; the receiver, who compares the digest of what arrived, notices.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
    digest: Digest,
    verified: Mutex<Verified>,
}

/// The state in which the bytes were last known to be right.
#[derive(Debug)]
struct Verified {
    fingerprint: Fingerprint,
    /// Not read again before.
    not_before: Option<Instant>,
}

impl FileSource {
    /// The bytes of `file`, whose state was `fingerprint` when its digest was computed.
    pub fn new(file: File, fingerprint: Fingerprint, digest: Digest) -> Self {
        let verified = Mutex::new(Verified { fingerprint, not_before: None });
        FileSource { file, len: fingerprint.size(), digest, verified }
    }

    /// The digest of its bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The file itself, and its state when its bytes were last known to be right; `None` if it
    /// cannot be opened once more.
    pub fn file(&self) -> Option<(File, Fingerprint)> {
        let verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        Some((self.file.try_clone().ok()?, verified.fingerprint))
    }

    /// Makes sure that the bytes are still those of the digest.
    fn check(&self) -> io::Result<()> {
        let now = Fingerprint::of(&self.file)?;
        // Whoever comes while the file is read again waits for the outcome.
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if now.has_content_of(&verified.fingerprint) {
            return Ok(());
        }
        let changed = || io::Error::other("the file changed during the transfer");
        if now.size() < self.len {
            return Err(changed());
        }
        let began = Instant::now();
        if verified.not_before.is_some_and(|at| began < at) {
            return Ok(());
        }
        // Taken before the bytes are read: what changes meanwhile is seen by the next reader.
        let state = Fingerprint::of(&self.file)?;
        if hash_file(&self.file, self.len, &HashProgress::default())? != self.digest {
            return Err(changed());
        }
        verified.fingerprint = state;
        let pause = began.elapsed().saturating_mul(PAUSE).max(Duration::from_millis(1));
        verified.not_before = Some(Instant::now() + pause);
        Ok(())
    }
}

impl ObjectSource for FileSource {
    fn read_block(&self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(block, offset)?;
        // After the read: a change before it shows now, and one after it does not matter.
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    const BYTES: &[u8] = b"0123456789";

    /// Something that is done to a file, and its name.
    type Deed<'a> = (&'a str, &'a dyn Fn(&Path));

    fn served(dir: &Path) -> (PathBuf, FileSource) {
        let path = dir.join("a");
        fs::write(&path, BYTES).expect("write");
        let file = File::open(&path).expect("open");
        let fingerprint = Fingerprint::of(&file).expect("stat");
        let digest = Digest(*blake3::hash(BYTES).as_bytes());
        (path, FileSource::new(file, fingerprint, digest))
    }

    fn read(source: &FileSource) -> io::Result<[u8; 4]> {
        let mut block = [0; 4];
        source.read_block(3, &mut block).map(|()| block)
    }

    #[test]
    fn whatever_happens_to_its_name_an_open_file_is_read_on() {
        let at = |path: &Path| path.with_file_name("b");
        let deeds: [Deed<'_>; 7] = [
            ("rm", &|path| fs::remove_file(path).expect("removed")),
            ("mv away", &|path| fs::rename(path, at(path)).expect("renamed")),
            ("mv over", &|path| {
                fs::write(at(path), b"others").expect("write");
                fs::rename(at(path), path).expect("renamed");
            }),
            ("ln", &|path| fs::hard_link(path, at(path)).expect("linked")),
            ("chmod", &|path| {
                fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("mode");
            }),
            ("touch", &|path| {
                let file = File::options().append(true).open(path).expect("open");
                file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("time");
            }),
            ("append", &|path| {
                let mut file = File::options().append(true).open(path).expect("open");
                io::Write::write_all(&mut file, b"more").expect("appended");
            }),
        ];
        for (deed, act) in deeds {
            let dir = tempfile::tempdir().expect("temporary directory");
            let (path, source) = served(dir.path());
            assert_eq!(&read(&source).expect("read"), b"3456");
            act(&path);
            for _ in 0..2 {
                assert_eq!(&read(&source).unwrap_or_else(|e| panic!("{deed}: {e}")), b"3456");
            }
        }
    }

    #[test]
    fn a_file_whose_bytes_change_under_a_transfer_fails_it() {
        let deeds: [Deed<'_>; 3] = [
            ("other bytes", &|path| fs::write(path, b"x123456789").expect("write")),
            ("cut", &|path| {
                File::options().write(true).open(path).expect("open").set_len(9).expect("cut");
            }),
            ("one bit", &|path| {
                let file = File::options().write(true).open(path).expect("open");
                file.write_all_at(b"8", 9).expect("write");
                // As if the kernel's clock had ticked since the file was made.
                file.set_modified(std::time::SystemTime::now()).expect("time");
            }),
        ];
        for (deed, act) in deeds {
            let dir = tempfile::tempdir().expect("temporary directory");
            let (path, source) = served(dir.path());
            assert_eq!(&read(&source).expect("read"), b"3456");
            let mut block = [0; 4];
            assert!(source.read_block(8, &mut block).is_err(), "beyond the end");
            act(&path);
            // One stamp of the kernel's clock may be that of the file's own making.
            let file = File::options().append(true).open(&path).expect("open");
            file.set_modified(std::time::SystemTime::now()).expect("time");
            assert!(read(&source).is_err(), "{deed}");
        }
    }
}
