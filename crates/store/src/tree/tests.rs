//! Trees: walked, packed and written, by an attacker too.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

use wellspring_tree::{Content, Cursor, Modified, Selection, SkipReason};

use crate::Existing;

use super::{NextTree, PackError, Scan, Swapped, TreeTarget, Unpack, Wanted, read_pack, scan};

const ALL: Scan = Scan { hidden: true, deep: true, digests: false };
const TIME: Modified = Modified { seconds: 1_000_000_000, nanos: 7 };

fn open(path: &Path) -> OwnedFd {
    OwnedFd::from(std::fs::File::open(path).expect("directory"))
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("parent")).expect("directories");
    std::fs::write(path, bytes).expect("write");
}

/// Paths and contents of a listing.
fn shown(listing: &[u8]) -> Vec<String> {
    let mut cursor = Cursor::new(listing).expect("a listing");
    let mut entries = Vec::new();
    while let Some(entry) = cursor.next_entry().expect("a listing") {
        entries.push(match entry.content {
            Content::Directory => format!("{}/", entry.path),
            Content::File { size, .. } => format!("{} {size}", entry.path),
            Content::Link { target } => format!("{} -> {target}", entry.path),
            Content::Skipped(reason) => format!("{}: {reason:?}", entry.path),
        });
    }
    entries
}

#[test]
fn a_walk_lists_what_can_be_part_of_a_tree_and_says_what_is_skipped() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().expect("directory");
    let at = |path: &str| dir.path().join(path);
    write(&at("a/x"), b"123");
    write(&at("a/.hidden"), b"1");
    write(&at("b"), b"");
    write(&at(".b.wellspring-00ff.part"), b"part");
    write(&dir.path().join(std::ffi::OsStr::from_bytes(b"\xff\n")), b"1");
    symlink("a/x", at("inside")).expect("link");
    symlink("../x", at("outside")).expect("link");
    symlink("/etc/passwd", at("a/absolute")).expect("link");
    rustix::fs::mknodat(
        open(dir.path()),
        "pipe",
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("pipe");
    let listed = |how| shown(scan(&open(dir.path()), how).expect("a walk").as_bytes());
    let mut expected = vec![
        "a/",
        "a/.hidden 1",
        "a/absolute: LeadsOut",
        "a/x 3",
        "b 0",
        "inside -> a/x",
        "outside: LeadsOut",
        "pipe: Special",
        "\u{fffd}\u{fffd}: Name",
    ];
    assert_eq!(listed(ALL), expected);
    expected.remove(1);
    assert_eq!(listed(Scan { hidden: false, ..ALL }), expected);
    expected.drain(1..3);
    assert_eq!(listed(Scan { hidden: false, deep: false, ..ALL }), expected);
    assert_eq!(SkipReason::Special.to_string(), "is a device, a socket or a pipe");
}

#[test]
fn a_pack_has_the_selected_files_as_they_are_listed_or_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    for (path, bytes) in [("a", "first"), ("d/b", "second"), ("d/e/c", ""), ("d/f", "third")] {
        write(&dir.path().join(path), bytes.as_bytes());
    }
    let root = open(dir.path());
    let listing = scan(&root, ALL).expect("a walk");
    let pack = |files: &str| {
        let cursor = Cursor::new(listing.as_bytes()).expect("a listing");
        read_pack(&root, cursor, &Selection::parse(files).expect("a selection"))
    };
    assert_eq!(pack("0x4").expect("a pack"), b"firstsecondthird");
    assert_eq!(pack("1,1").expect("a pack"), b"secondthird");
    assert!(matches!(pack("3x2"), Err(PackError::NoSuchFile)));
    // The same length at another time.
    write(&dir.path().join("d/b"), b"SECOND");
    let file = std::fs::File::options().write(true).open(dir.path().join("d/b")).expect("open");
    file.set_modified(std::time::UNIX_EPOCH).expect("a time");
    assert!(matches!(pack("0x4"), Err(PackError::Changed(path)) if path == "d/b"));
    assert_eq!(pack("0,2").expect("a pack"), b"firstthird");
    // A link to the same file is not that file.
    std::fs::rename(dir.path().join("a"), dir.path().join("d/a")).expect("rename");
    symlink("d/a", dir.path().join("a")).expect("link");
    assert!(pack("0").is_err());
}

fn wanted(path: &str, size: u64) -> Wanted {
    Wanted { path: path.into(), size, mode: 0o640, modified: TIME }
}

#[test]
fn a_file_takes_its_name_with_its_last_byte_and_keeps_the_old_one_until_then() {
    let dir = tempfile::tempdir().expect("directory");
    write(&dir.path().join("d/a"), b"old");
    let target = TreeTarget::open(dir.path(), true).expect("a target");
    let done = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&done);
    let files = vec![wanted("d/a", 6), wanted("b", 4)];
    let mut unpack = Unpack::new(target, files, move |file| {
        seen.lock().expect("no panic").push(file.path.clone());
    });
    unpack.write_all(b"first").expect("written");
    assert_eq!(std::fs::read(dir.path().join("d/a")).expect("read"), b"old");
    unpack.write_all(b"!sec").expect("written");
    assert_eq!(*done.lock().expect("no panic"), ["d/a"]);
    assert!(unpack.flush().is_err(), "b is not whole");
    drop(unpack);
    let path = dir.path().join("d/a");
    assert_eq!(std::fs::read(&path).expect("read"), b"first!");
    let meta = path.metadata().expect("stat");
    assert_eq!(meta.permissions().mode() & 0o777, 0o640);
    let left = scan(&open(dir.path()), ALL).expect("a walk");
    assert_eq!(shown(left.as_bytes()), ["d/", "d/a 6"], "nothing is left of b");
    let names = std::fs::read_dir(dir.path()).expect("directory").count();
    assert_eq!(names, 1, "no part file either");
}

#[test]
fn bytes_beyond_a_packs_files_are_refused() {
    let dir = tempfile::tempdir().expect("directory");
    let target = TreeTarget::open(dir.path(), true).expect("a target");
    let mut unpack = Unpack::new(target, vec![wanted("a", 2)], |_| {});
    assert!(unpack.write_all(b"abc").is_err());
}

#[test]
fn nothing_is_written_through_a_link() {
    let outside = tempfile::tempdir().expect("directory");
    let dir = tempfile::tempdir().expect("directory");
    write(&outside.path().join("victim"), b"safe");
    symlink(outside.path(), dir.path().join("d")).expect("link");
    symlink(outside.path().join("victim"), dir.path().join("f")).expect("link");
    let mut target = TreeTarget::open(dir.path(), true).expect("a target");
    assert!(target.begin_file("d/victim").is_err());
    assert!(target.make_link("d/x", "y", TIME, Existing::Replace).is_err());
    assert!(target.set("d/victim", 0o777, TIME).is_err());
    assert!(target.set("f", 0o777, TIME).is_err());
    assert!(target.remove("d/victim").is_err());
    // A link of the name of a file is replaced, not followed.
    let mut file = target.begin_file("f").expect("a file");
    file.write_all(b"new").expect("written");
    file.finish(0o600, TIME, Existing::Replace).expect("in place");
    // And so is one of the name of a directory.
    target.make_directory("d", Existing::Replace).expect("a directory");
    target.remove("f").expect("removed");
    assert_eq!(std::fs::read(outside.path().join("victim")).expect("read"), b"safe");
    assert_eq!(std::fs::read_dir(outside.path()).expect("directory").count(), 1);
}

#[test]
fn a_directory_is_removed_with_what_is_in_it_and_links_in_it_lead_nowhere() {
    let outside = tempfile::tempdir().expect("directory");
    write(&outside.path().join("victim"), b"safe");
    let dir = tempfile::tempdir().expect("directory");
    write(&dir.path().join("d/e/f"), b"1");
    symlink(outside.path(), dir.path().join("d/link")).expect("link");
    let mut target = TreeTarget::open(dir.path(), true).expect("a target");
    target.remove("d").expect("removed");
    assert_eq!(std::fs::read_dir(dir.path()).expect("directory").count(), 0);
    assert!(outside.path().join("victim").exists());
}

#[test]
fn a_pack_that_is_put_leaves_alone_what_is_there_and_replaces_only_if_asked_to() {
    let dir = tempfile::tempdir().expect("directory");
    let unpack = |bytes: &[u8], existing| {
        let target = TreeTarget::open(dir.path(), true).expect("a target");
        let files = vec![wanted("a", 3), wanted("b", 3)];
        let mut unpack = Unpack::new(target, files, |_| {}).of_put(existing);
        // Another session puts the same file before this one is through with it.
        unpack.write_all(&bytes[..1])?;
        if !dir.path().join("a").exists() {
            let target = TreeTarget::open(dir.path(), true).expect("a target");
            let files = vec![wanted("a", 3)];
            let mut other = Unpack::new(target, files, |_| {}).of_put(Existing::Keep);
            other.write_all(b"one").expect("written");
        }
        unpack.write_all(&bytes[1..])?;
        unpack.flush()
    };
    let read = |path: &str| std::fs::read(dir.path().join(path)).expect("read");
    unpack(b"onetwo", Existing::Keep).expect("unpacked");
    assert_eq!((read("a"), read("b")), (b"one".to_vec(), b"two".to_vec()));
    write(&dir.path().join("b"), b"mine");
    let error = unpack(b"onetwo", Existing::Keep).expect_err("b is another's");
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(read("b"), b"mine");
    unpack(b"ONEtwo", Existing::Replace).expect("unpacked");
    assert_eq!(
        (read("a"), read("b")),
        (b"one".to_vec(), b"two".to_vec()),
        "a has its time already"
    );
}

#[test]
fn a_tree_takes_the_place_of_another_at_once_and_what_is_written_to_it_does_not_show_before() {
    use std::os::unix::fs::MetadataExt;
    let home = tempfile::tempdir().expect("directory");
    let target = home.path().join("t");
    write(&target.join("d/same"), b"same");
    write(&target.join("old"), b"old");
    symlink("d/same", target.join("link")).expect("link");
    let inode = std::fs::metadata(target.join("d/same")).expect("stat").ino();
    let before = std::fs::metadata(target.join("d")).expect("stat").modified().expect("time");

    let next = NextTree::beside(&target).expect("a tree beside");
    let mut at = TreeTarget::open(next.path(), false).expect("a target");
    let mut file = at.begin_file("old").expect("a file");
    file.write_all(b"new").expect("written");
    file.finish(0o600, TIME, Existing::Replace).expect("in place");
    at.remove("link").expect("removed");
    assert_eq!(std::fs::read(target.join("old")).expect("read"), b"old");
    assert!(target.join("link").exists());
    // Killed here: the next one goes on with it.
    drop(next);
    let next = NextTree::beside(&target).expect("a tree beside");
    assert_eq!(std::fs::read(next.path().join("old")).expect("read"), b"new");
    assert_ne!(next.swap().expect("swapped"), Swapped::New);
    assert_eq!(std::fs::read(target.join("old")).expect("read"), b"new");
    assert!(!target.join("link").exists());
    let same = std::fs::metadata(target.join("d/same")).expect("stat");
    assert_eq!(same.ino(), inode, "no bytes were copied");
    let after = std::fs::metadata(target.join("d")).expect("stat").modified().expect("time");
    assert_eq!(before, after);
    assert_eq!(std::fs::read_dir(home.path()).expect("directory").count(), 1, "nothing is left");
    let new = NextTree::beside(&home.path().join("u")).expect("a tree beside");
    assert_eq!(new.swap().expect("swapped"), Swapped::New);
    assert!(home.path().join("u").is_dir());
}

#[test]
fn what_the_next_tree_cannot_have_is_named_before_anything_is_done() {
    let home = tempfile::tempdir().expect("directory");
    let target = home.path().join("t");
    write(&target.join("x"), b"x");
    symlink("/etc/passwd", target.join("out")).expect("link");
    let error = NextTree::beside(&target).expect_err("a link that leads out").to_string();
    assert!(error.contains("out") && error.contains("would be lost"), "{error}");
    assert!(target.join("x").exists());
    // Put right, it is done.
    std::fs::remove_file(target.join("out")).expect("removed");
    NextTree::beside(&target).expect("a tree beside").swap().expect("swapped");
    assert_eq!(std::fs::read_dir(home.path()).expect("directory").count(), 1);
}
