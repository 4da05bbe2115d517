//! Removal of trees in which there are directories that their owner may not change.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Removes a tree that nobody else uses. Directories without the right to write do not keep what is in them.
pub(super) fn remove_tree(tree: &Path) -> io::Result<()> {
    match fs::remove_dir_all(tree) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(tree)?;
            fs::remove_dir_all(tree)
        }
        removed => removed,
    }
}

/// Lets the owner of a directory, and of those in it, change what they have.
fn make_writable(directory: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(directory)?.permissions().mode();
    if mode & 0o700 != 0o700 {
        fs::set_permissions(directory, fs::Permissions::from_mode(mode | 0o700))?;
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Gid, Uid};
    use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

    use super::super::{NextTree, Swapped};

    use super::*;

    /// Trees in which nothing may be written: caches of packages, data sets that were closed.
    #[test]
    fn a_tree_of_read_only_directories_is_swapped_again_and_again() {
        let home = tempfile::tempdir().expect("a directory");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).expect("set");
        let target = home.path().join("t");
        let swaps = move || {
            fs::create_dir_all(target.join("closed/inner")).expect("made");
            fs::write(target.join("closed/inner/file"), "bytes").expect("written");
            for directory in ["closed/inner", "closed"] {
                let closed = fs::Permissions::from_mode(0o555);
                fs::set_permissions(target.join(directory), closed).expect("set");
            }
            for _ in 0..3 {
                let next = NextTree::claim(&target).expect("a tree beside");
                assert_eq!(next.swap(None).expect("swapped"), Swapped::AtOnce);
                let left = fs::read_dir(target.parent().expect("has one")).expect("a directory");
                assert_eq!(left.count(), 1);
            }
            NextTree::claim(&target).expect("a tree beside");
            assert!(NextTree::discard(&target).expect("removed").is_some());
            assert_eq!(fs::read(target.join("closed/inner/file")).expect("read"), b"bytes");
            remove_tree(&target)
        };
        // Root may write everywhere.
        let user = std::thread::spawn(move || {
            if rustix::process::geteuid().is_root() {
                let (user, group) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
                set_thread_res_gid(group, group, group).expect("changed");
                set_thread_res_uid(user, user, user).expect("changed");
            }
            swaps()
        });
        user.join().expect("ended").expect("removed");
    }
}
