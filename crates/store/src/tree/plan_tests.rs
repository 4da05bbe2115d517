//! Plans for listings of hostile hosts.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use wellspring_tree::{Attributes, Content, Entry, Listing, Modified, SkipReason};

use super::super::TreeFilter;
use super::super::{Scan, TreeTarget};
use super::{Plan, PlanError, PlanOptions, TreeListing};
use crate::objects::Digest;

fn plan(bytes: Vec<u8>, directory: &Path, delete: bool) -> Result<Plan, PlanError> {
    let listing = TreeListing { bytes: Arc::new(bytes), digest: Digest([0; 32]) };
    let options = PlanOptions { delete, ..PlanOptions::default() };
    Plan::make(&options, listing, directory, Arc::new(|_| {}))()
}

fn entry<'a>(path: &'a str, content: Content<'a>) -> Entry<'a> {
    let (modified, attributes) = (Modified::default(), Attributes::default());
    Entry { path, mode: 0o755, modified, content, attributes }
}

/// A listing of entries in the order given, whatever that is.
fn raw(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Listing::new().into_bytes();
    let begin = bytes.len();
    for entry in entries {
        let mut one = Listing::new();
        one.push(entry).expect("room");
        bytes.extend_from_slice(&one.as_bytes()[begin..]);
    }
    bytes
}

#[test]
fn nothing_is_made_outside_of_the_directory() {
    let home = tempfile::tempdir().expect("directory");
    let (outside, inside) = (home.path().join("outside"), home.path().join("a/b/inside"));
    std::fs::create_dir_all(&outside).expect("directory");
    std::fs::create_dir_all(&inside).expect("directory");
    let empty = Content::File { size: 0, digest: None };
    for entries in [
        vec![entry("../x", empty)],
        vec![entry("/tmp/x", empty)],
        vec![entry("d", Content::Directory), entry("d/../../x", empty)],
        vec![entry("l", Content::Link { target: "../../outside" }), entry("l/x", empty)],
        vec![entry("l", Content::Link { target: "." }), entry("l/x", empty)],
        vec![entry("l", Content::Link { target: "/tmp" })],
        vec![entry("x", empty), entry("x", Content::Directory)],
        vec![entry(".x.wellspring-00ff.part", empty)],
    ] {
        assert!(plan(raw(&entries), &inside, true).is_err(), "{entries:?}");
        let names = |path: &Path| std::fs::read_dir(path).expect("directory").count();
        assert_eq!((names(&outside), names(home.path())), (0, 2), "{entries:?}");
        assert_eq!(names(&home.path().join("a/b")), 1, "{entries:?}");
    }
}

#[test]
fn a_link_that_lies_here_is_replaced_by_the_directory_of_its_name() {
    let home = tempfile::tempdir().expect("directory");
    let (outside, inside) = (home.path().join("outside"), home.path().join("inside"));
    std::fs::create_dir_all(&outside).expect("directory");
    std::fs::create_dir_all(&inside).expect("directory");
    std::os::unix::fs::symlink("../outside", inside.join("d")).expect("link");
    let empty = Content::File { size: 0, digest: None };
    let entries = [entry("d", Content::Directory), entry("d/x", empty)];
    let Ok(plan) = plan(raw(&entries), &inside, false) else { panic!("no plan") };
    plan.finish().expect("finished");
    assert!(inside.join("d/x").symlink_metadata().expect("stat").is_file());
    assert_eq!(std::fs::read_dir(&outside).expect("directory").count(), 0);
}

#[test]
fn a_directory_that_is_not_empty_makes_room_for_a_file_only_if_asked_to() {
    let home = tempfile::tempdir().expect("directory");
    std::fs::create_dir(home.path().join("x")).expect("directory");
    std::fs::write(home.path().join("x/mine"), b"mine").expect("write");
    let listing = raw(&[entry("x", Content::File { size: 0, digest: None })]);
    let refused = plan(listing.clone(), home.path(), false).err().expect("in the way");
    assert!(matches!(refused, PlanError::InTheWay(path) if path == "x"));
    assert!(home.path().join("x/mine").exists());
    assert!(plan(listing, home.path(), true).is_ok());
    assert!(home.path().join("x").is_file());
}

#[test]
fn a_directory_that_has_what_is_left_out_of_the_tree_makes_no_room() {
    let home = tempfile::tempdir().expect("directory");
    std::fs::create_dir(home.path().join("x")).expect("directory");
    std::fs::write(home.path().join("x/run.log"), b"mine").expect("write");
    let listing = raw(&[entry("x", Content::File { size: 0, digest: None })]);
    let listing = TreeListing { bytes: Arc::new(listing), digest: Digest([0; 32]) };
    let filter = TreeFilter::by(|path, _| !path.ends_with(".log"));
    let options = PlanOptions { delete: true, filter, ..PlanOptions::default() };
    let plan = || Plan::make(&options, listing.clone(), home.path(), Arc::new(|_| {}))();
    let refused = plan().err().expect("in the way");
    assert!(matches!(refused, PlanError::InTheWay(path) if path == "x"));
    assert!(home.path().join("x/run.log").exists());
    std::fs::rename(home.path().join("x/run.log"), home.path().join("x/run")).expect("renamed");
    assert!(plan().is_ok() && home.path().join("x").is_file());
}

#[test]
fn nothing_is_removed_that_is_in_what_the_tree_has_and_leaves_out() {
    for surplus_in_full in [false, true] {
        let home = tempfile::tempdir().expect("directory");
        for file in ["private/inner/file", "surplus/file"] {
            let file = home.path().join(file);
            std::fs::create_dir_all(file.parent().expect("has one")).expect("directories");
            std::fs::write(file, b"mine").expect("write");
        }
        let bytes = raw(&[entry("private", Content::Skipped(SkipReason::Unreadable))]);
        let listing = TreeListing { bytes: Arc::new(bytes), digest: Digest([0; 32]) };
        let options = PlanOptions { delete: true, surplus_in_full, ..PlanOptions::default() };
        let made = Plan::make(&options, listing, home.path(), Arc::new(|_| {}))();
        let Ok(plan) = made else { panic!("no plan") };
        let surplus: &[&str] =
            if surplus_in_full { &["surplus", "surplus/file"] } else { &["surplus"] };
        assert_eq!(plan.lacks.surplus, surplus);
        plan.finish().expect("finished");
        assert!(home.path().join("private/inner/file").exists());
        assert!(!home.path().join("surplus").exists());
    }
}

#[test]
fn nothing_is_removed_below_what_is_left_out_or_skipped_whatever_it_is_there() {
    let excludes = TreeFilter::by(|path, _| path != "d");
    let includes = TreeFilter::by(|path, is_directory| is_directory || path.ends_with(".bin"));
    let (lost, special) = (SkipReason::Unreadable, SkipReason::Special);
    for (filter, out_is_surplus, told) in [(excludes, true, 0), (includes, false, 1)] {
        for (content, skipped) in [
            (Content::File { size: 0, digest: None }, 0),
            (Content::Link { target: "e" }, 0),
            (Content::Skipped(SkipReason::LeadsOut), 0),
            (Content::Skipped(special), 0),
            (Content::Skipped(lost), told),
        ] {
            for surplus_in_full in [false, true] {
                let home = tempfile::tempdir().expect("directory");
                std::fs::create_dir_all(home.path().join("d/e")).expect("directories");
                for file in ["d/x.bin", "d/e/y.bin", "gone.bin"] {
                    std::fs::write(home.path().join(file), b"mine").expect("write");
                }
                std::os::unix::fs::symlink("/dev/null", home.path().join("out")).expect("link");
                let listing = raw(&[entry("d", content)]);
                let listing = TreeListing { bytes: Arc::new(listing), digest: Digest([0; 32]) };
                let options = PlanOptions {
                    delete: true,
                    filter: filter.clone(),
                    surplus_in_full,
                    ..PlanOptions::default()
                };
                let made = Plan::make(&options, listing, home.path(), Arc::new(|_| {}))();
                let Ok(plan) = made else { panic!("no plan") };
                let surplus = ["gone.bin", "out"];
                let surplus = if out_is_surplus { &surplus[..] } else { &surplus[..1] };
                assert_eq!(plan.lacks.surplus, surplus, "{content:?}");
                assert_eq!(plan.skipped_count, skipped, "{content:?}");
                plan.finish().expect("finished");
                assert!(home.path().join("d/x.bin").exists(), "{content:?}");
                assert!(home.path().join("d/e/y.bin").exists(), "{content:?}");
                assert!(!home.path().join("gone.bin").exists(), "{content:?}");
            }
        }
    }
}

/// A file system that folds names lists one of them, and finds what has it under the others: here by a further link.
#[test]
fn what_is_listed_under_another_name_of_the_tree_s_is_neither_lacking_nor_removed() {
    for (bytes, is_here) in [("same", true), ("as it was", false)] {
        let home = tempfile::tempdir().expect("directory");
        let (folded, name) = (home.path().join("README"), home.path().join("readme"));
        std::fs::write(&folded, bytes).expect("write");
        std::fs::write(home.path().join("gone"), b"mine").expect("write");
        let target = TreeTarget::open(home.path(), false).expect("open");
        let local = target.scan(Scan::ALL).expect("walked");
        std::fs::hard_link(&folded, &name).expect("linked");
        let modified = folded.metadata().expect("stat").modified().expect("a time");
        let since = modified.duration_since(std::time::UNIX_EPOCH).expect("after that");
        let seconds = i64::try_from(since.as_secs()).expect("a time");
        let modified = Modified { seconds, nanos: since.subsec_nanos() };
        let content = Content::File { size: 4, digest: None };
        let attributes = Attributes::default();
        let bytes = raw(&[Entry { path: "readme", mode: 0o644, modified, content, attributes }]);
        let listing = TreeListing { bytes: Arc::new(bytes), digest: Digest([0; 32]) };
        let options = PlanOptions { delete: true, ..PlanOptions::default() };
        let made = Plan::of_target(&options, listing, (Some(target), &local));
        let Ok(plan) = made else { panic!("no plan") };
        assert_eq!(plan.packs.is_empty(), is_here);
        if !is_here {
            let fetched = home.path().join("fetched");
            std::fs::write(&fetched, "same").expect("write");
            for name in [&folded, &name] {
                std::fs::remove_file(name).expect("removed");
                std::fs::hard_link(&fetched, name).expect("linked");
            }
        }
        assert_eq!(plan.finish().expect("finished"), 1);
        assert!(folded.exists() && name.exists() && !home.path().join("gone").exists());
    }
}

#[test]
fn nothing_is_removed_if_what_came_for_it_cannot_be_synced() {
    let home = tempfile::tempdir().expect("directory");
    std::fs::write(home.path().join("old"), b"old").expect("write");
    let Ok(plan) = plan(raw(&[]), home.path(), true) else { panic!("no plan") };
    let failed = plan.finish_by(|_, _| Err(std::io::ErrorKind::StorageFull.into()));
    assert!(matches!(failed, Err(PlanError::Place(..))), "{failed:?}");
    assert!(home.path().join("old").exists());
}

#[test]
fn part_files_below_a_directory_stay_if_only_files_in_itself_are_asked_for() {
    for deep in [false, true] {
        let home = tempfile::tempdir().expect("directory");
        let part = home.path().join("d/.x.wellspring-0123456789abcdef.part");
        std::fs::create_dir(home.path().join("d")).expect("directory");
        std::fs::write(&part, b"part").expect("write");
        let listing = TreeListing { bytes: Arc::new(raw(&[])), digest: Digest([0; 32]) };
        let options = PlanOptions { deep, ..PlanOptions::default() };
        assert!(Plan::make(&options, listing, home.path(), Arc::new(|_| {}))().is_ok());
        assert_eq!(part.exists(), !deep);
    }
}

#[test]
fn a_directory_in_the_way_that_stays_is_found_before_anything_is_made() {
    for size in [0, 6, 2 << 20] {
        for dry_run in [true, false] {
            let home = tempfile::tempdir().expect("directory");
            std::fs::create_dir(home.path().join("x")).expect("directory");
            std::fs::write(home.path().join("x/mine"), b"mine").expect("write");
            let entries = [
                entry("d", Content::Directory),
                entry("d/empty", Content::File { size: 0, digest: None }),
                entry("x", Content::File { size, digest: None }),
            ];
            let listing = TreeListing { bytes: Arc::new(raw(&entries)), digest: Digest([0; 32]) };
            let options = PlanOptions { dry_run, ..PlanOptions::default() };
            let unheard = Arc::new(|change| panic!("{change:?}"));
            let refused = Plan::make(&options, listing, home.path(), unheard)().err();
            assert!(matches!(refused, Some(PlanError::InTheWay(path)) if path == "x"), "{size}");
            assert!(!home.path().join("d").exists());
        }
    }
}

#[test]
fn names_that_a_file_system_takes_for_one_are_found_before_anything_is_made() {
    let home = tempfile::tempdir().expect("directory");
    let check = |names: &[&str], folds: bool| {
        let empty = Content::File { size: 0, digest: None };
        let entries: Vec<_> = names.iter().map(|name| entry(name, empty)).collect();
        let listing = TreeListing { bytes: Arc::new(raw(&entries)), digest: Digest([0; 32]) };
        let mut target = TreeTarget::open(home.path(), false).expect("open");
        let options = PlanOptions::default();
        super::obstacles::check(&options, &listing, (&mut target, folds), &Listing::new())
    };
    for names in [["README", "readme"], ["STRASSE", "straße"], ["ΟΔΟΣ", "οδος"], ["É", "é"]]
    {
        assert!(matches!(check(&names, true), Err(PlanError::Case(name)) if name == names[1]));
        assert!(check(&names, false).is_ok());
    }
    assert!(check(&["a", "b"], true).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn whatever_a_host_lists_stays_in_the_directory(
        entries in prop::collection::vec(("[ab./]{1,5}", 0..3_u8, "[ab./]{1,5}"), 0..10),
        delete: bool,
    ) {
        let home = tempfile::tempdir().expect("directory");
        let inside = home.path().join("a/inside");
        std::fs::create_dir_all(&inside).expect("directory");
        std::fs::write(home.path().join("a/b"), b"safe").expect("write");
        std::os::unix::fs::symlink("../..", inside.join("a")).expect("link");
        let content = |kind, target| match kind {
            0 => Content::Directory,
            1 => Content::File { size: 0, digest: None },
            _ => Content::Link { target },
        };
        let entries: Vec<_> =
            entries.iter().map(|(path, kind, target)| entry(path, content(*kind, target))).collect();
        if let Ok(plan) = plan(raw(&entries), &inside, delete) {
            // What cannot be done is an error, and done by then is only what is inside.
            let _ = plan.finish();
        }
        let mut names: Vec<_> = std::fs::read_dir(home.path().join("a"))
            .expect("directory")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        names.sort();
        prop_assert_eq!(names, ["b", "inside"]);
        prop_assert_eq!(std::fs::read_dir(home.path()).expect("directory").count(), 1);
        prop_assert_eq!(std::fs::read(home.path().join("a/b")).expect("read"), b"safe");
    }
}
