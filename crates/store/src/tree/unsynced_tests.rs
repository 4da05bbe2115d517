//! Notes of several writers, lives of the machine and syncs that fail.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::fstat;
use wellspring_tree::{Attributes, Content, Cursor, Entry, Listing, Modified};

use super::super::doubts::{Doubts, this_life};
use super::super::file::PACKED;
use super::super::{
    NextTree, Plan, PlanOptions, Scan, TreeFilter, TreeListing, TreeTarget, Unpack, scan,
};
use super::*;
use crate::existing::Existing;
use crate::objects::Digest;

const TIME: Modified = Modified { seconds: 1_000_000_000, nanos: 7 };

fn open(path: &Path) -> OwnedFd {
    OwnedFd::from(File::open(path).expect("a directory"))
}

fn entry(path: &str, size: u64) -> Entry<'_> {
    let content = Content::File { size, digest: None };
    Entry { path, mode: 0o644, modified: TIME, content, attributes: Attributes::default() }
}

/// A tree of three files, the last of which is longer than those that are packed.
fn plan(directory: &Path, existing: Existing) -> Plan {
    plan_of(&[entry("a", 5), entry("b", 8_192), entry("c", PACKED)], directory, existing)
}

/// The same in a directory of the tree.
fn plan_from_above(directory: &Path) -> Plan {
    let content = Content::Directory;
    let above = Entry { content, mode: 0o755, ..entry("d", 0) };
    let files = [entry("d/a", 5), entry("d/b", 8_192), entry("d/c", PACKED)];
    plan_of(&[&[above][..], &files].concat(), directory, Existing::Replace)
}

fn plan_of(entries: &[Entry<'_>], directory: &Path, existing: Existing) -> Plan {
    let mut listing = Listing::new();
    entries.iter().for_each(|entry| listing.push(entry).expect("room"));
    let listing = TreeListing { bytes: Arc::new(listing.into_bytes()), digest: Digest([0; 32]) };
    let options = PlanOptions { existing, ..PlanOptions::default() };
    Plan::make(&options, listing, directory, Arc::new(|_| {}))().expect("a plan")
}

/// Files that are to be moved.
fn lacking(plan: &Plan) -> u32 {
    plan.lacks.files.iter().map(|run| run.end - run.start).sum()
}

/// Writes what a plan lacks, and how many files that are.
fn write(plan: &Plan, existing: Existing) -> usize {
    let mut files = 0;
    for pack in &plan.packs {
        let wanted = plan.wanted(pack).expect("files");
        files += wanted.len();
        let bytes = vec![0; pack.len as usize];
        let target = plan.target().expect("a target");
        let mut unpack = Unpack::new(target, wanted, |_| {}).of_put(existing, false);
        unpack.write_all(&bytes).and_then(|()| unpack.flush()).expect("written");
    }
    files
}

/// The power goes off: the machine begins another life.
fn another_life(directory: &Path) {
    let path = directory.join(UNSYNCED);
    let text = std::fs::read_to_string(&path).expect("a note");
    let life = this_life().expect("a life");
    assert!(text.contains(life), "{text}");
    std::fs::write(&path, text.replace(life, "an-earlier-one")).expect("written");
}

/// Waits until the clock of the file system goes on, as it does between two lives.
fn tick(directory: &Path) {
    let path = directory.join(".tick");
    let now = || {
        let file = File::create(&path).expect("made");
        fstat(file).map(|stat| changed(&stat)).expect("stat")
    };
    let before = now();
    while now() == before {}
    std::fs::remove_file(path).expect("removed");
}

fn is_noted(directory: &Path) -> bool {
    directory.join(UNSYNCED).exists()
}

#[test]
fn what_a_power_cut_leaves_of_a_tree_is_moved_again_and_replaced_where_nothing_else_may_be() {
    for existing in [Existing::Keep, Existing::Replace] {
        let home = tempfile::tempdir().expect("a directory");
        let first = plan(home.path(), existing);
        assert_eq!(write(&first, existing), 3);
        drop(first);
        assert!(is_noted(home.path()));
        // A process that was killed has left what is right in memory.
        assert_eq!(lacking(&plan(home.path(), existing)), 0);
        another_life(home.path());
        // One has other bytes, and one has none.
        let cut = File::options().write(true).open(home.path().join("a")).expect("opened");
        cut.set_len(0).expect("cut");
        std::fs::write(home.path().join("b"), [1; 8_192]).expect("written");
        let times = std::fs::FileTimes::new()
            .set_modified(std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 7));
        let file = File::options().write(true).open(home.path().join("b")).expect("opened");
        file.set_times(times).and_then(|()| cut.set_times(times)).expect("set");
        let again = plan(home.path(), existing);
        // The long one was on the disk before it had its name.
        assert_eq!((lacking(&again), again.lacks.replaced), (2, 0), "{existing:?}");
        assert_eq!(write(&again, existing), 2);
        assert_eq!(std::fs::read(home.path().join("b")).expect("read"), [0; 8_192]);
        again.finish().expect("finished");
        assert!(!is_noted(home.path()));
        assert_eq!(lacking(&plan(home.path(), existing)), 0);
    }
}

#[test]
fn what_could_not_be_synced_is_moved_again_in_the_same_life() {
    let home = tempfile::tempdir().expect("a directory");
    let root = open(home.path());
    std::fs::write(home.path().join("before"), b"1").expect("written");
    let plan_of = || plan(home.path(), Existing::Replace);
    let first = plan_of();
    write(&first, Existing::Replace);
    let note = Note::default();
    note.begin(&root).expect("begun");
    let failed = note.end(&root, || Err(io::Error::other("a bad disk")), || false, false);
    assert_eq!(failed.expect_err("it failed").to_string(), "a bad disk");
    // The other writer had a part in it.
    let again = plan_of();
    assert_eq!(lacking(&again), 2);
    let before = fstat(File::open(home.path().join("before")).expect("opened")).expect("stat");
    assert!(!Doubts::of(&root).of_file(&before));
    write(&again, Existing::Replace);
    drop((first, again));
    let last = plan_of();
    assert_eq!(lacking(&last), 0);
    last.finish().expect("finished");
    assert!(!is_noted(home.path()));
}

#[test]
fn a_sync_that_fails_fails_all_who_have_looked_what_is_there_before() {
    let home = tempfile::tempdir().expect("a directory");
    let (part, root) = (home.path().join("d"), open(home.path()));
    let fail = |directory: &OwnedFd| {
        let note = Note::default();
        note.begin(directory).expect("begun");
        let failed = note.end(directory, || Err(io::ErrorKind::Other.into()), || false, false);
        failed.expect_err("it failed");
    };
    // All files are there, of a writer who has not come to its end.
    write(&plan(&part, Existing::Replace), Existing::Replace);
    let (here, above) = (plan(&part, Existing::Replace), plan_from_above(home.path()));
    assert_eq!((lacking(&here), lacking(&above)), (0, 0));
    fail(&open(&part));
    for done in [here.finish(), above.finish()] {
        let failed = done.expect_err("nobody knows what is there").to_string();
        assert!(failed.contains("could not be synced"), "{failed}");
    }
    let again = plan(&part, Existing::Replace);
    assert_eq!(lacking(&again), 2);
    write(&again, Existing::Replace);
    again.finish().expect("finished");
    assert!(!is_noted(&part));
    // The other way round: what fails is a tree of which it is a part.
    let writers = TreeTarget::of(open(home.path()));
    writers.begin().expect("begun");
    let here = plan(&part, Existing::Replace);
    fail(&root);
    here.finish().expect_err("nobody knows what is there");
    plan_from_above(home.path()).finish().expect("finished");
    plan(&part, Existing::Replace).finish().expect("finished");
}

#[test]
fn a_sync_that_fails_elsewhere_puts_in_doubt_what_is_not_settled() {
    let home = tempfile::tempdir().expect("a directory");
    let (begun, ended) = (home.path().join("begun"), home.path().join("ended"));
    let all = plan(&ended, Existing::Replace);
    write(&all, Existing::Replace);
    all.finish().expect("finished");
    write(&plan(&begun, Existing::Replace), Existing::Replace);
    for directory in [&begun, &ended] {
        TreeTarget::of(open(directory)).doubt().expect("noted");
    }
    let lacks = |directory: &Path| lacking(&plan(directory, Existing::Replace));
    assert_eq!((lacks(&begun), lacks(&ended)), (2, 0));
}

#[test]
fn a_file_without_bytes_that_is_not_listed_stays_in_doubt() {
    let home = tempfile::tempdir().expect("a directory");
    write(&plan(home.path(), Existing::Replace), Existing::Replace);
    another_life(home.path());
    File::create(home.path().join("b")).expect("cut");
    tick(home.path());
    let others = [entry("a", 5), entry("c", PACKED)];
    let (listed, skipped) = (
        &others[..],
        Entry {
            content: Content::Skipped(wellspring_tree::SkipReason::Unreadable),
            ..entry("b", 0)
        },
    );
    for entries in [listed.to_vec(), [&listed[..1], &[skipped], &listed[1..]].concat()] {
        let part = plan_of(&entries, home.path(), Existing::Replace);
        write(&part, Existing::Replace);
        assert!(part.leaves_doubts());
        part.finish().expect("finished");
        let torn = fstat(File::open(home.path().join("b")).expect("opened")).expect("stat");
        assert!(Doubts::of(&open(home.path())).of_file(&torn));
    }
}

#[test]
fn a_note_that_is_brought_onto_the_disk_again_says_the_same() {
    let home = tempfile::tempdir().expect("a directory");
    let life = this_life().expect("a life");
    // Of two who wrote one has failed, and the other was killed.
    let text = format!("1 0 {life}\n1 0 failed\n2 0 {life}\n");
    std::fs::write(home.path().join(UNSYNCED), &text).expect("written");
    Note::default().begin(&open(home.path())).expect("begun");
    assert_eq!(std::fs::read_to_string(home.path().join(UNSYNCED)).expect("read"), text);
}

#[test]
fn a_note_stays_while_somebody_writes_or_something_else_is_in_doubt() {
    let home = tempfile::tempdir().expect("a directory");
    let root = open(home.path());
    let (one, other) = (Note::default(), Note::default());
    one.begin(&root).expect("begun");
    other.begin(&root).expect("begun");
    one.end(&root, || Ok(()), || false, false).expect("ended");
    assert!(is_noted(home.path()));
    another_life(home.path());
    std::fs::write(home.path().join("doubtful"), b"1").expect("written");
    other.end(&root, || Ok(()), || false, true).expect("ended");
    let doubtful = fstat(File::open(home.path().join("doubtful")).expect("opened")).expect("stat");
    assert!(Doubts::of(&root).of_file(&doubtful));
    let third = Note::default();
    third.begin(&root).expect("begun");
    std::fs::write(home.path().join("doubtful"), b"2").expect("written");
    let sure = fstat(File::open(home.path().join("doubtful")).expect("opened")).expect("stat");
    assert!(!Doubts::of(&root).of_file(&sure));
    third.end(&root, || Ok(()), || false, false).expect("ended");
    assert!(!is_noted(home.path()));
}

#[test]
fn a_tree_beside_another_does_not_begin_with_what_is_in_doubt() {
    let home = tempfile::tempdir().expect("a directory");
    let there = home.path().join("t");
    write(&plan(&there, Existing::Replace), Existing::Replace);
    another_life(&there);
    let next = NextTree::beside(&there).expect("a tree beside");
    let again = plan(next.path(), Existing::Replace);
    assert_eq!(lacking(&again), 2);
    write(&again, Existing::Replace);
    again.finish().expect("finished");
    next.swap(None).expect("swapped");
    assert!(!is_noted(&there));
    assert_eq!(lacking(&plan(&there, Existing::Replace)), 0);
}

#[test]
fn a_note_that_is_none_leaves_all_in_doubt() {
    let home = tempfile::tempdir().expect("a directory");
    let root = open(home.path());
    let stat = fstat(&root).expect("stat");
    assert!(!Doubts::of(&root).of_file(&stat));
    for text in ["", "nonsense", "1 2", "1 x failed", &"1 2 synced\n".repeat(10_000)] {
        std::fs::write(home.path().join(UNSYNCED), text).expect("written");
        assert!(Doubts::of(&root).of_file(&stat), "{text:.5}");
    }
    // Whoever goes on with the tree puts an end to that.
    for _ in 0..2 {
        let all = plan(home.path(), Existing::Keep);
        write(&all, Existing::Keep);
        all.finish().expect("finished");
    }
    assert!(!is_noted(home.path()));
    assert_eq!(lacking(&plan(home.path(), Existing::Keep)), 0);
    std::fs::create_dir(home.path().join(UNSYNCED)).expect("made");
    assert!(Doubts::of(&root).of_file(&stat));
    let error = TreeTarget::of(open(home.path())).begin().expect_err("no file").to_string();
    assert!(error.starts_with(UNSYNCED), "{error}");
    // It is nobody's file.
    let how = Scan::ALL;
    let listing = scan(&root, how).expect("walked").into_bytes();
    assert!(!listing.windows(UNSYNCED.len()).any(|name| name == UNSYNCED.as_bytes()));
}

#[test]
fn a_note_that_is_none_below_one_that_doubts_fails_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let part = home.path().join("d");
    write(&plan_from_above(home.path()), Existing::Replace);
    another_life(home.path());
    std::fs::write(part.join(UNSYNCED), "nonsense").expect("written");
    // Nothing is to be moved.
    let nothing = plan_of(&[], &part, Existing::Replace);
    assert_eq!(lacking(&nothing), 0);
    nothing.finish().expect("finished");
    assert_eq!(lacking(&plan(&part, Existing::Replace)), 2, "and all stays in doubt");
}

#[test]
fn what_is_in_doubt_and_not_listed_has_another_time_in_the_next_tree() {
    let dir = tempfile::tempdir().expect("directory");
    let target = dir.path().join("t");
    let begun = plan(&target, Existing::Replace);
    write(&begun, Existing::Replace);
    drop(begun);
    another_life(&target);
    let next = NextTree::beside(&target).expect("a tree beside");
    assert!(!next.is_whole() && !next.path().join("a").exists());
    let nothing = Listing::new();
    let nothing = Cursor::new(nothing.as_bytes()).expect("a listing");
    next.adopt(nothing, &TreeFilter::default()).expect("adopted");
    next.swap(None).expect("swapped");
    assert_eq!(std::fs::read(target.join("b")).expect("read"), vec![0; 8_192], "nothing is lost");
    assert_eq!(
        lacking(&plan(&target, Existing::Replace)),
        2,
        "and nothing taken for what it may not be"
    );
}

#[test]
fn what_a_next_tree_shares_with_files_that_are_not_on_the_disk_is_in_doubt_in_it_too() {
    let dir = tempfile::tempdir().expect("directory");
    let target = dir.path().join("t");
    let begun = plan(&target, Existing::Replace);
    write(&begun, Existing::Replace);
    let next = NextTree::beside(&target).expect("a tree beside");
    assert!(next.is_whole());
    // A power cut takes bytes of the files that have two names now.
    another_life(next.path());
    assert_eq!(lacking(&plan(next.path(), Existing::Replace)), 2);
}

#[test]
fn a_note_in_a_directory_of_the_tree_counts_and_ends_with_the_tree() {
    let home = tempfile::tempdir().expect("a directory");
    let part = home.path().join("d");
    write(&plan(&part, Existing::Replace), Existing::Replace);
    another_life(&part);
    let whole = plan_from_above(home.path());
    assert_eq!(lacking(&whole), 2);
    write(&whole, Existing::Replace);
    whole.finish().expect("finished");
    assert!(!is_noted(&part) && !is_noted(home.path()));
    assert_eq!(lacking(&plan_from_above(home.path())), 0);
}

#[test]
fn a_note_above_the_tree_counts_until_the_tree_is_on_the_disk() {
    let home = tempfile::tempdir().expect("a directory");
    let part = home.path().join("d");
    write(&plan_from_above(home.path()), Existing::Replace);
    another_life(home.path());
    let again = plan(&part, Existing::Replace);
    assert_eq!(lacking(&again), 2);
    write(&again, Existing::Replace);
    again.finish().expect("finished");
    assert!(is_noted(&part) && is_noted(home.path()), "it is in doubt no more, and others may be");
    assert_eq!(lacking(&plan(&part, Existing::Replace)), 0);
    let whole = plan_from_above(home.path());
    assert_eq!(lacking(&whole), 0);
    whole.finish().expect("finished");
    assert!(!is_noted(&part) && !is_noted(home.path()));
}

#[test]
fn an_empty_note_leaves_all_in_doubt_until_all_is_on_the_disk() {
    let home = tempfile::tempdir().expect("a directory");
    write(&plan(home.path(), Existing::Replace), Existing::Replace);
    // Its line never came onto the disk.
    std::fs::write(home.path().join(UNSYNCED), "").expect("written");
    // Begun, and ended early.
    TreeTarget::of(open(home.path())).begin().expect("begun");
    assert_eq!(lacking(&plan(home.path(), Existing::Replace)), 2);
}

#[test]
fn what_is_left_of_a_tree_that_was_swapped_away_is_not_the_next_one() {
    let home = tempfile::tempdir().expect("a directory");
    let target = home.path().join("t");
    write(&plan(&target, Existing::Replace), Existing::Replace);
    let left = home.path().join(".t.wellspring-next-old");
    std::fs::create_dir(&left).expect("made");
    std::fs::write(left.join("a"), "torn!").expect("written");
    NextTree::beside(&target).expect("a tree beside").swap(None).expect("swapped");
    assert!(!left.exists() && target.join("b").exists());
    // Killed in the moment between the two steps in which there is none of that name.
    std::fs::rename(&target, &left).expect("renamed");
    let next = NextTree::beside(&target).expect("a tree beside");
    assert!(target.join("b").exists() && next.path().join("b").exists());
}

#[test]
fn a_sync_that_fails_puts_in_doubt_what_was_left_above_and_below() {
    let home = tempfile::tempdir().expect("a directory");
    let (part, deeper) = (home.path().join("d"), home.path().join("d/e"));
    for directory in [home.path(), &part, &deeper] {
        write(&plan(directory, Existing::Replace), Existing::Replace);
    }
    // Killed, all of them, in this life.
    let target = TreeTarget::of(open(&part));
    target.begin().expect("begun");
    let entries = Entry { content: Content::Directory, mode: 0o755, ..entry("e", 0) };
    let files = [entries, entry("e/a", 5), entry("e/b", 8_192)];
    assert_eq!(lacking(&plan_of(&files, &part, Existing::Replace)), 0);
    let noted = plan_of(&files, &part, Existing::Replace).target().expect("a target");
    let writers = &noted.writers;
    let failed =
        writers.note.end(&writers.root, || Err(io::ErrorKind::Other.into()), || false, false);
    writers.after_end(&failed, false);
    for directory in [home.path(), &part, &deeper] {
        assert_eq!(lacking(&plan(directory, Existing::Replace)), 2, "{directory:?}");
    }
}

#[test]
fn what_was_written_until_a_transfer_was_stopped_is_not_in_doubt() {
    for was_in_doubt in [false, true] {
        let home = tempfile::tempdir().expect("a directory");
        let plan = || plan(home.path(), Existing::Replace);
        if was_in_doubt {
            write(&plan(), Existing::Replace);
            another_life(home.path());
        }
        let stopped = plan();
        let target = stopped.target().expect("a target");
        target.settle_when_dropped();
        let first = stopped.wanted(&stopped.packs[0]).expect("files").swap_remove(0);
        let bytes = vec![7; first.size as usize];
        let mut unpack = Unpack::new(target, vec![first], |_| {});
        unpack.write_all(&bytes).expect("written");
        drop(stopped);
        assert!(
            std::fs::read_to_string(home.path().join(UNSYNCED))
                .expect("a note")
                .contains(this_life().expect("a life"))
        );
        // Whoever writes last.
        drop(unpack);
        assert_eq!(is_noted(home.path()), was_in_doubt);
        // The file that was not written again still is; the long one is there in that case.
        assert_eq!(lacking(&plan()), if was_in_doubt { 1 } else { 2 });
    }
}
