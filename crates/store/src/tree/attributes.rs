//! Owners and extended attributes of open files, read and set.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, Gid, Mode, RawMode, Stat, Uid, XattrFlags, chownat, fchmod, fchown, fgetxattr,
    flistxattr, flistxattr_query, fremovexattr, fsetxattr, fstat, futimens,
};
use rustix::io::Errno;
use wellspring_tree::{
    Attributes, Entry, Keeps, MAX_XATTR_VALUE, MAX_XATTRS_LEN, Modified, OwnedAttributes, Owner,
    Xattrs,
};

use super::file::times_of;

/// How the system says that a file has no attribute of a name.
#[cfg(not(target_vendor = "apple"))]
const NO_ATTRIBUTE: Errno = Errno::NODATA;
#[cfg(target_vendor = "apple")]
const NO_ATTRIBUTE: Errno = Errno::NOATTR;

/// What a file of a tree is to have besides its bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meta {
    /// Its permissions.
    pub mode: u16,
    /// Last modification.
    pub modified: Modified,
    /// Its owner and extended attributes, as far as these are kept.
    pub attributes: OwnedAttributes,
}

impl From<&Entry<'_>> for Meta {
    fn from(entry: &Entry<'_>) -> Self {
        let Entry { mode, modified, attributes, .. } = *entry;
        Meta { mode, modified, attributes: attributes.into() }
    }
}

impl Meta {
    /// Gives an open file its owner and attributes. What the owner may do follows: another owner takes rights away.
    pub(crate) fn give_attributes(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let attributes = self.attributes.as_ref();
        match attributes.keeps.is_nothing() {
            true => Ok(()),
            false => set_attributes(file, attributes),
        }
    }

    /// Gives an open file its owner, attributes and mode.
    pub(super) fn give_rights(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.give_attributes(file)?;
        // Mostly it was made with it: the umask and lists of the directory decide.
        if fstat(file)?.st_mode & 0o7777 != RawMode::from(self.mode) {
            fchmod(file, Mode::from_raw_mode(self.mode.into()))?;
        }
        Ok(())
    }

    /// Gives an open file all that it is to have.
    pub(super) fn give(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.give_rights(file)?;
        Ok(futimens(file, &times_of(self.modified))?)
    }
}

/// Whether this process may give files to others: it is root's.
pub fn can_give_owners() -> bool {
    rustix::process::geteuid().is_root()
}

/// The owner of a file.
pub(super) fn owner_of(stat: &Stat) -> Owner {
    Owner { user: stat.st_uid, group: stat.st_gid }
}

/// The extended attributes of an open file that are kept, as an entry has them; `None` if they are too long for one.
pub(super) fn read_xattrs(file: BorrowedFd<'_>, keeps: Keeps) -> io::Result<Option<Vec<u8>>> {
    let mut attributes = Vec::new();
    let mut len = 0;
    for name in names(file, keeps)? {
        match value(file, &name) {
            Ok(value) => {
                len += name.len() + value.len();
                if len > MAX_XATTRS_LEN || value.len() > MAX_XATTR_VALUE {
                    return Ok(None);
                }
                attributes.push((name, value));
            }
            // Removed in this moment.
            Err(NO_ATTRIBUTE) => {}
            Err(Errno::RANGE | Errno::TOOBIG) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(Xattrs::to_bytes(&mut attributes))
}

/// Gives an open file the owner and the extended attributes that are kept; other attributes stay.
fn set_attributes(file: BorrowedFd<'_>, attributes: Attributes<'_>) -> io::Result<()> {
    match try_set_attributes(file, attributes) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            set_attributes_of_read_only(file, attributes).unwrap_or(Err(error))
        }
        set => set,
    }
}

/// The same of a file that its owner may not write, which keeps its mode; none if its mode is not the reason or not ours to
/// change.
fn set_attributes_of_read_only(
    file: BorrowedFd<'_>,
    attributes: Attributes<'_>,
) -> Option<io::Result<()>> {
    let mode = Mode::from_raw_mode(fstat(file).ok()?.st_mode & 0o7777);
    if mode.contains(Mode::WUSR) || fchmod(file, mode | Mode::WUSR).is_err() {
        return None;
    }
    let set = try_set_attributes(file, attributes);
    let again = fchmod(file, mode).map_err(io::Error::from);
    Some(set.and(again))
}

fn try_set_attributes(file: BorrowedFd<'_>, attributes: Attributes<'_>) -> io::Result<()> {
    let Attributes { keeps, owner, xattrs } = attributes;
    if keeps.owner {
        // First: it takes capabilities away.
        fchown(file, Some(Uid::from_raw(owner.user)), Some(Gid::from_raw(owner.group)))?;
    }
    if !keeps.has_xattrs() {
        return Ok(());
    }
    for name in names(file, keeps)? {
        if !xattrs.iter().any(|(kept, _)| kept == name) {
            match fremovexattr(file, &name[..]) {
                Ok(()) | Err(NO_ATTRIBUTE) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    for (name, wanted) in xattrs.iter() {
        if value(file, name).is_ok_and(|there| there == wanted) {
            continue;
        }
        fsetxattr(file, name, wanted, XattrFlags::empty())?;
    }
    Ok(())
}

/// Gives an open file the extended attributes and access control lists of another. What cannot be given is left out;
/// returns whether that is no list of who may do what.
pub(super) fn copy_xattrs(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<bool> {
    let mut has_lists = true;
    for kept in
        [Keeps { acls: true, ..Keeps::default() }, Keeps { xattrs: true, ..Keeps::default() }]
    {
        for name in names(from, kept)? {
            let given = value(from, &name)
                .and_then(|value| fsetxattr(to, &name[..], &value, XattrFlags::empty()));
            has_lists &= given.is_ok() || !kept.acls;
        }
    }
    Ok(has_lists)
}

/// Gives a symbolic link its owner, if that is kept.
pub(super) fn set_link_owner(
    parent: &OwnedFd,
    name: &str,
    attributes: Attributes<'_>,
) -> Result<(), Errno> {
    let Attributes { keeps, owner, .. } = attributes;
    if !keeps.owner {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
    chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
}

/// Names of the attributes of an open file that are kept.
fn names(file: BorrowedFd<'_>, keeps: Keeps) -> io::Result<Vec<Vec<u8>>> {
    let len = match flistxattr_query(file) {
        // A file system without attributes.
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        len => len?,
    };
    let mut list = Vec::with_capacity(len);
    if len > 0 {
        flistxattr(file, spare_capacity(&mut list))?;
    }
    let names = list.split(|byte| *byte == 0).filter(|name| keeps.has(name));
    Ok(names.map(<[u8]>::to_vec).collect())
}

fn value(file: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    // Most are short.
    let mut value = Vec::with_capacity(256);
    match fgetxattr(file, name, spare_capacity(&mut value)) {
        Err(Errno::RANGE) => {
            value.reserve_exact(MAX_XATTR_VALUE);
            fgetxattr(file, name, spare_capacity(&mut value))?;
        }
        read => {
            read?;
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use rustix::fs::getxattr;
    use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

    use super::super::{TreeTarget, can_give_owners};
    use super::*;
    use crate::existing::Existing;
    use crate::objects::Fingerprint;

    const NAME: &str = "user.note";

    fn meta(mode: u16, value: &[u8]) -> Meta {
        let keeps = Keeps { xattrs: true, ..Keeps::default() };
        let mut xattrs = vec![(NAME.into(), value.to_vec())];
        let bytes = Xattrs::to_bytes(&mut xattrs).expect("short");
        let xattrs = Xattrs::parse(&bytes, keeps).expect("attributes");
        let attributes = Attributes { keeps, owner: Owner::default(), xattrs };
        Meta { mode, modified: Modified::default(), attributes: attributes.into() }
    }

    fn look(path: &Path) -> (u32, Vec<u8>) {
        let mut value = [0; 16];
        let len = getxattr(path, NAME, &mut value).expect("an attribute");
        let mode = fs::metadata(path).expect("stat").permissions().mode();
        (mode & 0o7777, value[..len].to_vec())
    }

    #[test]
    fn what_its_owner_may_not_write_gets_attributes_and_keeps_its_mode() {
        let home = tempfile::tempdir().expect("a directory");
        fs::set_permissions(home.path(), Permissions::from_mode(0o777)).expect("set");
        let path = home.path().to_owned();
        let write = move || {
            let mut target = TreeTarget::open(&path, false).expect("open");
            let file = target.begin_file("new", 0o444).expect("begun");
            file.finish(&meta(0o444, b"first"), Existing::Keep).expect("in place");
            assert_eq!(look(&path.join("new")), (0o444, b"first".to_vec()));
            target.make_directory("d", Existing::Keep).expect("made");
            fs::set_permissions(path.join("d"), Permissions::from_mode(0o555)).expect("set");
            for mode in [0o444, 0o400] {
                let found = Fingerprint::of(&File::open(path.join("new")).expect("open"));
                let meta = meta(mode, b"second");
                assert!(target.set_file("new", &found.expect("stat"), &meta).expect("set"));
                assert_eq!(look(&path.join("new")), (u32::from(mode), b"second".to_vec()));
            }
            target.set_directory("d", &meta(0o555, b"second")).expect("set");
            assert_eq!(look(&path.join("d")), (0o555, b"second".to_vec()));
        };
        // Root may write whatever its mode.
        let user = std::thread::spawn(move || {
            if can_give_owners() {
                let (user, group) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
                set_thread_res_gid(group, group, group).expect("changed");
                set_thread_res_uid(user, user, user).expect("changed");
            }
            write();
        });
        user.join().expect("written");
    }
}
