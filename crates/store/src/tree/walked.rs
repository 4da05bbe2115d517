//! Digests that one walk of a tree leaves to the next.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::objects::{Digest, Fingerprint};

/// A file that is in the same state after so long has been left alone, whatever the clocks say: that of a file server may be
/// ahead of this host's.
const LEFT_ALONE: Duration = Duration::from_millis(20);

/// Digests of files in the states in which walks have read them.
#[derive(Debug, Default)]
pub struct WalkedDigests(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    digests: BTreeMap<Fingerprint, Digest>,
    /// States that may be those of files that are just being written, since when.
    seen: BTreeMap<Fingerprint, Instant>,
}

impl WalkedDigests {
    pub(super) fn get(&self, fingerprint: &Fingerprint) -> Option<Digest> {
        self.lock().digests.get(fingerprint).copied()
    }

    pub(super) fn add(&self, fingerprint: Fingerprint, digest: Digest) {
        self.lock().digests.insert(fingerprint, digest);
    }

    /// Whether a file had that state a while ago, too.
    pub(super) fn has_seen(&self, fingerprint: &Fingerprint) -> bool {
        let mut kept = self.lock();
        match kept.seen.get(fingerprint) {
            Some(since) => since.elapsed() >= LEFT_ALONE,
            None => {
                kept.seen.insert(*fingerprint, Instant::now());
                false
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a walk has to do with those before it.
#[derive(Clone, Copy, Debug, Default)]
pub enum Walked<'a> {
    /// Nothing.
    #[default]
    Nothing,
    /// It reads what they have not, and leaves that to those after it.
    Adds(&'a WalkedDigests),
    /// It must not take long: files of 1 MiB or more are read by those before it alone. One that they have not, or that has changed since,
    /// is [changed](super::ScanError::Changed).
    Relies(&'a WalkedDigests),
}

impl<'a> Walked<'a> {
    pub(super) fn digests(self) -> Option<&'a WalkedDigests> {
        match self {
            Walked::Nothing => None,
            Walked::Adds(digests) | Walked::Relies(digests) => Some(digests),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::time::SystemTime;

    use super::super::{Scan, ScanError, ScanHelp, scan_with};
    use super::*;
    use crate::objects::HashProgress;

    /// Waits until a file that was written counts as left alone.
    fn settle(path: &std::path::Path) {
        let settled = || {
            let file = File::open(path).expect("open");
            Fingerprint::of(&file).expect("stat").settled_at(SystemTime::now())
        };
        while !settled() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_walk_that_relies_on_another_reads_no_long_file() {
        let dir = tempfile::tempdir().expect("directory");
        let write = |name: &str, byte, len| {
            let path = dir.path().join(name);
            std::fs::write(&path, vec![byte; len]).expect("written");
            settle(&path);
        };
        write("long", 7, 2 << 20);
        write("short", 8, 5_000);
        let root = OwnedFd::from(File::open(dir.path()).expect("open"));
        let how = Scan { digests: true, ..Scan::ALL };
        let digests = WalkedDigests::default();
        let walk = |walked| {
            let progress = HashProgress::default();
            let help = ScanHelp { digests: None, progress: &progress, walked };
            let listing = scan_with(&root, how, help);
            listing.map(|listing| (listing.into_bytes(), progress.done()))
        };
        let relies = || walk(Walked::Relies(&digests));
        assert!(matches!(relies(), Err(ScanError::Changed(path)) if path == "long"));
        let (first, read) = walk(Walked::Adds(&digests)).expect("walked");
        assert_eq!(read, (2 << 20) + 5_000);
        assert_eq!(relies().expect("walked"), (first, 0));
        write("short", 9, 6_000);
        assert_eq!(relies().expect("walked").1, 6_000, "what has changed, and is soon read");
        write("long", 9, 2 << 20);
        assert!(matches!(relies(), Err(ScanError::Changed(path)) if path == "long"));
        assert_eq!(walk(Walked::Adds(&digests)).expect("walked").1, 2 << 20);
        assert_eq!(relies().expect("walked").1, 0);
    }

    #[test]
    fn a_file_that_stays_as_it_is_has_been_left_alone_whatever_the_clocks_say() {
        let file = tempfile::tempfile().expect("temporary file");
        let state = Fingerprint::of(&file).expect("stat");
        let digests = WalkedDigests::default();
        assert!(!digests.has_seen(&state));
        while !digests.has_seen(&state) {
            std::thread::yield_now();
        }
    }
}
