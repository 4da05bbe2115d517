//! A tree that is written: nothing outside its directory, and each file complete or not at all.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawMode, Stat, chmodat, fchmod, fstat, mkdirat, openat,
    readlinkat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use wellspring_tree::Modified;

use super::attributes::{Meta, set_link_owner};
use super::doubts::Doubts;
use super::file::{PACKED, READ, state, times_of};
use super::loosened::Loosened;
use super::new_file::{NewFile, take_name};
use super::remove_all::remove_all;
use super::scan::{Scan, ScanError, scan};
use super::unsynced::doubt;
use super::writers::Writers;
use crate::existing::Existing;
use crate::objects::{
    Disk, SystemDisk, UNSYNCED, open_directory_beneath, part_file_name, split_path,
};

/// Names tried before giving up: each has 64 random bits.
const ATTEMPTS: usize = 8;

/// The directory of a tree that is written. Below it no symbolic link is followed.
#[derive(Clone, Debug)]
pub struct TreeTarget {
    pub(super) writers: Arc<Writers>,
    /// The directory that was opened last, and its path.
    parent: (String, Option<Arc<OwnedFd>>),
    /// The directory below it that was asked for last, and which of its files may not be on the disk.
    below: Option<(String, Doubts)>,
}

impl TreeTarget {
    /// Opens the directory, which is made if it does not exist and `make` says so; links on the way to it are the
    /// caller's own choice.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path, make: bool) -> io::Result<Self> {
        if make {
            std::fs::create_dir_all(path)?;
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        Ok(TreeTarget::of(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// A directory that is open already.
    pub fn of(root: OwnedFd) -> Self {
        TreeTarget::below(root, None)
    }

    /// The same, of which notes above `top`, one of the directories above it, say nothing.
    pub(super) fn below(root: OwnedFd, top: Option<&OwnedFd>) -> Self {
        TreeTarget::by(Writers::of(root, top))
    }

    fn by(writers: Writers) -> Self {
        TreeTarget { writers: Arc::new(writers), parent: (String::new(), None), below: None }
    }

    /// A directory that is open already, and is written in several goes: directories that it gives itself the right to
    /// change keep that until `shared` is dropped, or their modes are [restored](Self::restore_modes).
    pub fn sharing(root: OwnedFd, shared: &mut Option<Arc<Loosened>>) -> Self {
        let mut writers = Writers::of(root, None);
        match shared.as_ref().filter(|loosened| loosened.is_below(&writers.root)) {
            Some(loosened) => writers.loosened = Arc::clone(loosened),
            None => *shared = Some(Arc::clone(&writers.loosened)),
        }
        TreeTarget::by(writers)
    }

    /// Whether that path leads to it.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        // Both are asked in the same way: not every file system gives a path and an open directory the same number.
        let inode = |directory: &OwnedFd| fstat(directory).map(|stat| (stat.st_dev, stat.st_ino));
        let named = rustix::fs::open(path, flags, Mode::empty());
        named.is_ok_and(|named| inode(&named) == inode(&self.writers.root))
    }

    /// Makes the directories above a path that are missing, with the modes that `mode` says but usable by their
    /// owner, and returns their paths. What has the name of one and is no directory is replaced if `existing` says so.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::AlreadyExists`] for what may not be replaced.
    pub fn make_parents(
        &mut self,
        path: &str,
        existing: Existing,
        mode: impl Fn(&str) -> u16,
    ) -> io::Result<Vec<String>> {
        let mut made = Vec::new();
        if self.parent(path).is_ok() {
            return Ok(made);
        }
        let ends = path.match_indices('/').map(|(end, _)| end);
        for directory in ends.map(|end| &path[..end]) {
            let (parent, name) = self.parent_to_change(directory)?;
            let mode = Mode::from_raw_mode(RawMode::from(mode(directory) & 0o777 | 0o700));
            match mkdirat(&parent, name, mode) {
                Err(Errno::EXIST) if is_directory(&parent, name)? => continue,
                Err(Errno::EXIST) if existing == Existing::Replace => {
                    unlinkat(&parent, name, AtFlags::empty())?;
                    mkdirat(&parent, name, mode)?;
                }
                other => other?,
            }
            // Whatever the umask.
            set_mode(&parent, name, mode)?;
            made.push(directory.to_owned());
        }
        Ok(made)
    }

    /// Makes room for a regular file: an empty directory, a link or something else goes, and a regular file stays.
    ///
    /// # Errors
    /// The system's.
    pub fn make_way(&mut self, path: &str) -> io::Result<()> {
        let (parent, name) = self.parent_to_change(path)?;
        match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => Ok(()),
                FileType::Directory => Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?),
                _ => Ok(unlinkat(&parent, name, AtFlags::empty())?),
            },
        }
    }

    /// Whether a regular file of that length and time has that path, and is not [in doubt](Self::is_in_doubt).
    pub fn has(&mut self, path: &str, size: u64, modified: Modified) -> bool {
        let found = self.found(path, modified).filter(|found| found.st_size as u64 == size);
        found.is_some_and(|found| !self.doubts(path, size).of_file(&found))
    }

    /// Whether a regular file of that time and at most that length has that path, and may have other bytes on the disk
    /// than it was given: it was written by a transfer that did not come to its end before a power cut, or whose sync
    /// failed. A power cut may leave a file without its last bytes, or without any.
    pub fn is_in_doubt(&mut self, path: &str, size: u64, modified: Modified) -> bool {
        if self.doubts(path, size).is_none() {
            return false;
        }
        let found = self.found(path, modified).filter(|found| found.st_size as u64 <= size);
        found.is_some_and(|found| self.doubts(path, size).of_file(&found))
    }

    /// The same of a file of which only is known what it is now: a power cut may have left it without any bytes.
    pub fn may_be_torn(&mut self, path: &str, size: u64, modified: Modified) -> bool {
        self.is_in_doubt(path, size.max(1), modified)
    }

    /// What notes say of a file of that length.
    fn doubts(&mut self, path: &str, size: u64) -> &Doubts {
        static NONE: Doubts = Doubts::none();
        if !(1..PACKED).contains(&size) {
            // Files that are not packed are synced before they get their names.
            return &NONE;
        }
        let (directory, _) = split_path(path);
        if directory.is_empty() {
            return self.writers.doubts();
        }
        if self.below.as_ref().is_none_or(|(of, _)| of != directory) {
            self.below = Some((directory.to_owned(), self.writers.doubts_below(directory)));
        }
        self.below.as_ref().map_or(self.writers.doubts(), |(_, doubts)| doubts)
    }

    /// Whether a file here that was given a time may have this one.
    pub(super) fn is_time_of(&self, given: Modified, here: Modified) -> bool {
        given == here || given.in_steps_of(self.writers.time_step) == here
    }

    fn found(&mut self, path: &str, modified: Modified) -> Option<Stat> {
        let found = self.stat(path)?;
        let is_it = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            && self.is_time_of(modified, super::file::modified(&found));
        is_it.then_some(found)
    }

    /// What has that path, a link itself.
    pub(super) fn stat(&mut self, path: &str) -> Option<Stat> {
        let (parent, name) = self.parent(path).ok()?;
        statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Where the link of that path leads to.
    pub(super) fn link_target(&mut self, path: &str) -> Option<String> {
        let (parent, name) = self.parent(path).ok()?;
        readlinkat(&parent, name, Vec::new()).ok()?.into_string().ok()
    }

    /// Waits until all that was written is on the disk.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        self.writers.sync()
    }

    /// Waits until all that was written is on the disk, and notes how that went; `leaves_doubts` says that other files
    /// stay in doubt.
    ///
    /// # Errors
    /// The system's.
    pub fn settle(&self, leaves_doubts: bool) -> io::Result<()> {
        self.writers.settle(leaves_doubts)
    }

    /// [Settles](Self::settle) what others have left there, who write no more. What was in doubt before stays so.
    ///
    /// # Errors
    /// The system's.
    pub fn settle_what_was_left(&self) -> io::Result<()> {
        self.writers.settle_what_was_left()
    }

    /// Notes that what was written there and is not [settled](Self::settle) is in doubt: a sync of the file system has failed.
    ///
    /// # Errors
    /// The system's.
    pub fn doubt(&self) -> io::Result<()> {
        doubt(&self.writers.root)
    }

    /// [Settles](Self::settle) it when nobody writes there any more, if that was not done: whoever wrote was stopped before
    /// all was there. Who drops it last waits for that.
    pub fn settle_when_dropped(&self) {
        self.writers.settle_when_dropped();
    }

    /// Whether the file system takes names that differ in case alone for the same.
    ///
    /// # Errors
    /// The system's.
    pub fn folds_case(&self) -> io::Result<bool> {
        let name = part_file_name("case", SystemDisk.random()?);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        openat(&self.writers.root, &name, flags, Mode::from_raw_mode(0o600))?;
        let found = statat(&self.writers.root, name.to_uppercase(), AtFlags::SYMLINK_NOFOLLOW);
        match unlinkat(&self.writers.root, &name, AtFlags::empty()) {
            // Others take it for stale.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(found.is_ok())
    }

    /// Walks what is there.
    ///
    /// # Errors
    /// [`ScanError`].
    pub fn scan(&self, how: Scan) -> Result<wellspring_tree::Listing, ScanError> {
        scan(&self.writers.root, how)
    }

    /// The directory that holds what has that path, and its name there.
    fn parent<'p>(&mut self, path: &'p str) -> io::Result<(Arc<OwnedFd>, &'p str)> {
        let (directory, name) = split_path(path);
        if directory.is_empty() {
            return Ok((Arc::clone(&self.writers.root), name));
        }
        if self.parent.0 != directory || self.parent.1.is_none() {
            let opened = open_directory_beneath(&self.writers.root, directory)?;
            self.parent = (directory.to_owned(), Some(Arc::new(opened)));
        }
        let opened = self.parent.1.as_ref().expect("was opened above");
        Ok((Arc::clone(opened), name))
    }

    /// The same, in which this process may make and remove things. If it owns the directory, and those above it, but may
    /// not, it gives itself the right until [they are as they were](Self::restore_modes).
    pub(super) fn parent_to_change<'p>(
        &mut self,
        path: &'p str,
    ) -> io::Result<(Arc<OwnedFd>, &'p str)> {
        let (directory, _) = split_path(path);
        let (parent, name) = match self.parent(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.writers.loosened.loosen_way(directory);
                self.parent(path)?
            }
            found => found?,
        };
        self.writers.loosened.loosen(directory, &parent);
        Ok((parent, name))
    }

    /// Gives directories of this process, in which it could not make or remove things, the modes back that they had, but
    /// for those that were [set](Self::set_directory) meanwhile.
    pub fn restore_modes(&self) {
        self.writers.loosened.restore();
    }

    /// The directory that holds what has that path, to be changed, if there is one; a link is none.
    fn parent_if_there<'p>(
        &mut self,
        path: &'p str,
    ) -> io::Result<Option<(Arc<OwnedFd>, &'p str)>> {
        match self.parent_to_change(path) {
            Err(error) if is_no_directory(&error) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Makes a directory, for its owner alone until [`set_directory`](Self::set_directory) says otherwise. What has the name
    /// and is no directory is replaced if `existing` says so.
    ///
    /// # Errors
    /// The system's.
    pub fn make_directory(&mut self, path: &str, existing: Existing) -> io::Result<()> {
        let (parent, name) = self.parent_to_change(path)?;
        let mode = Mode::from_raw_mode(0o700);
        match mkdirat(&parent, name, mode) {
            Err(Errno::EXIST) if is_directory(&parent, name)? => Ok(()),
            Err(Errno::EXIST) if existing == Existing::Replace => {
                unlinkat(&parent, name, AtFlags::empty())?;
                Ok(mkdirat(&parent, name, mode)?)
            }
            other => Ok(other?),
        }
    }

    /// Makes a symbolic link, in the place of what has the name if `existing` says so; of a directory only if that
    /// is empty.
    ///
    /// # Errors
    /// The system's.
    pub fn make_link(
        &mut self,
        path: &str,
        target: &str,
        meta: &Meta,
        existing: Existing,
    ) -> io::Result<()> {
        let (parent, name) = self.parent_to_change(path)?;
        let times = times_of(meta.modified);
        let finish = |name: &str| {
            set_link_owner(&parent, name, meta.attributes.as_ref())?;
            utimensat(&parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)
        };
        if existing == Existing::Keep {
            symlinkat(target, &parent, name)?;
            return Ok(finish(name)?);
        }
        for _ in 0..ATTEMPTS {
            let temporary = part_file_name(name, SystemDisk.random()?);
            match symlinkat(target, &parent, &temporary) {
                Err(Errno::EXIST) => continue,
                made => made?,
            }
            let placed = finish(&temporary).and_then(|()| take_name(&parent, &temporary, name));
            if placed.is_err() {
                // The error that matters is the first.
                let _ = unlinkat(&parent, &temporary, AtFlags::empty());
            }
            return Ok(placed?);
        }
        Err(Errno::EXIST.into())
    }

    /// Notes in the directory that files are written from now on, and may not be on the disk until [all is](Self::settle).
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&self) -> io::Result<()> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{UNSYNCED}: {error}"));
        self.writers.begin().map_err(named)
    }

    /// Begins a regular file, which is to have that mode. It is noted that it may not be on the disk until
    /// [all is](Self::settle).
    ///
    /// # Errors
    /// The system's.
    pub fn begin_file(&mut self, path: &str, mode: u16) -> io::Result<NewFile> {
        self.begin()?;
        let (parent, name) = self.parent_to_change(path)?;
        NewFile::begin(parent, name, mode)
    }

    /// A way to the directory that holds what has that path, good as long as `self` is used for no other
    /// directory: for code that takes files by their paths.
    ///
    /// # Errors
    /// The system's.
    pub fn directory_of(&mut self, path: &str) -> io::Result<Arc<OwnedFd>> {
        self.parent(path).map(|(parent, _)| parent)
    }

    /// The same, in which this process may make and remove things, if it can have it so.
    ///
    /// # Errors
    /// The system's.
    pub fn directory_to_change(&mut self, path: &str) -> io::Result<Arc<OwnedFd>> {
        self.parent_to_change(path).map(|(parent, _)| parent)
    }

    /// Opens a regular file of that length, if there is one.
    pub fn open_file(&mut self, path: &str, size: u64) -> Option<File> {
        let (parent, name) = self.parent(path).ok()?;
        let file = openat(&parent, name, READ, Mode::empty()).ok()?;
        state(&file).is_ok_and(|(len, _)| len == size).then(|| File::from(file))
    }

    /// Removes what has that path; a directory only if it is empty, else false.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_one(&mut self, path: &str) -> io::Result<bool> {
        let Some((parent, name)) = self.parent_if_there(path)? else { return Ok(false) };
        let removed = match unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                self.parent.1 = None;
                unlinkat(&parent, name, AtFlags::REMOVEDIR)
            }
            other => other,
        };
        match removed {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes what has that path, a directory with all that is in it.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&mut self, path: &str) -> io::Result<()> {
        let Some((parent, name)) = self.parent_if_there(path)? else { return Ok(()) };
        self.parent.1 = None;
        remove_all(&parent, &CString::new(name)?)
    }
}

/// Gives a file or a directory its permissions. What is a link by now leads to nothing: a name may be exchanged at any
/// time by whoever owns the directory.
fn set_mode(parent: &OwnedFd, name: &str, mode: Mode) -> Result<(), Errno> {
    match openat(parent, name, READ, Mode::empty()) {
        // Who may not read a file may yet own it. Root, who could be led astray, may read all.
        Err(Errno::ACCESS) => chmodat(parent, name, mode, AtFlags::empty()),
        file => fchmod(file?, mode),
    }
}

fn is_directory(parent: &OwnedFd, name: &str) -> Result<bool, Errno> {
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// Whether an error says that there is no directory of that name.
fn is_no_directory(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}
