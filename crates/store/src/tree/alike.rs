//! Directories with the permissions, owners and attributes of those that they are made for.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Gid, Uid, fchown};

use super::attributes::copy_xattrs;

/// Rights of a file's group.
const OF_GROUP: u32 = 0o070;

/// Makes a directory like another.
pub(super) fn make_like(from: &Path, to: &Path) -> io::Result<()> {
    if !from.symlink_metadata()?.is_dir() {
        // Something else is there by now.
        return Err(io::ErrorKind::NotADirectory.into());
    }
    fs::create_dir(to)?;
    be_like(from, to)
}

/// Gives a directory permissions, owner, group, access control lists and extended attributes of another, as far as this
/// process may. Nobody gets more rights than he had: where the group or a list cannot be given, the group has none.
pub(super) fn be_like(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (File::open(from)?, File::open(to)?);
    let (like, made) = (from.metadata()?, to.metadata()?);
    let mut mode = like.mode() & 0o7777;
    if (like.uid(), like.gid()) != (made.uid(), made.gid()) {
        let group = Some(Gid::from_raw(like.gid()));
        let given = fchown(&to, Some(Uid::from_raw(like.uid())), group);
        if given.or_else(|_| fchown(&to, None, group)).is_err() {
            mode &= !OF_GROUP;
        }
    }
    // With a list the mode has the most that anybody of it has, in the place of the group's rights.
    if !copy_xattrs(from.as_fd(), to.as_fd())? {
        mode &= !OF_GROUP;
    }
    to.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    use rustix::process::geteuid;
    use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

    use super::*;

    /// Owner, group and permissions.
    fn rights(path: &Path) -> (u32, u32, u32) {
        let meta = fs::metadata(path).expect("stat");
        (meta.uid(), meta.gid(), meta.mode() & 0o7777)
    }

    fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
        let mut value = [0; 256];
        getxattr(path, name, &mut value).ok().map(|len| value[..len].to_vec())
    }

    #[test]
    fn a_directory_has_the_owner_the_list_and_the_attributes_of_that_it_is_made_for() {
        const LIST: &str = "system.posix_acl_access";
        let home = tempfile::tempdir().expect("a directory");
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir(&from).expect("made");
        let (mut list, all) = (2_u32.to_le_bytes().to_vec(), u32::MAX);
        // The owner, user 12345, the group, the most of both, others.
        for (tag, may, of) in [(1, 7, all), (2, 7, 12_345), (4, 0, all), (16, 7, all), (32, 0, all)]
        {
            list.extend_from_slice(&u16::to_le_bytes(tag));
            list.extend_from_slice(&u16::to_le_bytes(may));
            list.extend_from_slice(&u32::to_le_bytes(of));
        }
        // Not every file system has them.
        let _ = setxattr(&from, "user.note", b"kept", XattrFlags::empty());
        let _ = setxattr(&from, LIST, &list, XattrFlags::empty());
        if geteuid().is_root() {
            std::os::unix::fs::chown(&from, Some(12), Some(34)).expect("given");
        }
        make_like(&from, &to).expect("made");
        assert_eq!(rights(&to), rights(&from));
        for name in ["user.note", LIST] {
            assert_eq!(attribute(&to, name), attribute(&from, name), "{name}");
        }
    }

    #[test]
    fn where_the_group_cannot_be_given_it_has_no_rights() {
        if !geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "not run: it takes root to be others");
            return;
        }
        let home = tempfile::tempdir().expect("a directory");
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir(&from).expect("made");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).expect("set");
        fs::set_permissions(&from, fs::Permissions::from_mode(0o775)).expect("set");
        let made = std::thread::spawn({
            let to = to.clone();
            move || {
                let (user, group) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
                set_thread_res_gid(group, group, group).expect("changed");
                set_thread_res_uid(user, user, user).expect("changed");
                make_like(&from, &to)
            }
        });
        made.join().expect("ended").expect("made");
        assert_eq!(rights(&to), (65_534, 65_534, 0o705));
    }
}
