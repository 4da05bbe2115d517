//! Trees of directories that their owner, who is not root, may not search or change.

use std::fs;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use wellspring_tree::{Content, Cursor};

use super::{Scan, scan};

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
