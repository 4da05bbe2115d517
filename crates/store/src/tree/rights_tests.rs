//! Trees of directories that their owner, who is not root, may not search or change.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use wellspring_tree::{Content, Cursor};

use super::{NextTree, Plan, PlanError, PlanOptions, Scan, TreeListing, TreeTarget, scan};
use crate::existing::Existing;
use crate::objects::Digest;

/// Does something in a directory as a user to whom rights matter: root may do everything.
fn as_user(does: impl FnOnce(PathBuf) + Send + 'static) {
    let home = tempfile::tempdir().expect("a directory");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).expect("set");
    let path = home.path().join("t");
    let user = std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            let (user, group) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
            set_thread_res_gid(group, group, group).expect("changed");
            set_thread_res_uid(user, user, user).expect("changed");
        }
        fs::create_dir(&path).expect("made");
        does(path);
    });
    user.join().expect("ended");
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}

/// Each path that is listed, and what of it.
fn listed(tree: &Path) -> Vec<(String, String)> {
    let root = OwnedFd::from(File::open(tree).expect("open"));
    let listing = scan(&root, Scan::ALL).expect("walked");
    let (mut cursor, mut found) = (Cursor::new(listing.as_bytes()).expect("one"), Vec::new());
    while let Some(entry) = cursor.next_entry().expect("a listing") {
        let what = match entry.content {
            Content::Skipped(reason) => format!("{reason:?}"),
            Content::Directory => "directory".to_owned(),
            _ => "file".to_owned(),
        };
        found.push((entry.path.to_owned(), what));
    }
    found
}

#[test]
fn a_directory_that_may_not_be_searched_is_skipped_and_all_else_is_listed() {
    as_user(|tree| {
        for name in ["a", "b", "c", "z"] {
            fs::create_dir(tree.join(name)).expect("made");
            fs::write(tree.join(name).join("file"), "bytes").expect("written");
        }
        for (name, mode) in [("a", 0o644), ("b", 0o444), ("c", 0o311)] {
            set(&tree.join(name), mode);
        }
        let expected = [
            ("a", "Unreadable"),
            ("b", "Unreadable"),
            ("c", "Unreadable"),
            ("z", "directory"),
            ("z/file", "file"),
        ];
        let expected = expected.map(|(path, what)| (path.to_owned(), what.to_owned()));
        assert_eq!(listed(&tree), expected);
        for name in ["a", "b", "c"] {
            set(&tree.join(name), 0o755);
        }
    });
}

/// A plan for what another directory has, which is carried out but for the bytes of files.
fn mirror(from: &Path, to: &Path) -> Result<u64, PlanError> {
    let root = OwnedFd::from(File::open(from).expect("open"));
    let bytes = Arc::new(scan(&root, Scan::ALL).expect("walked").into_bytes());
    let listing = TreeListing { bytes, digest: Digest([0; 32]) };
    let options = PlanOptions { delete: true, ..PlanOptions::default() };
    let plan = Plan::make(&options, listing, to, Arc::new(|_| {}))()?;
    let mut target = plan.target().expect("not dry");
    for pack in &plan.packs {
        for file in plan.wanted(pack)? {
            let mut new = target.begin_file(&file.path, file.meta.mode).expect("begun");
            new.write_all(&vec![7; file.size as usize]).expect("written");
            new.finish(&file.meta, Existing::Replace).expect("in place");
        }
    }
    drop(target);
    plan.finish()
}

#[test]
fn directories_that_may_not_be_changed_are_brought_up_to_date_and_have_their_modes_again() {
    as_user(|home| {
        let (from, to) = (home.join("from"), home.join("to"));
        let modes = [("a", 0o555), ("a/b", 0o500), ("c", 0o555), ("old", 0o555)];
        let each = |tree: &Path, is_closed: bool| {
            // The outermost comes first where they are opened.
            let mut modes = modes.to_vec();
            if is_closed {
                modes.reverse();
            }
            for (name, mode) in modes {
                if tree.join(name).exists() {
                    set(&tree.join(name), if is_closed { mode } else { 0o755 });
                }
            }
        };
        for (name, _) in modes {
            fs::create_dir_all(from.join(name)).expect("made");
            fs::write(from.join(name).join("file"), "bytes").expect("written");
        }
        each(&from, true);
        mirror(&from, &to).expect("made");
        // The second time by a tree that takes the place of the other.
        for round in 0..2 {
            each(&from, false);
            fs::write(from.join(format!("a/b/new-{round}")), "bytes").expect("written");
            fs::create_dir_all(from.join(format!("c/d-{round}"))).expect("made");
            let _ = fs::remove_file(from.join("a/file"));
            let _ = fs::remove_dir_all(from.join("old"));
            each(&from, true);
            let next = (round > 0).then(|| NextTree::claim(&to).expect("a tree beside"));
            let into = next.as_ref().map_or(to.as_path(), |next| next.path());
            mirror(&from, into).unwrap_or_else(|error| panic!("{round}: {error}"));
            if let Some(next) = next {
                next.swap(None).expect("swapped");
            }
            assert_eq!(listed(&to), listed(&from), "{round}");
            for (name, mode) in &modes[..3] {
                let set = fs::metadata(to.join(name)).expect("stat").permissions().mode();
                assert_eq!(set & 0o7777, *mode, "{round} {name}");
            }
        }
        each(&from, false);
        each(&to, false);
    });
}

#[test]
fn a_directory_that_is_left_out_has_its_mode_again_whenever_the_target_is_dropped() {
    as_user(|tree| {
        fs::create_dir_all(tree.join("a/b")).expect("made");
        fs::write(tree.join("a/b/file"), "bytes").expect("written");
        set(&tree.join("a/b"), 0o500);
        set(&tree.join("a"), 0o400);
        let mut target = TreeTarget::open(&tree, false).expect("open");
        assert!(target.remove_one("a/b/file").expect("removed"));
        let mode = |name| fs::metadata(tree.join(name)).expect("stat").permissions().mode() & 0o777;
        assert_eq!(mode("a"), 0o700);
        drop(target);
        assert_eq!(mode("a"), 0o400);
        set(&tree.join("a"), 0o700);
        assert_eq!(mode("a/b"), 0o500);
        set(&tree.join("a/b"), 0o700);
    });
}
