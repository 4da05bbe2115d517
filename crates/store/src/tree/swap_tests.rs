//! Swaps that are cut off, and what comes into a directory while another tree takes its place.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use wellspring_tree::{Cursor, Listing};

use super::listed::Listed;
use super::swap_note::SwapNote;
use super::{NextTree, TreeFilter};

/// A directory `t` with a tree beside that is to take its place, which has what it has, and lists `listed`.
struct Place {
    home: tempfile::TempDir,
    next: NextTree,
    listing: Listing,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        fs::create_dir(home.path().join("t")).expect("made");
        let mut place = Place { home, next: NextTree::default(), listing: Listing::new() };
        place.write("t/listed", "old");
        place.write("t/mine", "mine");
        place.next = NextTree::beside(&place.at("t")).expect("a tree beside");
        fs::remove_file(place.next.path().join("listed")).expect("removed");
        fs::write(place.next.path().join("listed"), "new").expect("written");
        let (content, attributes) = (
            wellspring_tree::Content::File { size: 3, digest: None },
            wellspring_tree::Attributes::default(),
        );
        let modified = wellspring_tree::Modified { seconds: 1, nanos: 0 };
        let entry =
            wellspring_tree::Entry { path: "listed", mode: 0o644, modified, content, attributes };
        place.listing.push(&entry).expect("room");
        place
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.home.path().join(path)
    }

    fn write(&self, path: &str, bytes: &str) {
        fs::write(self.at(path), bytes).expect("written");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    fn note(&self) {
        let listing = || Cursor::new(self.listing.as_bytes()).expect("a listing");
        let listed = || Listed::new(listing(), TreeFilter::default().walk()).expect("valid");
        let (at, both) = (self.at(".t.wellspring-next-note"), [listed(), listed()]);
        SwapNote::write(&at, self.next.path(), both).expect("noted");
    }

    fn exchange(&self) {
        renameat_with(CWD, self.next.path(), CWD, self.at("t"), RenameFlags::EXCHANGE)
            .expect("exchanged");
    }

    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.path()).expect("a directory");
        let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
        let mut left: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
        left.sort();
        left
    }
}

#[test]
fn what_came_before_a_kill_in_a_swap_is_brought_over_by_the_next_process() {
    for has_its_name in [false, true] {
        let place = Place::new();
        // Given to the directory after all that it had was adopted, and before the names were exchanged.
        place.write("t/late", "late");
        place.write("t/listed", "of no use");
        place.note();
        place.exchange();
        if has_its_name {
            let old = place.at(".t.wellspring-next-old");
            fs::rename(place.next.path(), old).expect("renamed");
        }
        if has_its_name {
            drop(NextTree::beside(&place.at("t")).expect("a tree beside"));
            assert_eq!(place.left(), [".t.wellspring-next", "t"]);
        } else {
            NextTree::discard(&place.at("t")).expect("discarded");
            assert_eq!(place.left(), ["t"]);
        }
        let read = ["t/late", "t/listed", "t/mine"].map(|path| place.read(path));
        assert_eq!(read, ["late", "new", "mine"]);
    }
}

/// Puts a file of long ago in a place, as `mv` and `rsync` do.
fn move_old_file_to(at: &Path, bytes: &str) {
    let beside = at.with_extension("beside");
    fs::write(&beside, bytes).expect("written");
    let file = File::options().write(true).open(&beside).expect("open");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
    fs::rename(&beside, at).expect("in place");
}

#[test]
fn what_was_replaced_by_something_older_before_or_after_a_kill_in_a_swap_stays() {
    for is_before in [true, false] {
        let place = Place::new();
        place.write("t/link-to", "");
        std::os::unix::fs::symlink("mine", place.next.path().join("link")).expect("linked");
        std::os::unix::fs::symlink("listed", place.at("t/link")).expect("linked");
        if is_before {
            move_old_file_to(&place.at("t/mine"), "older");
        }
        place.note();
        place.exchange();
        if !is_before {
            move_old_file_to(&place.at("t/mine"), "older");
            fs::remove_file(place.at("t/link")).expect("removed");
            std::os::unix::fs::symlink("link-to", place.at("t/link")).expect("linked");
        }
        NextTree::discard(&place.at("t")).expect("discarded");
        assert_eq!(place.read("t/mine"), "older", "before: {is_before}");
        let leads_to = fs::read_link(place.at("t/link")).expect("a link");
        assert_eq!(leads_to, Path::new(if is_before { "listed" } else { "link-to" }));
    }
}

#[test]
fn what_became_another_kind_of_thing_before_the_names_were_exchanged_is_not_lost() {
    let place = Place::new();
    let mut trees = vec![place.at("t"), place.next.path().to_owned()];
    for tree in &trees {
        ["directory/inner", "used"].iter().for_each(|path| {
            fs::create_dir_all(tree.join(path)).expect("made");
        });
        fs::write(tree.join("directory/inner/file"), "file").expect("written");
    }
    place.note();
    let was = trees.remove(0);
    fs::remove_file(was.join("mine")).expect("removed");
    fs::create_dir(was.join("mine")).expect("made");
    fs::write(was.join("mine/late"), "late").expect("written");
    fs::remove_dir_all(was.join("directory")).expect("removed");
    fs::write(was.join("directory"), "late").expect("written");
    fs::remove_dir_all(was.join("used")).expect("removed");
    std::os::unix::fs::symlink("mine", was.join("used")).expect("linked");
    place.exchange();
    // What has come into the new tree since is not replaced.
    place.write("t/used/new", "new");
    NextTree::discard(&was).expect("discarded");
    let read = ["t/mine/late", "t/directory", "t/used/new"].map(|path| place.read(path));
    assert_eq!(read, ["late", "late", "new"]);
    assert_eq!(place.left(), ["t"]);
}

#[test]
fn a_name_leads_to_the_one_thing_or_the_other_whenever_a_rescue_is_killed() {
    let replaced = ["mine", "directory"];
    let mut nothing = 0;
    for _ in 0..300 {
        let place = Place::new();
        let (was, next) = (place.at("t"), place.next.path().to_owned());
        fs::create_dir(next.join("directory")).expect("made");
        place.note();
        fs::remove_file(was.join("mine")).expect("removed");
        fs::create_dir(was.join("mine")).expect("made");
        fs::write(was.join("directory"), "late").expect("written");
        place.exchange();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = || {
                let mut nothing = 0;
                while !is_over.load(Ordering::Relaxed) {
                    nothing += replaced
                        .iter()
                        .filter(|name| fs::symlink_metadata(was.join(name)).is_err())
                        .count();
                }
                nothing
            };
            let watch = scope.spawn(watch);
            NextTree::discard(&was).expect("discarded");
            is_over.store(true, Ordering::Relaxed);
            nothing += watch.join().expect("watched");
        });
        assert!(was.join("mine").is_dir() && place.read("t/directory") == "late");
    }
    assert_eq!(nothing, 0, "looks at a name that led to nothing");
}

#[test]
fn a_copy_of_what_was_there_is_not_replaced_by_it() {
    let place = Place::new();
    let copy = place.next.path().join("mine");
    fs::remove_file(&copy).expect("removed");
    fs::write(&copy, "mine").expect("written");
    let inode = fs::metadata(copy).expect("stat").ino();
    place.note();
    place.exchange();
    NextTree::discard(&place.at("t")).expect("discarded");
    assert_eq!(fs::metadata(place.at("t/mine")).expect("stat").ino(), inode);
}

#[test]
fn what_was_removed_after_a_kill_in_a_swap_does_not_come_back() {
    let place = Place::new();
    place.write("t/late", "late");
    place.note();
    place.exchange();
    for path in ["t/mine", "t/listed"] {
        fs::remove_file(place.at(path)).expect("removed");
    }
    NextTree::discard(&place.at("t")).expect("discarded");
    assert_eq!(place.left(), ["t"]);
    assert!(!place.at("t/mine").exists() && !place.at("t/listed").exists());
    assert_eq!(place.read("t/late"), "late");
}

#[test]
fn what_came_into_a_directory_that_was_removed_after_a_kill_is_not_lost() {
    let place = Place::new();
    for (tree, files) in
        [(place.at("t"), ["old", "late"].as_slice()), (place.next.path().to_owned(), &["old"])]
    {
        fs::create_dir(tree.join("d")).expect("made");
        files.iter().for_each(|file| fs::write(tree.join("d").join(file), file).expect("written"));
    }
    place.note();
    place.exchange();
    fs::remove_dir_all(place.at("t/d")).expect("removed");
    NextTree::discard(&place.at("t")).expect("discarded");
    assert_eq!((place.read("t/d/late"), place.read("t/d/old")), ("late".into(), String::new()));
}

#[test]
fn nothing_is_brought_over_through_a_link_that_leads_out() {
    let place = Place::new();
    fs::create_dir(place.at("t/d")).expect("made");
    place.write("t/d/late", "late");
    place.note();
    place.exchange();
    fs::create_dir(place.at("outside")).expect("made");
    std::os::unix::fs::symlink(place.at("outside"), place.at("t/d")).expect("linked");
    NextTree::discard(&place.at("t")).expect("discarded");
    assert_eq!(place.left(), ["outside", "t"]);
    assert!(!place.at("outside/late").exists());
}

#[test]
fn a_swap_that_was_only_noted_is_none() {
    let place = Place::new();
    place.write("t/late", "late");
    place.note();
    drop(NextTree::beside(&place.at("t")).expect("a tree beside"));
    assert_eq!(place.left(), [".t.wellspring-next", "t"]);
    assert_eq!(["t/late", "t/listed"].map(|path| place.read(path)), ["late", "old"]);
    assert!(!place.at(".t.wellspring-next/late").exists());
}

#[test]
fn a_directory_that_was_made_again_after_a_kill_between_two_steps_costs_nothing_of_the_old_one() {
    for is_noted in [false, true] {
        let place = Place::new();
        if is_noted {
            place.note();
        }
        let old = place.at(".t.wellspring-next-old");
        fs::rename(place.at("t"), &old).expect("the first step");
        fs::create_dir(place.at("t")).expect("by somebody else");
        place.write("t/listed", "fetched");
        for _ in 0..2 {
            let error = NextTree::beside(&place.at("t")).expect_err("which of them?");
            assert!(error.to_string().contains("wellspring-next-old"), "{error}");
            NextTree::discard(&place.at("t")).expect_err("which of them?");
        }
        assert_eq!(place.read(".t.wellspring-next-old/mine"), "mine");
        assert_eq!(place.read("t/listed"), "fetched");
        // As the error says.
        fs::rename(old.join("mine"), place.at("t/mine")).expect("moved over");
        fs::remove_dir_all(&old).expect("removed");
        NextTree::discard(&place.at("t")).expect("discarded");
        assert_eq!((place.left(), place.read("t/mine")), (vec!["t".to_owned()], "mine".into()));
    }
}

#[test]
fn a_note_that_is_cut_off_is_none() {
    let place = Place::new();
    place.note();
    let at = place.at(".t.wellspring-next-note");
    let whole = fs::read(&at).expect("read");
    assert!(SwapNote::read(&at).expect("read").is_some());
    for len in 0..whole.len() {
        fs::write(&at, &whole[..len]).expect("written");
        assert!(SwapNote::read(&at).expect("read").is_none(), "{len} bytes");
    }
}

#[test]
fn who_has_put_what_in_a_served_directory_outlives_a_swap() {
    for keeps in [false, true] {
        let place = Place::new();
        place.write("t/.wellspring-quotas", "0 bytes");
        let filter = TreeFilter::default();
        let listing = Cursor::new(place.listing.as_bytes()).expect("a listing");
        place.next.swap(keeps.then_some((listing, &filter))).expect("swapped");
        assert_eq!(place.read("t/.wellspring-quotas"), "0 bytes");
        assert_eq!((place.left(), place.read("t/listed")), (vec!["t".to_owned()], "new".into()));
    }
}

#[test]
fn a_swap_in_a_directory_that_is_swapped_itself_is_ended_before() {
    let place = Place::new();
    place.write("t/late", "late");
    place.note();
    place.exchange();
    // All of it is in a directory of which another process makes a tree.
    let outer = tempfile::tempdir().expect("a directory");
    let a = outer.path().join("a");
    fs::rename(place.home.path(), &a).expect("moved");
    fs::create_dir(place.home.path()).expect("made");
    NextTree::beside(&a).expect("a tree").swap(None).expect("swapped");
    assert_eq!(fs::read_to_string(a.join("t/late")).expect("read"), "late");
    assert_eq!(fs::read_to_string(a.join("t/listed")).expect("read"), "new");
}
