//! Trees that others use, change and replace meanwhile.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use wellspring_tree::{Cursor, Listing};

use super::tests::{ALL, open, shown, write};
use super::{NextTree, Scan, ScanError, TreeFilter, TreeTarget, scan, scan_named};

/// Makes and removes things in a directory until `rounds` have begun, some with the name of what was of another kind; they
/// are gone where the directory is replaced.
fn come_and_go(directory: &Path, round: &AtomicU32, rounds: u32) {
    let at = |path: &str| directory.join(path);
    while round.load(Relaxed) < rounds {
        for name in ["one", "other"] {
            let _ = std::fs::write(at(name), [1; 20_000]);
            let _ = std::fs::remove_file(at(name));
            let _ = symlink("below", at(name));
            let _ = std::fs::remove_file(at(name));
            let _ = std::fs::create_dir(at(name));
            let _ = std::fs::write(at(name).join("inner"), "x");
            let _ = std::fs::remove_dir_all(at(name));
        }
    }
}

#[test]
fn of_many_that_begin_the_next_tree_at_once_each_has_it_or_is_refused() {
    let home = tempfile::tempdir().expect("directory");
    let target = home.path().join("t");
    (0..200).for_each(|number| write(&target.join(format!("{number}")), b"x"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| NextTree::beside(&target).expect("a tree beside"));
        }
    });
}

#[test]
fn two_processes_do_not_write_one_next_tree() {
    let home = tempfile::tempdir().expect("directory");
    let target = home.path().join("t");
    write(&target.join("x"), b"x");
    let one = NextTree::claim(&target).expect("a tree beside");
    let error = NextTree::claim(&target).expect_err("it is claimed");
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
    one.swap(None).expect("swapped");
    NextTree::claim(&target).expect("the next one");
}

#[test]
fn a_directory_that_is_swapped_and_removed_is_walked_whole() {
    let home = tempfile::tempdir().expect("directory");
    let target = home.path().join("above/t");
    (0..300).for_each(|number| write(&target.join(format!("d/{number}")), b"x"));
    let files_in = |root: &Path| {
        let (_, listing) = scan_named(|| Ok::<_, ScanError>(open(root)), ALL)?;
        let all = shown(listing.as_bytes());
        Ok(all.iter().filter(|path| path.contains("d/") && !path.ends_with('/')).count())
    };
    let walks = std::sync::Mutex::new(0);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while *walks.lock().expect("no panic") < 600 {
                NextTree::beside(&target).expect("a tree beside").swap(None).expect("swapped");
            }
        });
        let mut found = Vec::new();
        while found.len() < 600 {
            let root = if found.len() % 2 == 0 { "above/t" } else { "above" };
            found.push(files_in(&home.path().join(root)));
            *walks.lock().expect("no panic") = found.len();
        }
        found
    });
    assert!(found.iter().any(|files| matches!(files, Ok(300))));
    // Or another one has the name whenever it is tried.
    let is_right =
        |files: &&Result<usize, ScanError>| matches!(files, Ok(300) | Err(ScanError::Changed(_)));
    assert!(found.iter().all(|files| is_right(&files)), "{found:?}");
}

#[test]
fn what_goes_while_a_tree_is_walked_is_left_out() {
    let home = tempfile::tempdir().expect("directory");
    write(&home.path().join("stays"), b"x");
    write(&home.path().join("below/stays"), b"x");
    let walks = AtomicU32::new(0);
    let walk = |walk| {
        let how = Scan { digests: walk % 2 == 0, ..ALL };
        walks.store(walk, Relaxed);
        scan(&open(home.path()), how)
    };
    let found: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| come_and_go(home.path(), &walks, 3_000));
        (1..=3_000).map(walk).collect()
    });
    for found in &found {
        match found {
            Ok(listing) => assert!(shown(listing.as_bytes()).contains(&"stays 1".to_owned())),
            // It is written, or another one has its name, whenever it is tried.
            Err(ScanError::Changed(path)) => assert_ne!(path, "stays"),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(found.iter().filter(|found| found.is_ok()).count() > 100);
}

#[test]
fn what_goes_while_a_tree_takes_the_place_of_another_is_no_trouble() {
    const ROUNDS: u32 = 200;
    let home = tempfile::tempdir().expect("directory");
    let target = home.path().join("t");
    write(&target.join("stays"), b"x");
    write(&target.join("below/stays"), b"x");
    let (round, nothing) = (AtomicU32::new(0), Listing::default());
    let listed = || Cursor::new(nothing.as_bytes()).expect("a listing");
    let everything = TreeFilter::default();
    let swap = |now| {
        round.store(now, Relaxed);
        let next = NextTree::beside(&target)?;
        next.adopt(listed(), &everything)?;
        next.swap(Some((listed(), &everything)))
    };
    let swaps: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| come_and_go(&target, &round, ROUNDS));
        (1..=ROUNDS).map(swap).collect()
    });
    for (round, swapped) in swaps.iter().enumerate() {
        assert!(swapped.is_ok(), "{round}: {swapped:?}");
    }
    let left = shown(scan(&open(&target), ALL).expect("a walk").as_bytes());
    assert!(
        ["below/stays 1", "stays 1"].iter().all(|path| left.contains(&(*path).to_owned())),
        "{left:?}"
    );
}

#[test]
fn what_comes_while_a_directory_is_removed_goes_too_and_what_is_below_a_link_is_not_there() {
    const ROUNDS: u32 = 2_000;
    let home = tempfile::tempdir().expect("directory");
    let (surplus, round) = (home.path().join("surplus"), AtomicU32::new(0));
    let remove = |now| {
        round.store(now, Relaxed);
        TreeTarget::of(open(home.path())).remove("surplus")
    };
    let removals: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while round.load(Relaxed) < ROUNDS {
                let _ = std::fs::create_dir(&surplus);
                let _ = std::fs::write(surplus.join("inner"), "x");
            }
        });
        (1..=ROUNDS).map(remove).collect()
    });
    let fails = removals.iter().filter(|removed| removed.is_err()).count();
    assert!(fails < 20, "{fails}: {:?}", removals.iter().find(|removed| removed.is_err()));

    write(&home.path().join("there/x"), b"x");
    symlink("there", home.path().join("link")).expect("link");
    let mut target = TreeTarget::of(open(home.path()));
    assert!(!target.remove_one("link/x").expect("nothing there"));
    target.remove("link/x").expect("nothing there");
    assert!(home.path().join("there/x").exists());
}
