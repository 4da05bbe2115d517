//! Modes, times, owners and attributes of what is in its place.
//!
//! Others may give the name of a file to one of theirs at any time, whose bytes must never get the time of other ones. So
//! nothing is set by the name of a file, but only of one that is open and known.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, OFlags, RawMode, chmodat, openat, statat, utimensat};
use rustix::io::Errno;

use super::file::{READ, state, times_of};
use super::{Meta, TreeTarget};
use crate::objects::Fingerprint;

impl TreeTarget {
    /// Gives a regular file all that it is to have besides its bytes; false if it is not there any more in the state in
    /// which these were read.
    ///
    /// # Errors
    /// The system's.
    pub fn set_file(&mut self, path: &str, read: &Fingerprint, meta: &Meta) -> io::Result<bool> {
        let (parent, name) = self.parent_to_change(path)?;
        let Ok(file) = openat(&parent, name, READ, Mode::empty()).map(File::from) else {
            return Ok(false);
        };
        if Fingerprint::of(&file)? != *read {
            return Ok(false);
        }
        meta.give(file.as_fd())?;
        Ok(true)
    }

    /// Gives a regular file that has its length and time its mode, owner and attributes. One that has come in its place
    /// since it was looked at stays as it is.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn set_rights(&mut self, path: &str, size: u64, meta: &Meta) -> io::Result<()> {
        let (parent, name) = self.parent_to_change(path)?;
        let file = match openat(&parent, name, READ, Mode::empty()) {
            Err(Errno::LOOP) => return Ok(()),
            file => file?,
        };
        let is_it = |(len, time)| len == size && self.is_time_of(meta.modified, time);
        match state(&file).is_ok_and(is_it) {
            true => meta.give_rights(file.as_fd()),
            false => Ok(()),
        }
    }

    /// Sets mode, time, owner and extended attributes of a directory.
    ///
    /// # Errors
    /// The system's; what has the name is no directory.
    pub fn set_directory(&mut self, path: &str, meta: &Meta) -> io::Result<()> {
        let (parent, name) = self.parent_to_change(path)?;
        match openat(&parent, name, READ | OFlags::DIRECTORY, Mode::empty()) {
            // Who may not read a directory may yet own it. Root, who could be led astray, may read all.
            Err(Errno::ACCESS) if meta.attributes.as_ref().keeps.is_nothing() => {
                let found = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
                if found.st_mode & 0o7777 != RawMode::from(meta.mode) {
                    let mode = Mode::from_raw_mode(meta.mode.into());
                    chmodat(&parent, name, mode, AtFlags::empty())?;
                }
                utimensat(&parent, name, &times_of(meta.modified), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            directory => meta.give(directory?.as_fd())?,
        }
        self.writers.loosened.forget(path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use wellspring_tree::Modified;

    use super::*;

    const SECONDS: u64 = 1_000_000_000;

    /// Writes a file with a time so many seconds after some moment, and gives it that name.
    fn put(path: &Path, bytes: &[u8], seconds: u64) {
        let part = path.with_extension("part");
        fs::write(&part, bytes).expect("written");
        let file = File::options().write(true).open(&part).expect("open");
        file.set_permissions(Permissions::from_mode(0o600)).expect("mode");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("time");
        fs::rename(part, path).expect("in place");
    }

    /// Its mode, and the seconds of its time.
    fn look(path: &Path) -> (u32, u64) {
        let meta = fs::symlink_metadata(path).expect("stat");
        let time = meta.modified().expect("a time").duration_since(SystemTime::UNIX_EPOCH);
        (meta.permissions().mode() & 0o7777, time.expect("later").as_secs())
    }

    fn meta() -> Meta {
        let modified = Modified { seconds: SECONDS as i64, nanos: 0 };
        Meta { mode: 0o640, modified, ..Meta::default() }
    }

    #[test]
    fn what_was_read_is_set_and_what_has_come_in_its_place_is_left_alone() {
        let home = tempfile::tempdir().expect("directory");
        let path = home.path().join("f");
        let mut target = TreeTarget::open(home.path(), false).expect("open");
        put(&path, b"ours", 7);
        let read = Fingerprint::of(&File::open(&path).expect("open")).expect("stat");
        put(&path, b"them", 8);
        assert!(!target.set_file("f", &read, &meta()).expect("looked at"));
        assert_eq!(look(&path), (0o600, 8));
        fs::remove_file(&path).expect("removed");
        assert!(!target.set_file("f", &read, &meta()).expect("looked at"));
        put(&path, b"ours", 7);
        let read = Fingerprint::of(&File::open(&path).expect("open")).expect("stat");
        assert!(target.set_file("f", &read, &meta()).expect("set"));
        assert_eq!(look(&path), (0o640, SECONDS));
        // Written since, by whoever keeps its time.
        fs::write(&path, b"longer").expect("written");
        assert!(!target.set_file("f", &read, &meta()).expect("looked at"));
    }

    #[test]
    fn rights_are_given_to_the_file_that_was_looked_at_and_no_time_to_any() {
        let home = tempfile::tempdir().expect("directory");
        let path = home.path().join("f");
        let mut target = TreeTarget::open(home.path(), false).expect("open");
        put(&path, b"ours", SECONDS);
        target.set_rights("f", 4, &meta()).expect("set");
        assert_eq!(look(&path), (0o640, SECONDS));
        put(&path, b"them", 8);
        target.set_rights("f", 4, &meta()).expect("left alone");
        assert_eq!(look(&path), (0o600, 8));
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("other", &path).expect("a link");
        put(&home.path().join("other"), b"ours", SECONDS);
        target.set_rights("f", 4, &meta()).expect("left alone");
        assert_eq!(look(&home.path().join("other")), (0o600, SECONDS));
        // Nor is a file taken for a directory.
        assert!(target.set_directory("other", &meta()).is_err());
        assert_eq!(look(&home.path().join("other")), (0o600, SECONDS));
    }
}
