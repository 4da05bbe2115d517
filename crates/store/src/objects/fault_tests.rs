//! Part files on a disk whose calls fail, or come at a bad time.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use rustix::fs::getxattr;
use wellspring_tree::{Attributes, Keeps, Modified, Owner, Xattrs};

use super::*;
use crate::Existing;
use crate::tree::Meta;

type Deed = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// A disk on which something happens at one call.
#[derive(Default)]
struct OddDisk {
    at_sync: Mutex<Option<Deed>>,
    /// At the lock after so many.
    at_lock: Mutex<(usize, Option<Deed>)>,
    at_sync_directory: Mutex<Option<Deed>>,
    directory_syncs: AtomicUsize,
}

impl fmt::Debug for OddDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OddDisk")
    }
}

impl Disk for OddDisk {
    fn sync(&self, file: &File) -> io::Result<()> {
        let deed = self.at_sync.lock().expect("no panic").take();
        deed.map_or(Ok(()), |deed| deed())?;
        SystemDisk.sync(file)
    }

    fn lock(&self, file: &File) -> io::Result<()> {
        let deed = {
            let (before, deed) = &mut *self.at_lock.lock().expect("no panic");
            *before = before.wrapping_sub(1);
            if *before == usize::MAX { deed.take() } else { None }
        };
        deed.map_or(Ok(()), |deed| deed())?;
        SystemDisk.lock(file)
    }

    fn sync_directory(&self, directory: &OwnedFd) -> io::Result<()> {
        let deed = self.at_sync_directory.lock().expect("no panic").take();
        deed.map_or(Ok(()), |deed| deed())?;
        self.directory_syncs.fetch_add(1, Relaxed);
        SystemDisk.sync_directory(directory)
    }
}

const BYTES: &[u8] = b"hello";

fn resumed(disk: &Arc<OddDisk>, path: &Path) -> PartFile {
    let digest = Digest(*blake3::hash(BYTES).as_bytes());
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let part = PartFile::resumed_beside_on(disk, path, 5, digest, Existing::Replace);
    part.expect("made")
}

fn files(directory: &Path) -> usize {
    fs::read_dir(directory).expect("directory").count()
}

#[test]
fn a_part_file_whose_sync_failed_is_taken_up_by_nobody() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let disk = Arc::new(OddDisk::default());
    let fails: Deed = Box::new(|| Err(io::Error::other("the disk failed")));
    *disk.at_sync.lock().expect("no panic") = Some(fails);
    let part = resumed(&disk, &dir.path().join("x"));
    part.write_block(0, BYTES).expect("written");
    assert!(part.commit().is_err());
    // Before it is dropped: its process may be killed.
    assert_eq!(files(dir.path()), 0);
    let again = resumed(&disk, &dir.path().join("x"));
    drop(part);
    assert!(!again.has_old_bytes());
    again.write_block(0, BYTES).expect("written");
    again.commit().expect("in place");
    assert_eq!(fs::read(dir.path().join("x")).expect("read"), BYTES);
}

#[test]
fn who_may_not_have_its_name_on_the_disk_is_told_that_it_has_it() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let disk = Arc::new(OddDisk::default());
    let fails: Deed = Box::new(|| Err(io::Error::other("the disk failed")));
    let part = resumed(&disk, &dir.path().join("x"));
    part.write_block(0, BYTES).expect("written");
    *disk.at_sync_directory.lock().expect("no panic") = Some(fails);
    assert!(matches!(part.commit(), Err(StoreError::Unsynced(_))));
    drop(part);
    assert_eq!(fs::read(dir.path().join("x")).expect("read"), BYTES);
}

#[test]
fn a_file_of_a_tree_has_its_attributes_mode_and_time_before_it_has_its_name() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let disk = Arc::new(OddDisk::default());
    let keeps = Keeps { xattrs: true, ..Keeps::default() };
    let xattrs = Xattrs::to_bytes(&mut [("user.note".into(), b"of the tree".to_vec())]);
    let xattrs = xattrs.expect("short");
    let xattrs = Xattrs::parse(&xattrs, keeps).expect("attributes");
    let attributes = Attributes { keeps, owner: Owner::default(), xattrs }.into();
    let modified = Modified { seconds: 7, nanos: 0 };
    let time = modified.to_system().expect("a time");
    let (path, seen) = (dir.path().to_owned(), Arc::new(Mutex::new(false)));
    let looked = Arc::clone(&seen);
    let looks: Deed = Box::new(move || {
        let part = fs::read_dir(&path).expect("directory").next().expect("a file").expect("entry");
        let meta = part.metadata().expect("stat");
        assert_eq!(meta.permissions().mode() & 0o7777, 0o640);
        let len = getxattr(part.path(), "user.note", &mut [0; 16]).expect("an attribute");
        *looked.lock().expect("no panic") =
            len == b"of the tree".len() && meta.modified().expect("a time") == time;
        Ok(())
    });
    *disk.at_sync.lock().expect("no panic") = Some(looks);
    let part = resumed(&disk, &dir.path().join("x"));
    part.write_block(0, BYTES).expect("written");
    part.commit_as(&Meta { mode: 0o640, modified, attributes }).expect("in place");
    assert!(*seen.lock().expect("no panic"), "it may be killed here");
    assert_eq!(fs::read(dir.path().join("x")).expect("read"), BYTES);
}

#[test]
fn a_part_file_that_got_its_name_before_it_was_locked_is_not_taken_up() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("x");
    let disk = Arc::new(OddDisk::default());
    let first = resumed(&disk, &path);
    first.write_block(0, BYTES).expect("written");
    // The second lock is that of the part file that is there.
    let commits: Deed = Box::new(move || first.commit().map(drop).map_err(io::Error::other));
    *disk.at_lock.lock().expect("no panic") = (2, Some(commits));
    let second = resumed(&disk, &path);
    let mode = || fs::metadata(&path).expect("in place").permissions().mode() & 0o777;
    let usual = mode();
    assert_ne!(usual, 0o600, "the object is not a part file");
    second.write_block(0, BYTES).expect("written");
    second.commit().expect("in place");
    assert_eq!(mode(), usual);
    assert_eq!(files(dir.path()), 1);
}

#[test]
fn a_part_file_that_cannot_be_locked_is_not_taken_up() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let disk = Arc::new(OddDisk::default());
    let first = resumed(&disk, &dir.path().join("x"));
    first.write_block(0, BYTES).expect("written");
    drop(first);
    let fails: Deed = Box::new(|| Err(io::Error::other("the disk failed")));
    // Before it are that of the look for useless ones, twice, and that of its own part file.
    *disk.at_lock.lock().expect("no panic") = (2, Some(fails));
    let second = resumed(&disk, &dir.path().join("x"));
    assert!(!second.has_old_bytes());
    assert_eq!(files(dir.path()), 2, "one of its own");
}

#[test]
fn an_object_in_a_directory_that_another_one_has_made_is_complete_when_the_directory_is_on_the_disk()
 {
    for fails in [false, true] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let disk = Arc::new(OddDisk::default());
        let on = Arc::clone(&disk) as Arc<dyn Disk>;
        let store = Store::open_on(on, dir.path(), Limits { keep_free: 0, ..Limits::default() });
        let store = Arc::new(store.expect("a directory"));
        let digest = Digest(*blake3::hash(BYTES).as_bytes());
        let (syncs, inner) = (Arc::downgrade(&disk), Arc::clone(&store));
        let name = |name| ObjectName::new(name).expect("a name");
        // While the directory is made that both want, and is there, but not on the disk.
        let meanwhile: Deed = Box::new(move || {
            let second = inner.create(&name("a/y"), 5, digest, Existing::Keep).expect("made");
            second.write_block(0, BYTES).expect("written");
            let before = syncs.upgrade().expect("there").directory_syncs.load(Relaxed);
            assert!(before >= 1, "the name of the directory");
            second.commit().expect("in place");
            if fails { Err(io::Error::other("the disk failed")) } else { Ok(()) }
        });
        *disk.at_sync_directory.lock().expect("no panic") = Some(meanwhile);
        let first = store.create(&name("a/x"), 5, digest, Existing::Keep);
        assert_eq!(first.is_err(), fails);
        drop(first);
        let before = disk.directory_syncs.load(Relaxed);
        drop(store.create(&name("a/z"), 5, digest, Existing::Keep).expect("made"));
        assert_eq!(
            disk.directory_syncs.load(Relaxed) - before,
            0,
            "known to be on the disk by now"
        );
        assert_eq!(fs::read(dir.path().join("a/y")).expect("read"), BYTES);
    }
}

#[test]
fn an_object_whose_directory_goes_in_the_moment_it_gets_its_name_is_not_complete() {
    let home = tempfile::tempdir().expect("temporary directory");
    let (served, old) = (home.path().join("served"), home.path().join("old"));
    fs::create_dir(&served).expect("made");
    let disk = Arc::new(OddDisk::default());
    let on = Arc::clone(&disk) as Arc<dyn Disk>;
    let store = Store::open_on(on, &served, Limits { keep_free: 0, ..Limits::default() });
    let store = store.expect("a directory");
    let digest = Digest(*blake3::hash(BYTES).as_bytes());
    let name = ObjectName::new("x").expect("a name");
    let part = store.create(&name, 5, digest, Existing::Keep).expect("made");
    part.write_block(0, BYTES).expect("written");
    let swaps: Deed = Box::new(move || {
        fs::rename(&served, &old)?;
        fs::create_dir(&served)
    });
    *disk.at_sync_directory.lock().expect("no panic") = Some(swaps);
    assert!(matches!(part.commit(), Err(StoreError::Replaced(_))));
    assert!(matches!(store.open_object(&name), Err(StoreError::NotFound(_))));
}
