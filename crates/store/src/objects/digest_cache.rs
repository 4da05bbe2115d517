//! Digests that were computed once, kept as long as their files do not change.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Digest, Node, node_files};
use crate::atomic_file::{AtomicFile, Existing};

/// Entries kept; the oldest goes when one more comes.
const MAX_ENTRIES: usize = 65_536;
/// A cache file longer than this is not ours to read \[bytes\].
const MAX_FILE_LEN: u64 = 32 << 20;
/// File times move in ticks of the kernel's clock: up to 10 ms. A file that was written so shortly
/// before its hashing began may be written again without a change of its times.
const TICK: Duration = Duration::from_millis(20);
/// A change so far in the future was made before the clock was set back. Clocks of file servers differ by less.
const SET_BACK: Duration = Duration::from_secs(3_600);

/// Identity of one state of a file: device, inode, size, and the times of the last
/// change of its content and of its inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Fingerprint {
    /// The state of an open file.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        let nanos = |secs: i64, nanos: i64| i128::from(secs) * 1_000_000_000 + i128::from(nanos);
        Ok(Fingerprint {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified_ns: nanos(meta.mtime(), meta.mtime_nsec()),
            changed_ns: nanos(meta.ctime(), meta.ctime_nsec()),
        })
    }

    /// All that it says.
    pub(crate) fn to_bytes(self) -> [u8; 56] {
        let mut bytes = [0; 56];
        let numbers = [self.device, self.inode, self.size].map(u64::to_be_bytes);
        bytes[..24].copy_from_slice(numbers.as_flattened());
        let times = [self.modified_ns, self.changed_ns].map(i128::to_be_bytes);
        bytes[24..].copy_from_slice(times.as_flattened());
        bytes
    }

    /// The file's length \[bytes\].
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether nothing says that the content is not that of the same file in an earlier state:
    /// length and time of the last modification are the same.
    pub(super) fn has_content_of(&self, earlier: &Self) -> bool {
        (self.size, self.modified_ns) == (earlier.size, earlier.modified_ns)
    }

    /// Whether the content was last changed at that time.
    pub(super) fn was_modified_at(&self, time: SystemTime) -> bool {
        let time = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        i128::try_from(time).is_ok_and(|time| time == self.modified_ns)
    }

    /// Whether the file had been left alone for long enough at that moment: by the time of its inode, which each write
    /// sets, and nobody else. The other may lie in the future for good.
    pub fn settled_at(&self, moment: SystemTime) -> bool {
        let moment = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        self.changed_ns < nanos(moment.saturating_sub(TICK))
            || self.changed_ns > nanos(moment.saturating_add(SET_BACK))
    }
}

/// Digests by the state of their files, in memory and, if a path is given, in a file that outlives the
/// process. What is wrong with that file costs no more than a digest computed again.
#[derive(Debug)]
pub struct DigestCache {
    path: Option<PathBuf>,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    digests: BTreeMap<Fingerprint, Digest>,
    order: VecDeque<Fingerprint>,
    /// Lines of the file, as far as this process knows.
    lines: usize,
}

impl Entries {
    fn insert(&mut self, fingerprint: Fingerprint, digest: Digest) {
        if self.digests.insert(fingerprint, digest).is_none() {
            self.order.push_back(fingerprint);
        }
        while self.order.len() > MAX_ENTRIES {
            if let Some(oldest) = self.order.pop_front() {
                self.digests.remove(&oldest);
            }
        }
    }
}

impl DigestCache {
    /// A cache that ends with the process.
    pub fn in_memory() -> Self {
        DigestCache { path: None, entries: Mutex::default() }
    }

    /// A cache in the file `digests` of that directory, which is made if it does not exist. Lines
    /// that do not read as ours are passed over.
    ///
    /// # Errors
    /// The directory can neither be found nor made.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let path = directory.join("digests");
        let (entries, stale) = load(&path);
        let cache = DigestCache { path: Some(path), entries: Mutex::new(entries) };
        if stale {
            cache.rewrite();
        }
        Ok(cache)
    }

    /// The cache of this user: `$XDG_CACHE_HOME/wellspring`, else `~/.cache/wellspring`; in memory
    /// when there is neither or it cannot be written.
    pub fn of_user() -> Self {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let base = base.filter(|base| base.is_absolute()).or_else(home);
        base.and_then(|base| Self::open(&base.join("wellspring")).ok())
            .unwrap_or_else(Self::in_memory)
    }

    /// The digest of a file in that state, if known.
    pub fn get(&self, fingerprint: &Fingerprint) -> Option<Digest> {
        self.lock().digests.get(fingerprint).copied()
    }

    /// Keeps a digest whose computation began at `began`. A file that was written just before is
    /// not kept: it might have been written again without a trace.
    pub fn insert(&self, fingerprint: Fingerprint, digest: Digest, began: SystemTime) {
        if fingerprint.settled_at(began) {
            self.keep(fingerprint, digest);
        }
    }

    /// Forgets the digest of a file in that state: it has turned out to be wrong.
    pub fn forget(&self, fingerprint: &Fingerprint) {
        let mut entries = self.lock();
        if entries.digests.remove(fingerprint).is_some() {
            entries.order.retain(|kept| kept != fingerprint);
            drop(entries);
            self.rewrite();
        }
    }

    /// Keeps the digest of a file that this process has itself written, verified and put in place:
    /// `fingerprint` is what [`PartFile::commit`](super::PartFile::commit) returned.
    pub fn insert_own(&self, fingerprint: Fingerprint, digest: Digest) {
        self.keep(fingerprint, digest);
    }

    fn keep(&self, fingerprint: Fingerprint, digest: Digest) {
        let mut entries = self.lock();
        if entries.digests.get(&fingerprint) == Some(&digest) {
            return;
        }
        entries.insert(fingerprint, digest);
        entries.lines += 1;
        let is_long = is_long(entries.lines, entries.order.len());
        drop(entries);
        if is_long {
            return self.rewrite();
        }
        let Some(path) = &self.path else { return };
        let line = to_line(&fingerprint, &digest);
        // One short write in append mode: lines of several processes do not mix.
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            tracing::warn!(path = %path.display(), %error, "cannot keep a digest on disk");
        }
    }

    /// Nodes of the hash tree of an object of that digest, as [`keep_nodes`](Self::keep_nodes) was given them, also by
    /// an earlier process. They are to be compared with the digest: anybody may have written the file.
    pub fn nodes(&self, digest: &Digest) -> Option<Vec<Node>> {
        node_files::read(&self.directory_of_nodes()?, digest)
    }

    /// Keeps nodes of an object's hash tree on the disk, 64 MiB of all objects together. A cache in memory
    /// keeps none.
    pub fn keep_nodes(&self, digest: &Digest, nodes: &[Node]) {
        if let Some(directory) = self.directory_of_nodes() {
            node_files::keep(&directory, digest, nodes);
        }
    }

    fn directory_of_nodes(&self) -> Option<PathBuf> {
        self.path.as_ref().map(|path| path.with_file_name("nodes"))
    }

    /// Writes the file afresh, without what it should not hold.
    fn rewrite(&self) {
        let Some(path) = &self.path else { return };
        let mut entries = self.lock();
        entries.lines = entries.order.len();
        let lines: String = entries
            .order
            .iter()
            .filter_map(|f| Some(to_line(f, entries.digests.get(f)?)))
            .collect();
        let written = AtomicFile::private(path, Existing::Replace).and_then(|mut file| {
            file.write_all(lines.as_bytes())?;
            file.finish()
        });
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "cannot write the cache of digests");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the file; says whether it should be written afresh.
fn load(path: &Path) -> (Entries, bool) {
    let mut entries = Entries::default();
    let mut bytes = Vec::new();
    let Ok(file) = File::open(path) else { return (entries, false) };
    if !file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_FILE_LEN) {
        return (entries, true);
    }
    if file.take(MAX_FILE_LEN).read_to_end(&mut bytes).is_err() {
        return (entries, true);
    }
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        entries.lines += 1;
        if let Some((fingerprint, digest)) = std::str::from_utf8(line).ok().and_then(from_line) {
            entries.insert(fingerprint, digest);
        }
    }
    let is_long = is_long(entries.lines, entries.order.len());
    (entries, is_long)
}

/// Whether a file of so many lines should be written afresh for that many entries.
fn is_long(lines: usize, entries: usize) -> bool {
    lines > entries + entries / 2 + 64
}

fn to_line(f: &Fingerprint, digest: &Digest) -> String {
    let body = format!(
        "1 {} {} {} {} {} {digest}",
        f.device, f.inode, f.size, f.modified_ns, f.changed_ns
    );
    let check = blake3::hash(body.as_bytes()).to_hex();
    format!("{body} {}\n", &check[..16])
}

fn from_line(line: &str) -> Option<(Fingerprint, Digest)> {
    let (body, check) = line.strip_suffix('\n')?.rsplit_once(' ')?;
    if blake3::hash(body.as_bytes()).to_hex()[..16] != *check {
        return None;
    }
    let mut fields = body.split(' ');
    if fields.next()? != "1" {
        return None;
    }
    let fingerprint = Fingerprint {
        device: fields.next()?.parse().ok()?,
        inode: fields.next()?.parse().ok()?,
        size: fields.next()?.parse().ok()?,
        modified_ns: fields.next()?.parse().ok()?,
        changed_ns: fields.next()?.parse().ok()?,
    };
    let digest = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some((fingerprint, digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settled(dir: &Path, name: &str, content: &[u8]) -> (File, Fingerprint) {
        let path = dir.join(name);
        fs::write(&path, content).expect("write");
        let file = File::open(&path).expect("open");
        let fingerprint = Fingerprint::of(&file).expect("stat");
        (file, fingerprint)
    }

    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_secs(1)
    }

    #[test]
    fn a_digest_outlives_the_process() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (_, fingerprint) = settled(dir.path(), "a", b"abc");
        let digest = Digest([7; 32]);
        let cache = DigestCache::open(&dir.path().join("cache")).expect("cache");
        assert_eq!(cache.get(&fingerprint), None);
        cache.insert(fingerprint, digest, later());
        let again = DigestCache::open(&dir.path().join("cache")).expect("cache");
        assert_eq!(again.get(&fingerprint), Some(digest));
    }

    #[test]
    fn a_file_written_again_is_another_file() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (_, before) = settled(dir.path(), "a", b"abc");
        let cache = DigestCache::in_memory();
        cache.insert(before, Digest([7; 32]), later());
        let (_, after) = settled(dir.path(), "a", b"abcd");
        assert_eq!(cache.get(&after), None);
    }

    #[test]
    fn a_file_written_a_moment_ago_is_not_kept() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (_, fingerprint) = settled(dir.path(), "a", b"abc");
        let cache = DigestCache::in_memory();
        let written = UNIX_EPOCH + Duration::from_nanos(fingerprint.modified_ns as u64);
        cache.insert(fingerprint, Digest([7; 32]), written + Duration::from_millis(1));
        assert_eq!(cache.get(&fingerprint), None);
    }

    #[test]
    fn a_file_from_the_future_is_kept_and_one_that_a_skewed_clock_wrote_is_not() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (file, _) = settled(dir.path(), "a", b"abc");
        let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
        file.set_modified(tomorrow).expect("set");
        let fingerprint = Fingerprint::of(&file).expect("stat");
        let keeps = |began| {
            let cache = DigestCache::in_memory();
            cache.insert(fingerprint, Digest([7; 32]), began);
            cache.get(&fingerprint).is_some()
        };
        assert!(keeps(later()), "written long ago, with a time of tomorrow");
        let yesterday = SystemTime::now() - Duration::from_secs(86_400);
        assert!(keeps(yesterday), "the clock was set back");
        assert!(!keeps(SystemTime::now() - Duration::from_secs(60)), "written this moment");
    }

    #[test]
    fn the_file_does_not_grow_with_what_it_has_already() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let cache = DigestCache::open(dir.path()).expect("cache");
        let (_, fingerprint) = settled(dir.path(), "a", b"abc");
        for round in 0..1_000_u32 {
            let fingerprint = Fingerprint { inode: u64::from(round % 2), ..fingerprint };
            let mut digest = Digest([0; 32]);
            digest.0[..4].copy_from_slice(&(round / 4).to_le_bytes());
            cache.insert_own(fingerprint, digest);
        }
        let path = dir.path().join("digests");
        let lines = fs::read_to_string(&path).expect("read").lines().count();
        assert!(lines <= 70, "{lines}");
        let again = DigestCache::open(dir.path()).expect("cache");
        let known = again.get(&Fingerprint { inode: 1, ..fingerprint }).expect("known");
        assert_eq!(known.0[..4], 249_u32.to_le_bytes());
    }

    #[test]
    fn corrupt_files_are_passed_over_and_mended() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (_, fingerprint) = settled(dir.path(), "a", b"abc");
        let home = dir.path().join("cache");
        DigestCache::open(&home).expect("cache").insert(fingerprint, Digest([7; 32]), later());
        let path = home.join("digests");
        let good = fs::read(&path).expect("read");
        let mut bad = b"\xff\xfe garbage\n".repeat(200);
        bad.extend_from_slice(&good);
        bad.extend_from_slice(&good[..good.len() / 2]);
        fs::write(&path, &bad).expect("write");
        let cache = DigestCache::open(&home).expect("cache");
        assert_eq!(cache.get(&fingerprint), Some(Digest([7; 32])));
        assert_eq!(fs::read(&path).expect("read"), good);
        fs::remove_file(&path).expect("remove");
        fs::create_dir(&path).expect("a directory in its place");
        assert_eq!(DigestCache::open(&home).expect("cache").get(&fingerprint), None);
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut entries = Entries::default();
        for inode in 0..MAX_ENTRIES as u64 + 10 {
            let fingerprint =
                Fingerprint { device: 1, inode, size: 1, modified_ns: 1, changed_ns: 1 };
            entries.insert(fingerprint, Digest([0; 32]));
        }
        assert_eq!((entries.order.len(), entries.digests.len()), (MAX_ENTRIES, MAX_ENTRIES));
    }

    proptest! {
        #[test]
        fn lines_read_back(
            device: u64, inode: u64, size: u64, m: i64, c: i64, digest: [u8; 32], cut in 1_usize..200,
        ) {
            let (modified_ns, changed_ns) = (i128::from(m) * 1_000, i128::from(c));
            let fingerprint = Fingerprint { device, inode, size, modified_ns, changed_ns };
            let line = to_line(&fingerprint, &Digest(digest));
            prop_assert_eq!(from_line(&line), Some((fingerprint, Digest(digest))));
            prop_assert_eq!(from_line(&line[..line.len() - cut.min(line.len())]), None);
        }

        #[test]
        fn noise_never_panics(line in "\\PC{0,80}") {
            let _ = from_line(&line);
        }
    }
}
