use super::*;
use crate::Existing;
use crate::tree::Meta;
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;

fn store(limits: Limits) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let store = Store::open(dir.path(), limits).expect("store");
    (dir, store)
}

fn no_reserve() -> Limits {
    Limits { keep_free: 0, ..Limits::default() }
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).expect("a name")
}

fn digest(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

/// Names of what is in a directory, sorted.
fn listing(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("directory")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn objects_open_in_subdirectories() {
    let (dir, store) = store(no_reserve());
    fs::create_dir_all(dir.path().join("a/b")).expect("directories");
    fs::write(dir.path().join("a/b/c"), b"hello").expect("write");
    let (file, fingerprint) = store.open_object(&name("a/b/c")).expect("opens");
    assert_eq!(fingerprint.size(), 5);
    let mut bytes = [0; 5];
    let digest = Digest(*blake3::hash(b"hello").as_bytes());
    FileSource::new(file, fingerprint, digest).read_block(0, &mut bytes).expect("read");
    assert_eq!(&bytes, b"hello");
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let (dir, store) = store(no_reserve());
    let outside = tempfile::tempdir().expect("temporary directory");
    fs::write(outside.path().join("secret"), b"secret").expect("write");
    fs::write(dir.path().join("real"), b"real").expect("write");
    symlink(outside.path().join("secret"), dir.path().join("link")).expect("link");
    symlink(outside.path(), dir.path().join("out")).expect("link");
    symlink("real", dir.path().join("inner")).expect("link");
    fs::create_dir(dir.path().join("directory")).expect("directory");
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("fifo");
    assert!(fs::metadata(&fifo).expect("stat").file_type().is_fifo());
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket"))
        .expect("socket in the directory");
    for bad in ["link", "inner", "directory", "fifo", "socket"] {
        let error = store.open_object(&name(bad)).expect_err(bad);
        assert!(matches!(error, StoreError::NotRegular(_)), "{bad}: {error:?}");
    }
    for bad in ["out/secret", "real/x"] {
        let error = store.open_object(&name(bad)).expect_err(bad);
        assert!(matches!(error, StoreError::NoDirectory(_)), "{bad}: {error:?}");
    }
    let error = store.open_object(&name("none")).expect_err("missing");
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
}

#[test]
fn a_received_object_appears_whole_or_not_at_all() {
    let (dir, store) = store(no_reserve());
    let bytes = vec![5; 3_000];
    let part =
        store.create(&name("x"), 3_000, digest(&bytes), Existing::Keep).expect("room and right");
    part.write_block(1_000, &bytes[1_000..]).expect("write");
    let while_received = listing(dir.path());
    assert_eq!(while_received.len(), 1);
    assert!(while_received[0].starts_with(".x.wellspring-"), "{while_received:?}");
    assert!(part.commit().is_err(), "bytes are missing");
    part.write_block(0, &bytes[..1_000]).expect("write");
    part.commit().expect("complete");
    drop(part);
    assert_eq!(listing(dir.path()), ["x"]);
    assert_eq!(fs::read(dir.path().join("x")).expect("read"), bytes);
}

#[test]
fn wrong_bytes_never_get_the_name() {
    let (dir, store) = store(no_reserve());
    let part = store.create(&name("x"), 3, digest(b"abc"), Existing::Keep).expect("room");
    part.write_block(0, b"abd").expect("write");
    assert!(matches!(part.commit(), Err(StoreError::BadDigest { .. })));
    drop(part);
    assert_eq!(listing(dir.path()), [""; 0]);
}

#[test]
fn blocks_beyond_the_end_are_refused() {
    let (_dir, store) = store(no_reserve());
    let part = store.create(&name("x"), 3, digest(b"abc"), Existing::Keep).expect("room");
    assert!(part.write_block(0, b"abcd").is_err());
    assert!(part.write_block(u64::MAX, b"a").is_err());
}

#[test]
fn existing_objects_stay_unless_told_otherwise() {
    let (dir, store) = store(no_reserve());
    fs::write(dir.path().join("x"), b"old").expect("write");
    let error = store.create(&name("x"), 3, digest(b"new"), Existing::Keep).expect_err("exists");
    assert!(matches!(error, StoreError::Exists(_)));
    // Somebody puts a file there while ours is received: theirs stays.
    let part = store.create(&name("y"), 3, digest(b"new"), Existing::Keep).expect("room");
    part.write_block(0, b"new").expect("write");
    fs::write(dir.path().join("y"), b"theirs").expect("write");
    assert!(matches!(part.commit(), Err(StoreError::Exists(_))));
    drop(part);
    assert_eq!(fs::read(dir.path().join("y")).expect("read"), b"theirs");
    let part = store.create(&name("x"), 3, digest(b"new"), Existing::Replace).expect("allowed");
    part.write_block(0, b"new").expect("write");
    assert_eq!(fs::read(dir.path().join("x")).expect("read"), b"old", "until committed");
    part.commit().expect("replaces");
    drop(part);
    assert_eq!(fs::read(dir.path().join("x")).expect("read"), b"new");
    assert_eq!(listing(dir.path()), ["x", "y"]);
}

#[test]
fn a_link_in_the_place_of_the_target_is_refused_and_never_written_through() {
    let (dir, store) = store(no_reserve());
    let outside = tempfile::tempdir().expect("temporary directory");
    let victim = outside.path().join("victim");
    fs::write(&victim, b"precious").expect("write");
    symlink(&victim, dir.path().join("x")).expect("link");
    for existing in [Existing::Keep, Existing::Replace] {
        let error = store.create(&name("x"), 3, digest(b"new"), existing).expect_err("link");
        assert!(matches!(error, StoreError::NotRegular(_)), "{error:?}");
    }
    // The same, but the link comes after the check: the rename replaces the link, not the victim.
    let part = store.create(&name("y"), 3, digest(b"new"), Existing::Replace).expect("room");
    part.write_block(0, b"new").expect("write");
    symlink(&victim, dir.path().join("y")).expect("link");
    part.commit().expect("replaces the link");
    assert_eq!(fs::read(&victim).expect("read"), b"precious");
    assert!(!fs::symlink_metadata(dir.path().join("y")).expect("stat").is_symlink());
}

#[test]
fn a_directory_swapped_for_a_link_does_not_lead_out() {
    let (dir, store) = store(no_reserve());
    let outside = tempfile::tempdir().expect("temporary directory");
    fs::create_dir(dir.path().join("d")).expect("directory");
    let part = store.create(&name("d/x"), 3, digest(b"new"), Existing::Keep).expect("room");
    part.write_block(0, b"new").expect("write");
    fs::rename(dir.path().join("d"), dir.path().join("moved")).expect("rename");
    symlink(outside.path(), dir.path().join("d")).expect("link");
    let error = part.commit().expect_err("the name leads elsewhere");
    assert!(matches!(error, StoreError::Replaced(_)), "{error:?}");
    drop(part);
    assert_eq!(listing(outside.path()), [""; 0]);
    assert_eq!(listing(&dir.path().join("moved")), [""; 0]);
    let error = store.create(&name("d/z"), 3, digest(b"new"), Existing::Keep).expect_err("link");
    assert!(matches!(error, StoreError::NoDirectory(_)), "{error:?}");
}

#[test]
fn missing_directories_are_made_and_go_with_an_object_that_does_not_come() {
    let (dir, store) = store(no_reserve());
    fs::create_dir(dir.path().join("a")).expect("directory");
    let create = |n: &str| store.create(&name(n), 3, digest(b"new"), Existing::Keep);
    let (first, second) =
        (create("a/b/c/x").expect("made"), create("a/b/y").expect("there by now"));
    second.write_block(0, b"new").expect("write");
    drop(first);
    assert_eq!(
        listing(&dir.path().join("a/b")).len(),
        1,
        "c is gone, the other's part file is there"
    );
    second.commit().expect("in place");
    drop(second);
    assert_eq!(listing(&dir.path().join("a/b")), ["y"]);
    let in_the_way = create("a/b/y/z").expect_err("y is no directory");
    assert!(matches!(in_the_way, StoreError::NoDirectory(_)), "{in_the_way:?}");
    let too_large = store.create(&name("q/r/x"), 1 << 62, digest(b""), Existing::Keep);
    assert!(matches!(too_large, Err(StoreError::TooLarge { .. })), "{too_large:?}");
    assert_eq!(listing(dir.path()), ["a"]);
}

#[test]
fn a_part_file_that_is_kept_keeps_the_directories_that_were_made_for_it() {
    let (dir, store) = store(no_reserve());
    let resume = || store.resume(&name("a/b/x"), 3, digest(b"new"), Existing::Keep).expect("made");
    drop(resume());
    assert_eq!(listing(dir.path()), [""; 0], "nothing has come");
    let part = resume();
    part.write_block(0, b"n").expect("write");
    drop(part);
    let part = resume();
    assert!(part.has_old_bytes());
    part.write_block(0, b"new").expect("write");
    part.commit().expect("in place");
    assert_eq!(listing(&dir.path().join("a/b")), ["x"]);
}

#[test]
fn who_makes_and_removes_directories_does_not_fail_others() {
    let (dir, store) = store(no_reserve());
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..200 {
                    let n = name(&format!("a/b/c/{writer}-{}", round / 2));
                    let part =
                        store.create(&n, 3, digest(b"new"), Existing::Replace).expect("room");
                    if round % 2 == 1 {
                        part.write_block(0, b"new").expect("write");
                        part.commit().expect("in place");
                        fs::remove_file(store.root().path().join(n.as_str())).expect("removed");
                    }
                }
            });
        }
    });
    let left = fs::read_dir(dir.path()).expect("a directory").count();
    assert!(left <= 1, "only directories that somebody removed too early to see them empty");
}

#[test]
fn full_caps_refuse_and_come_back() {
    let (dir, store) = store(Limits { object_len: 10, objects: 1, total_len: 10, keep_free: 0 });
    let create = |n: &str, size| store.create(&name(n), size, digest(b""), Existing::Keep);
    assert!(matches!(create("a", 11), Err(StoreError::TooLarge { got: 11, limit: 10 })));
    let first = create("a", 10).expect("fits");
    assert!(matches!(create("b", 0), Err(StoreError::Busy { limit: 1 })));
    drop(first);
    drop(create("b", 10).expect("fits again"));
    assert_eq!(listing(dir.path()), [""; 0]);
}

#[test]
fn a_disk_without_room_refuses_before_the_first_byte() {
    let (dir, store) =
        store(Limits { object_len: u64::MAX, objects: 9, total_len: u64::MAX, keep_free: 0 });
    let error =
        store.create(&name("a"), 1 << 60, digest(b""), Existing::Keep).expect_err("an exabyte");
    assert!(matches!(error, StoreError::NoSpace { .. }), "{error:?}");
    assert_eq!(listing(dir.path()), [""; 0]);
}

#[test]
fn empty_objects_and_sparse_ones_work() {
    let (dir, store) = store(no_reserve());
    let empty = store.create(&name("empty"), 0, Digest::of_nothing(), Existing::Keep);
    empty.expect("room").commit().expect("nothing is missing");
    assert_eq!(fs::metadata(dir.path().join("empty")).expect("stat").len(), 0);
    let size = 64 << 20;
    let zeros = vec![0; 1 << 20];
    let mut hasher = blake3::Hasher::new();
    (0..64).for_each(|_| {
        hasher.update(&zeros);
    });
    let digest = Digest(*hasher.finalize().as_bytes());
    let part = store.create(&name("sparse"), size, digest, Existing::Keep).expect("room");
    for block in (0..64).rev() {
        part.write_block(block << 20, &zeros).expect("write");
    }
    part.commit().expect("complete");
    let meta = fs::metadata(dir.path().join("sparse")).expect("stat");
    assert_eq!(meta.len(), size);
    assert!(std::os::unix::fs::MetadataExt::blocks(&meta) < 100, "stays sparse");
}

#[test]
fn hashing_can_be_stopped() {
    let (dir, store) = store(no_reserve());
    fs::write(dir.path().join("x"), b"hello").expect("write");
    let (file, _) = store.open_object(&name("x")).expect("opens");
    let progress = HashProgress::default();
    assert_eq!(hash_file(&file, 5, &progress).expect("hash"), digest(b"hello"));
    assert_eq!(progress.done(), 5);
    assert!(hash_file(&file, 6, &progress).is_err(), "shorter than it was");
    progress.stop();
    assert!(hash_file(&file, 5, &progress).is_err());
}

#[test]
fn a_part_file_is_its_writers_alone_until_it_has_its_name() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).expect("stat").permissions().mode() & 0o777
    };
    fs::write(dir.path().join("usual"), b"").expect("write");
    let bytes = b"hello";
    let digest = Digest(*blake3::hash(bytes).as_bytes());
    let part = PartFile::beside(&dir.path().join("x"), 5, digest, Existing::Keep).expect("made");
    let parts: Vec<_> = fs::read_dir(dir.path())
        .expect("directory")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.to_string_lossy().ends_with(".part"))
        .collect();
    assert_eq!(parts.len(), 1);
    assert_eq!(mode(&parts[0]), 0o600);
    part.write_block(0, bytes).expect("written");
    part.commit().expect("complete");
    assert_eq!(mode(&dir.path().join("x")), mode(&dir.path().join("usual")), "as the umask says");
}

#[test]
fn a_file_that_is_replaced_leaves_its_permissions_and_a_link_or_more_than_permissions_does_not() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("temporary directory");
    let at = |name: &str| dir.path().join(name);
    let mode = |name: &str| fs::metadata(at(name)).expect("stat").permissions().mode() & 0o7777;
    fs::write(at("usual"), b"").expect("write");
    for (name, before) in [("private", 0o600), ("program", 0o4755), ("read-only", 0o440)] {
        fs::write(at(name), b"old").expect("write");
        fs::set_permissions(at(name), fs::Permissions::from_mode(before)).expect("set");
    }
    symlink("private", at("link")).expect("a link");
    let replace = |name: &str| {
        let digest = digest(b"hello");
        let part = PartFile::beside(&at(name), 5, digest, Existing::Replace).expect("made");
        part.write_block(0, b"hello").expect("written");
        part.commit().expect("complete");
        mode(name)
    };
    assert_eq!(["private", "program", "read-only"].map(replace), [0o600, 0o755, 0o440]);
    assert_eq!([replace("link"), replace("new")], [mode("usual"); 2]);
}

#[test]
fn part_files_of_the_dead_are_removed_and_those_of_the_living_are_not() {
    let dir = tempfile::tempdir().expect("temporary directory");
    fs::create_dir(dir.path().join("sub")).expect("directory");
    std::os::unix::fs::symlink(dir.path(), dir.path().join("loop")).expect("link");
    let digest = Digest(*blake3::hash(b"hello").as_bytes());
    let living = PartFile::beside(&dir.path().join("x"), 5, digest, Existing::Keep).expect("made");
    let stale = [".y.wellspring-0123456789abcdef.part", "sub/.z.wellspring-0123456789abcdef.part"];
    for name in stale {
        fs::write(dir.path().join(name), b"half").expect("write");
    }
    fs::write(dir.path().join("z.part"), b"somebody's own").expect("write");
    assert_eq!(remove_stale_parts(dir.path(), false).expect("looked"), 1);
    assert_eq!(remove_stale_parts(dir.path(), true).expect("looked"), 1);
    assert_eq!(remove_stale_parts(dir.path(), true).expect("looked"), 0);
    living.write_block(0, b"hello").expect("written");
    living.commit().expect("complete");
    assert!(dir.path().join("z.part").exists() && dir.path().join("x").exists());
    let dead = PartFile::beside(&dir.path().join("w"), 5, digest, Existing::Keep).expect("made");
    // As `kill -9` does: the descriptor is closed and nothing is removed.
    let path = fs::read_dir(dir.path())
        .expect("directory")
        .map(|entry| entry.expect("entry").path())
        .find(|path| path.to_string_lossy().contains(".w.wellspring-"))
        .expect("its part file");
    let copy = fs::read(&path).expect("read");
    drop(dead);
    fs::write(&path, copy).expect("left behind");
    assert_eq!(remove_stale_parts(dir.path(), true).expect("looked"), 1);
    assert!(remove_stale_parts(&dir.path().join("none"), true).is_err());
}

#[test]
fn two_receivers_of_an_object_leave_no_part_file_once_it_is_here() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let parts = || {
        let entries = fs::read_dir(dir.path()).expect("directory");
        entries
            .map(|entry| entry.expect("entry").file_name().into_string().expect("a name"))
            .filter(|name| name.ends_with(".part"))
            .count()
    };
    let digest = Digest(*blake3::hash(b"hello").as_bytes());
    let receiver = |name: &str| {
        let path = dir.path().join(name);
        PartFile::resumed_beside(&path, 5, digest, Existing::Keep).expect("made")
    };
    // The first has given up before the second is done, ...
    let (first, second) = (receiver("x"), receiver("x"));
    first.write_block(0, b"hel").expect("written");
    first.note(0..3);
    drop(first);
    assert_eq!(parts(), 2, "what can be taken up, and the second's");
    second.write_block(0, b"hello").expect("written");
    second.note(0..5);
    second.commit().expect("complete");
    drop(second);
    assert_eq!(parts(), 0);
    // ... or after it, and is told.
    let (first, second) = (receiver("y"), receiver("y"));
    first.write_block(0, b"hel").expect("written");
    first.note(0..3);
    second.write_block(0, b"hello").expect("written");
    second.note(0..5);
    second.commit().expect("complete");
    first.discard();
    drop((first, second));
    assert_eq!(parts(), 0);
}

#[test]
fn a_store_remembers_what_it_has_verified_of_a_part_file() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let digest = digest(b"hello");
    let open = || Store::open(dir.path(), no_reserve()).expect("opened");
    let resume = |store: &Store| store.resume(&name("x"), 5, digest, Existing::Keep).expect("made");
    let store = open();
    let part = resume(&store);
    assert!(!part.has_old_bytes() && part.remembered().is_none());
    part.write_block(0, b"hel").expect("written");
    drop(part);
    let left = listing(dir.path());
    assert_eq!(left.len(), 1, "{left:?}");
    let part = resume(&store);
    let whole = std::iter::once(0..3).collect::<Vec<_>>();
    assert_eq!(part.remembered(), Some(&whole[..]));
    assert_eq!(*part.contiguous().borrow(), 3);
    // What was remembered counts as verified when the file is left again.
    drop(part);
    assert!(resume(&store).remembered().is_some());
    // Another process knows nothing, ...
    assert_eq!(resume(&open()).remembered(), None);
    // ... and what another process has had is not remembered any more.
    let part = resume(&store);
    assert!(part.has_old_bytes() && part.remembered().is_none());
    part.write_block(3, b"lo").expect("written");
    drop(part);
    fs::write(dir.path().join(&left[0]), b"hellx").expect("written by somebody else");
    assert_eq!(resume(&store).remembered(), None);
}

#[test]
fn a_part_file_with_bytes_that_are_not_verified_gets_no_name() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let digest = digest(b"hello");
    let path = dir.path().join("x");
    let resume = || PartFile::resumed_beside(&path, 5, digest, Existing::Keep).expect("made");
    let part = resume();
    part.write_block(0, b"hxl").expect("written");
    drop(part);
    let part = resume();
    part.presume(0..3);
    part.write_block(3, b"lo").expect("written");
    assert!(part.commit().is_err() && !path.exists());
    part.refute(0..3);
    assert!(part.commit().is_err() && !path.exists());
    // Left as it is, it can be taken up again.
    drop(part);
    let part = resume();
    assert!(part.has_old_bytes());
    part.presume(0..5);
    part.refute(0..3);
    part.write_block(0, b"hel").expect("written");
    part.note(3..5);
    part.commit().expect("whole");
    assert_eq!(fs::read(&path).expect("read"), b"hello");
}

#[test]
fn a_directory_whose_place_was_taken_is_the_one_that_has_its_name() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |path: &str| home.path().join(path);
    for (directory, content) in [("v1", "first"), ("v2", "second")] {
        std::fs::create_dir(at(directory)).expect("made");
        std::fs::write(at(directory).join("x"), content).expect("written");
    }
    std::os::unix::fs::symlink("v1", at("now")).expect("a link");
    let stores =
        ["v1", "now"].map(|path| Store::open(&at(path), Limits::default()).expect("a store"));
    let read = |store: &Store| {
        let (file, _) = store.open_object(&ObjectName::new("x").expect("a name")).expect("opened");
        std::io::read_to_string(file).expect("read")
    };
    assert_eq!(stores.each_ref().map(read), ["first", "first"]);
    std::os::unix::fs::symlink("v2", at("next")).expect("a link");
    std::fs::rename(at("next"), at("now")).expect("turned");
    assert_eq!(stores.each_ref().map(read), ["first", "second"]);
    std::fs::rename(at("v1"), at("gone")).expect("renamed");
    assert_eq!(stores.each_ref().map(read), ["first", "second"], "there is no other");
    std::fs::rename(at("v2"), at("v1")).expect("renamed");
    assert_eq!(read(&stores[0]), "second");
}

#[test]
fn an_object_is_complete_only_where_its_name_leads_to() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |path: &str| home.path().join(path);
    let swap = |to: &str, aside: &str| {
        fs::rename(at(to), at(aside)).expect("renamed");
        fs::create_dir_all(at(to)).expect("made");
    };
    fs::create_dir_all(at("served/deep")).expect("made");
    let store = Store::open(&at("served"), no_reserve()).expect("a store");
    let part = |at: &str| {
        let part = store.create(&name(at), 5, digest(b"hello"), Existing::Keep).expect("made");
        part.write_block(0, b"hello").expect("written");
        part
    };
    let is_replaced = |committed: Result<_, StoreError>| {
        let error = committed.map(drop).expect_err("it would be elsewhere");
        assert!(matches!(error, StoreError::Replaced(_)), "{error:?}");
    };
    let parts = [part("x"), part("deep/x")];
    swap("served", "old");
    parts.iter().for_each(|part| is_replaced(part.commit()));
    is_replaced(parts[0].commit_as(&Meta::default()).map(|()| None));
    drop(parts);
    assert_eq!(listing(&at("old")), ["deep"]);
    assert_eq!(listing(&at("old/deep")), [""; 0]);
    // Also if a directory on the way to it is another one.
    let deep = part("deep/x");
    swap("served/deep", "old-deep");
    is_replaced(deep.commit());
    // What has come back is where it was, and what is put again comes to its place.
    let back = part("y");
    swap("served", "aside");
    fs::remove_dir(at("served")).expect("empty");
    fs::rename(at("aside"), at("served")).expect("renamed");
    back.commit().expect("there again");
    part("deep/x").commit().expect("in its place");
    assert_eq!(fs::read(at("served/deep/x")).expect("there"), b"hello");
}

#[test]
fn a_link_that_is_turned_to_another_file_system_is_followed_and_a_mount_over_the_directory_is_not()
{
    let home = tempfile::tempdir().expect("a directory");
    let memory = Path::new("/dev/shm");
    let other = if memory.is_dir() { memory } else { home.path() };
    let other = tempfile::tempdir_in(other).expect("a directory");
    let at = |path: &str| home.path().join(path);
    fs::create_dir(at("v1")).expect("made");
    symlink("v1", at("now")).expect("a link");
    let store = Store::open(&at("now"), no_reserve()).expect("a store");
    let put = |of: &str| {
        let part = store.create(&name(of), 5, digest(b"hello"), Existing::Keep).expect("made");
        part.write_block(0, b"hello").expect("written");
        part
    };
    put("a").commit().expect("in place");
    let late = put("b");
    symlink(other.path(), at("next")).expect("a link");
    fs::rename(at("next"), at("now")).expect("turned");
    assert!(matches!(late.commit(), Err(StoreError::Replaced(_))));
    drop(late);
    put("c").commit().expect("in place");
    assert_eq!((listing(&at("v1")), listing(other.path())), (vec!["a".into()], vec!["c".into()]));
    // And back.
    symlink("v1", at("next")).expect("a link");
    fs::rename(at("next"), at("now")).expect("turned");
    put("d").commit().expect("in place");
    assert_eq!(listing(&at("v1")), ["a", "d"]);

    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "none"]).arg(at("v1"));
    if !mount.stderr(std::process::Stdio::null()).status().is_ok_and(|s| s.success()) {
        println!("NOT TESTED: a file system over a directory (mounting needs root)");
        return;
    }
    put("e").commit().expect("in place");
    let over = listing(&at("v1"));
    let ended = std::process::Command::new("umount").arg("-l").arg(at("v1")).status();
    assert!(ended.expect("umount").success());
    assert_eq!((over, listing(&at("v1"))), (vec![], vec!["a".into(), "d".into(), "e".into()]));
}
