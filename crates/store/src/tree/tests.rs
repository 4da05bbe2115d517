//! Trees: walked, packed and written, by an attacker too.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr, setxattr};
use wellspring_tree::{
    Attributes, Content, Cursor, Keeps, Modified, Owner, Selection, SkipReason, Xattrs,
};

use crate::{Existing, Fingerprint};

use super::{
    LinksOut, Meta, NextTree, PackError, Scan, Swapped, TreeFilter, TreeTarget, Unpack, Wanted,
    read_pack, scan,
};

pub(super) const ALL: Scan =
    Scan { hidden: true, deep: true, digests: false, keeps: NOTHING, links_out: LinksOut::Skipped };
const NOTHING: Keeps = Keeps { owner: false, xattrs: false, acls: false };
const TIME: Modified = Modified { seconds: 1_000_000_000, nanos: 7 };

pub(super) fn open(path: &Path) -> OwnedFd {
    OwnedFd::from(std::fs::File::open(path).expect("directory"))
}

pub(super) fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("parent")).expect("directories");
    std::fs::write(path, bytes).expect("write");
}

/// Paths and contents of a listing.
pub(super) fn shown(listing: &[u8]) -> Vec<String> {
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
        read_pack(&root, cursor, &Selection::parse(files).expect("a selection"), ALL.links_out)
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

fn meta(mode: u16) -> Meta {
    Meta { mode, modified: TIME, ..Meta::default() }
}

fn wanted(path: &str, size: u64) -> Wanted {
    Wanted { path: path.into(), size, meta: meta(0o640) }
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
    assert_eq!(names, 2, "no part file either: the note of what may not be on the disk");
}

#[test]
fn the_last_block_of_a_file_is_written_even_if_it_is_all_zeros() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().expect("directory");
    let target = TreeTarget::open(dir.path(), true).expect("a target");
    let mut unpack = Unpack::new(target, vec![wanted("zeros", 16_384)], |_| {});
    unpack.write_all(&[0; 16_384]).expect("written");
    let stat = dir.path().join("zeros").metadata().expect("stat");
    assert_eq!(stat.len(), 16_384);
    // A length that was set would be on the disk before any bytes.
    assert!((1..32).contains(&stat.blocks()), "{} blocks", stat.blocks());
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
    assert!(target.begin_file("d/victim", 0o600).is_err());
    assert!(target.make_link("d/x", "y", &meta(0), Existing::Replace).is_err());
    let victim = std::fs::File::open(outside.path().join("victim")).expect("open");
    let read = read(&victim);
    assert!(target.set_file("d/victim", &read, &meta(0o777)).is_err());
    assert!(!target.set_file("f", &read, &meta(0o777)).expect("a link"));
    assert!(target.set_directory("d", &meta(0o777)).is_err());
    target.remove("d/victim").expect("nothing of that name is there");
    // A link of the name of a file is replaced, not followed.
    let mut file = target.begin_file("f", 0o600).expect("a file");
    file.write_all(b"new").expect("written");
    file.finish(&meta(0o600), Existing::Replace).expect("in place");
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
    let unpack = |bytes: &[u8], existing, by_digests| {
        let target = TreeTarget::open(dir.path(), true).expect("a target");
        let files = vec![wanted("a", 3), wanted("b", 3)];
        let mut unpack = Unpack::new(target, files, |_| {}).of_put(existing, by_digests);
        // Another session puts the same file before this one is through with it.
        unpack.write_all(&bytes[..1])?;
        if !dir.path().join("a").exists() {
            let target = TreeTarget::open(dir.path(), true).expect("a target");
            let files = vec![wanted("a", 3)];
            let mut other = Unpack::new(target, files, |_| {}).of_put(Existing::Keep, false);
            other.write_all(b"one").expect("written");
        }
        unpack.write_all(&bytes[1..])?;
        unpack.flush()
    };
    let read = |path: &str| std::fs::read(dir.path().join(path)).expect("read");
    unpack(b"onetwo", Existing::Keep, false).expect("unpacked");
    assert_eq!((read("a"), read("b")), (b"one".to_vec(), b"two".to_vec()));
    write(&dir.path().join("b"), b"mine");
    let error = unpack(b"onetwo", Existing::Keep, false).expect_err("b is another's");
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(read("b"), b"mine");
    unpack(b"ONEtwo", Existing::Replace, false).expect("unpacked");
    assert_eq!(
        (read("a"), read("b")),
        (b"one".to_vec(), b"two".to_vec()),
        "a has its time already"
    );
    unpack(b"ONEtwo", Existing::Replace, true).expect("unpacked");
    assert_eq!(read("a"), b"ONE", "its time says nothing of its bytes");
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
    let mut file = at.begin_file("old", 0o600).expect("a file");
    file.write_all(b"new").expect("written");
    file.finish(&meta(0o600), Existing::Replace).expect("in place");
    at.remove("link").expect("removed");
    assert_eq!(std::fs::read(target.join("old")).expect("read"), b"old");
    assert!(target.join("link").exists());
    // Killed here: the next one goes on with it.
    drop(next);
    let next = NextTree::beside(&target).expect("a tree beside");
    assert_eq!(std::fs::read(next.path().join("old")).expect("read"), b"new");
    assert_ne!(next.swap(None).expect("swapped"), Swapped::New);
    assert_eq!(std::fs::read(target.join("old")).expect("read"), b"new");
    assert!(!target.join("link").exists());
    let same = std::fs::metadata(target.join("d/same")).expect("stat");
    assert_eq!(same.ino(), inode, "no bytes were copied");
    let after = std::fs::metadata(target.join("d")).expect("stat").modified().expect("time");
    assert_eq!(before, after);
    assert_eq!(std::fs::read_dir(home.path()).expect("directory").count(), 1, "nothing is left");
    let new = NextTree::beside(&home.path().join("above/u")).expect("a tree beside");
    assert_eq!(new.swap(None).expect("swapped"), Swapped::New);
    assert!(home.path().join("above/u").is_dir());
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
    assert_eq!(std::fs::read_dir(home.path()).expect("directory").count(), 1);
    // Put right, it is done.
    std::fs::remove_file(target.join("out")).expect("removed");
    NextTree::beside(&target).expect("a tree beside").swap(None).expect("swapped");
    assert_eq!(std::fs::read_dir(home.path()).expect("directory").count(), 1);
}

/// Whether files of that directory have extended attributes: on some file systems they have none.
fn has_xattrs(dir: &Path) -> bool {
    setxattr(dir, "user.try", b"", XattrFlags::empty()).is_ok()
}

fn read(file: &std::fs::File) -> Fingerprint {
    Fingerprint::of(file).expect("stat")
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).expect("open");
    let mut value = vec![0; 64];
    let len = fgetxattr(&file, name, &mut value).ok()?;
    value.truncate(len);
    Some(value)
}

#[test]
fn owners_and_attributes_are_listed_if_asked_for_and_given_to_what_is_written() {
    let (from, to) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    if !has_xattrs(from.path()) || !has_xattrs(to.path()) {
        // Linux has them nearly everywhere.
        if cfg!(target_os = "linux") {
            panic!("TMPDIR has no extended attributes");
        }
        return;
    }
    write(&from.path().join("d/f"), b"bytes");
    for (path, name, value) in [("d/f", "user.a", "one"), ("d", "user.d", "of d")] {
        let path = from.path().join(path);
        setxattr(path, name, value.as_bytes(), XattrFlags::empty()).expect("set");
    }
    let keeps = Keeps { owner: true, xattrs: true, acls: true };
    let listing = scan(&open(from.path()), Scan { keeps, ..ALL }).expect("a walk");
    let plain = scan(&open(from.path()), ALL).expect("a walk");
    let mut cursor = Cursor::new(plain.as_bytes()).expect("a listing");
    while let Some(entry) = cursor.next_entry().expect("valid") {
        assert_eq!(entry.attributes, Attributes::default());
    }
    write(&to.path().join("d/f"), b"other");
    let old = std::fs::File::open(to.path().join("d/f")).expect("open");
    for name in ["user.gone", "user.a"] {
        fsetxattr(&old, name, b"old", XattrFlags::empty()).expect("set");
    }
    let mut target = TreeTarget::open(to.path(), false).expect("a target");
    let mut cursor = Cursor::new(listing.as_bytes()).expect("a listing");
    let own = rustix::process::geteuid().as_raw();
    while let Some(entry) = cursor.next_entry().expect("valid") {
        assert_eq!(entry.attributes.owner.user, own, "{}", entry.path);
        let meta = Meta::from(&entry);
        match entry.content {
            Content::Directory => target.set_directory(entry.path, &meta).expect("set"),
            _ => assert!(target.set_file(entry.path, &read(&old), &meta).expect("set")),
        }
    }
    let again = scan(&open(to.path()), Scan { keeps, ..ALL }).expect("a walk");
    let file = to.path().join("d/f");
    assert_eq!(xattr(&file, "user.a"), Some(b"one".to_vec()));
    assert_eq!(xattr(&file, "user.gone"), None, "what the tree does not have goes");
    assert_eq!(xattr(&to.path().join("d"), "user.d"), Some(b"of d".to_vec()));
    // The directory's own time is the last to be set by who writes the tree.
    assert_eq!(again.as_bytes().len(), listing.as_bytes().len());
}

#[test]
fn the_owner_of_a_file_is_given_by_root_alone() {
    let dir = tempfile::tempdir().expect("directory");
    write(&dir.path().join("f"), b"x");
    let mut target = TreeTarget::open(dir.path(), false).expect("a target");
    let owner = Owner { user: 12_345, group: 54_321 };
    let keeps = Keeps { owner: true, ..NOTHING };
    let attributes = Attributes { keeps, owner, xattrs: Xattrs::default() };
    let owned = Meta { attributes: attributes.into(), ..meta(0o644) };
    let is_root = rustix::process::geteuid().is_root();
    let file = std::fs::File::open(dir.path().join("f")).expect("open");
    assert_eq!(target.set_file("f", &read(&file), &owned).is_ok(), is_root);
    assert_eq!(target.make_link("l", "f", &owned, Existing::Keep).is_ok(), is_root);
    if is_root {
        for name in ["f", "l"] {
            use std::os::unix::fs::MetadataExt;
            let meta = dir.path().join(name).symlink_metadata().expect("stat");
            assert_eq!((meta.uid(), meta.gid()), (12_345, 54_321), "{name}");
        }
    }
}

#[test]
fn runs_of_zeros_in_packed_files_become_holes() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().expect("directory");
    let mut bytes = vec![0; 600_000];
    bytes[300_000] = 1;
    let target = TreeTarget::open(dir.path(), true).expect("a target");
    let files = vec![wanted("holes", 600_000), wanted("zeros", 8_192)];
    let mut unpack = Unpack::new(target, files, |_| {});
    for piece in bytes.chunks(131_072) {
        unpack.write_all(piece).expect("written");
    }
    unpack.write_all(&[0; 8_192]).expect("written");
    unpack.flush().expect("whole");
    let path = dir.path().join("holes");
    assert_eq!(std::fs::read(&path).expect("read"), bytes);
    assert!(path.metadata().expect("stat").blocks() * 512 <= 64 << 10, "{:?}", path.metadata());
    assert_eq!(std::fs::read(dir.path().join("zeros")).expect("read"), [0; 8_192]);
}

#[test]
fn the_next_tree_adopts_what_the_other_has_and_the_listing_does_not() {
    let home = tempfile::tempdir().expect("directory");
    let target = home.path().join("t");
    for path in ["listed", "stays", "changes", "goes", "d/x", "swaps/below"] {
        write(&target.join(path), b"old");
    }
    let next = NextTree::beside(&target).expect("a tree beside");
    write(&next.path().join("stale/of-an-earlier-put"), b"?");
    // Of an earlier put, cut off by a power cut: the bytes of that length never came.
    std::fs::remove_file(next.path().join("stays")).expect("removed");
    write(&next.path().join("stays"), &[0; 3]);
    for tree in [&target, next.path()] {
        let file = std::fs::File::open(tree.join("stays")).expect("open");
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
    }
    write(&next.path().join("listed"), b"new");
    write(&target.join("d/late"), b"late");
    std::fs::remove_file(target.join("goes")).expect("removed");
    std::fs::remove_file(target.join("changes")).expect("removed");
    write(&target.join("changes"), b"changed");
    std::fs::remove_dir_all(target.join("swaps")).expect("removed");
    write(&target.join("swaps"), b"a file now");
    let mut listing = wellspring_tree::Listing::new();
    let (path, modified) = ("listed", TIME);
    let (content, attributes) = (Content::File { size: 3, digest: None }, Attributes::default());
    let entry = wellspring_tree::Entry { path, mode: 0o644, modified, content, attributes };
    listing.push(&entry).expect("room");
    let listed = || Cursor::new(listing.as_bytes()).expect("a listing");
    next.adopt(listed(), &TreeFilter::default()).expect("adopted");
    // While that is brought onto the disk.
    write(&target.join("later/x"), b"later");
    std::fs::remove_file(target.join("listed")).expect("removed");
    write(&target.join("listed"), b"is replaced");
    std::fs::remove_file(target.join("changes")).expect("removed");
    write(&target.join("changes"), b"changed again");
    let everything = TreeFilter::default();
    next.swap(Some((listed(), &everything))).expect("swapped");
    let left = scan(&open(&target), ALL).expect("a walk");
    let mut names = Vec::new();
    let mut cursor = Cursor::new(left.as_bytes()).expect("a listing");
    while let Some(entry) = cursor.next_entry().expect("valid") {
        names.push(entry.path.to_owned());
    }
    assert_eq!(
        names,
        ["changes", "d", "d/late", "d/x", "later", "later/x", "listed", "stays", "swaps"]
    );
    let kept = [
        ("listed", "new"),
        ("changes", "changed again"),
        ("later/x", "later"),
        ("swaps", "a file now"),
        ("stays", "old"),
    ];
    for (path, bytes) in kept {
        assert_eq!(std::fs::read_to_string(target.join(path)).expect("read"), bytes, "{path}");
    }
}

#[test]
fn what_the_filter_leaves_out_is_adopted_too() {
    let home = tempfile::tempdir().expect("directory");
    let target = home.path().join("t");
    write(&target.join("x"), b"x");
    let next = NextTree::beside(&target).expect("a tree beside");
    write(&target.join("d/left-out"), b"mine");
    let listing = scan(&open(&target), ALL).expect("a walk");
    let listed = || Cursor::new(listing.as_bytes()).expect("a listing");
    let late = next.path().join("d/left-out");
    next.adopt(listed(), &TreeFilter::default()).expect("adopted");
    assert!(!late.exists(), "it is to be fetched");
    next.adopt(listed(), &TreeFilter::by(|path, _| path != "d")).expect("adopted");
    assert_eq!(std::fs::read(&late).expect("read"), b"mine");
    // Also below a directory that is listed and has not come yet, whatever stands in its place.
    std::fs::remove_dir_all(next.path().join("d")).expect("removed");
    symlink("x", next.path().join("d")).expect("link");
    let filter = TreeFilter::by(|path, _| path != "d/left-out");
    next.adopt(listed(), &filter).expect("adopted");
    assert_eq!(std::fs::read(late).expect("read"), b"mine");
}

#[test]
fn where_there_is_no_tree_the_next_one_has_what_is_listed() {
    let home = tempfile::tempdir().expect("directory");
    let target = home.path().join("t");
    let next = NextTree::beside(&target).expect("a tree beside");
    for path in ["of-another/tree", "listed"] {
        write(&next.path().join(path), b"new");
    }
    let source = tempfile::tempdir().expect("directory");
    write(&source.path().join("listed"), b"new");
    let listing = scan(&open(source.path()), ALL).expect("a walk");
    let listed = Cursor::new(listing.as_bytes()).expect("a listing");
    next.adopt(listed, &TreeFilter::default()).expect("adopted");
    next.swap(None).expect("swapped");
    assert!(target.join("listed").exists() && !target.join("of-another").exists());
}
