//! Part files that dead processes have left behind.
//!
//! Whoever writes a part file holds a lock on it (`flock`), which ends with the process, however
//! that ends. A part file without a lock belongs to nobody.

use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};

use super::name::{is_kept_part, is_part_file};
use super::{Disk, SystemDisk};

/// Directories below the first that are looked into, one in the other.
const MAX_DEPTH: usize = 32;
/// Entries looked at in all: a server must not take for ever to start.
const MAX_ENTRIES: usize = 1_000_000;
/// Part files whose ages are compared in one go, at most; another go sees the others.
const MAX_LEFT: usize = 65_536;

/// Makes a part file known as somebody's; false if it was taken for stale before that.
pub(crate) fn claim(disk: &dyn Disk, file: &File) -> bool {
    match disk.lock(file) {
        Ok(()) => fstat(file).is_ok_and(|stat| stat.st_nlink > 0),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
        // A file system without locks: then nothing in it is taken for stale either.
        Err(_) => true,
    }
}

/// Locks a part file that was there; false if somebody has it, or had it until now and gave it its object's name. As
/// long as it is locked nobody else renames or removes it; so without a lock it is nobody's.
pub(super) fn claim_left(disk: &dyn Disk, directory: &OwnedFd, name: &str, file: &File) -> bool {
    if disk.lock(file).is_err() {
        return false;
    }
    let named = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    let (Ok(named), Ok(opened)) = (named, fstat(file)) else { return false };
    (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)
}

/// Part files whose processes have died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stale<'a> {
    /// Those that nobody can take up again, and those of the object of that file name whose part
    /// file is not the one of that name: it has other bytes now.
    Useless {
        /// The object's file name, if an object is about to be received.
        file_name: Option<&'a str>,
        /// The part file that stays.
        kept: &'a str,
    },
    /// All.
    All,
}

impl Stale<'_> {
    fn is_one(&self, name: &str) -> bool {
        match self {
            Stale::All => true,
            Stale::Useless { file_name, kept } => {
                !is_kept_part(name, None)
                    || file_name.is_some_and(|of| is_kept_part(name, Some(of)) && name != *kept)
            }
        }
    }
}

/// Removes the part files in a directory whose processes have died and that nobody can take up
/// again, and if `deep`, those in the directories below it; symbolic links are not followed. Returns
/// how many. What cannot be looked at or removed stays.
///
/// # Errors
/// The directory cannot be opened.
pub fn remove_stale_parts(directory: &Path, deep: bool) -> io::Result<usize> {
    remove_stale_parts_on(&SystemDisk, directory, deep)
}

/// [`remove_stale_parts`] on any disk.
///
/// # Errors
/// The directory cannot be opened.
pub fn remove_stale_parts_on(disk: &dyn Disk, directory: &Path, deep: bool) -> io::Result<usize> {
    let useless = Stale::Useless { file_name: None, kept: "" };
    sweep(disk, directory, deep, useless).map(|swept| swept.removed)
}

/// Removes part files whose processes have died, as [`remove_stale_parts`] does, also those that
/// could be taken up again, in a directory and all below it.
///
/// # Errors
/// The directory cannot be opened.
pub fn clean(directory: &Path) -> io::Result<Cleaned> {
    sweep(&SystemDisk, directory, true, Stale::All)
}

/// What was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cleaned {
    /// Part files.
    pub removed: usize,
    /// What they took on the disk \[bytes\].
    pub bytes: u64,
    /// Not all was looked at: there is too much, or it is too deep.
    pub is_cut: bool,
}

/// How far a walk goes, and whether there was more.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Directories below the first, one in the other; none of them counts as more.
    depth: usize,
    /// Entries that may yet be looked at.
    entries: usize,
    is_cut: bool,
}

impl Bounds {
    const DEEP: Bounds = Bounds { depth: MAX_DEPTH, entries: MAX_ENTRIES, is_cut: false };
    const FLAT: Bounds = Bounds { depth: 0, ..Bounds::DEEP };
}

/// Bounds on part files that could be taken up and that nobody works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartLimits {
    /// Time since one was last written to.
    pub age: Duration,
    /// What all take on the disk \[bytes\].
    pub bytes: u64,
    /// How many there are.
    pub files: usize,
}

impl Default for PartLimits {
    /// A week; half a TB; 1,024 files.
    fn default() -> Self {
        PartLimits { age: Duration::from_secs(7 * 86_400), bytes: 500_000_000_000, files: 1_024 }
    }
}

/// A part file that nobody works on.
struct Left {
    changed: SystemTime,
    bytes: u64,
}

/// Removes part files that could be taken up and that nobody works on, in a directory and all below it: those
/// beyond the limits, and the oldest until `wanted` bytes are free that were not, if all of them have so many.
pub(super) fn trim(
    disk: &dyn Disk,
    root: &OwnedFd,
    limits: &PartLimits,
    now: SystemTime,
    wanted: u64,
) -> Cleaned {
    let mut found = Vec::new();
    visit_below(root, &mut |directory, name, _| {
        if is_kept_part(name, None)
            && found.len() < MAX_LEFT
            && let Some((_lock, meta)) = lock_stale(disk, directory, name)
        {
            let changed = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push(Left { changed, bytes: meta.blocks() * 512 });
        }
    });
    let Some(cutoff) = cutoff(&mut found, limits, now, wanted) else { return Cleaned::default() };
    let mut cleaned = Cleaned::default();
    visit_below(root, &mut |directory, name, _| {
        let changed = |meta: &Metadata| meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if is_kept_part(name, None)
            && let Some((_lock, meta)) = lock_stale(disk, directory, name)
            && changed(&meta) <= cutoff
        {
            cleaned.remove(disk, directory, name, &meta);
        }
    });
    cleaned
}

/// The last change of the newest part file that has to go.
fn cutoff(
    found: &mut [Left],
    limits: &PartLimits,
    now: SystemTime,
    wanted: u64,
) -> Option<SystemTime> {
    found.sort_unstable_by_key(|left| left.changed);
    let mut rest: u64 = found.iter().map(|left| left.bytes).sum();
    // What does not make enough room costs others what they have brought, and helps nobody.
    let wanted = if wanted > rest { 0 } else { wanted };
    let mut freed = 0;
    let mut cutoff = None;
    for (index, left) in found.iter().enumerate() {
        let is_old = now.duration_since(left.changed).is_ok_and(|age| age > limits.age);
        let too_many = found.len() - index > limits.files;
        if !is_old && !too_many && rest <= limits.bytes && freed >= wanted {
            break;
        }
        cutoff = Some(left.changed);
        rest -= left.bytes;
        freed += left.bytes;
    }
    cutoff
}

/// Removes a part file, if nobody has it.
pub(super) fn remove_left(disk: &dyn Disk, directory: &OwnedFd, name: &str) {
    if let Some((_lock, meta)) = lock_stale(disk, directory, name) {
        Cleaned::default().remove(disk, directory, name, &meta);
    }
}

pub(super) fn sweep(
    disk: &dyn Disk,
    directory: &Path,
    deep: bool,
    stale: Stale<'_>,
) -> io::Result<Cleaned> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root = rustix::fs::open(directory, flags, Mode::empty())?;
    let bounds = if deep { Bounds::DEEP } else { Bounds::FLAT };
    Ok(sweep_within(disk, &root, bounds, stale))
}

fn sweep_within(disk: &dyn Disk, root: &OwnedFd, mut bounds: Bounds, stale: Stale<'_>) -> Cleaned {
    let mut cleaned = Cleaned::default();
    visit(root, 0, &mut bounds, &mut |directory, name, _| {
        if is_part_file(name)
            && stale.is_one(name)
            && let Some((_lock, meta)) = lock_stale(disk, directory, name)
        {
            cleaned.remove(disk, directory, name, &meta);
        }
    });
    cleaned.is_cut = bounds.is_cut;
    cleaned
}

/// Looks at all that is in a directory and below it, within bounds; symbolic links are not followed. Returns whether there
/// is more. What has a name that is not UTF-8 is not shown, but if it is a directory what is in it is.
pub(crate) fn visit_below(root: &OwnedFd, look: &mut dyn FnMut(&OwnedFd, &str, FileType)) -> bool {
    let mut bounds = Bounds::DEEP;
    visit(root, 0, &mut bounds, look);
    bounds.is_cut
}

/// Looks at all that is in a directory, which is so many levels below the first, and below it.
fn visit(
    directory: &OwnedFd,
    level: usize,
    bounds: &mut Bounds,
    look: &mut dyn FnMut(&OwnedFd, &str, FileType),
) {
    let Ok(listed) = Dir::read_from(directory) else { return };
    for entry in listed {
        let Ok(entry) = entry else { return };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if bounds.entries == 0 {
            bounds.is_cut = true;
            return;
        }
        bounds.entries -= 1;
        let kind = kind_of(directory, name, entry.file_type());
        if let Ok(name) = name.to_str() {
            look(directory, name, kind);
        }
        if bounds.depth == 0 || kind != FileType::Directory {
            continue;
        }
        if level == bounds.depth {
            bounds.is_cut = true;
            continue;
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NOFOLLOW;
        if let Ok(inner) = openat(directory, name, flags, Mode::empty()) {
            visit(&inner, level + 1, bounds, look);
        }
    }
}

/// What an entry of a directory is; `listed` is what the directory says, which not every file system knows.
fn kind_of(directory: &OwnedFd, name: &CStr, listed: FileType) -> FileType {
    if listed != FileType::Unknown {
        return listed;
    }
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    found.map_or(listed, |found| FileType::from_raw_mode(found.st_mode))
}

/// Whether a part file of that name can be taken up.
pub(crate) fn is_left_to_take_up(name: &str) -> bool {
    is_kept_part(name, None)
}

/// Locks a part file as long as the result is kept, if nobody works on it.
pub(crate) fn lock_left(directory: &OwnedFd, name: &str) -> Option<File> {
    lock_stale(&SystemDisk, directory, name).map(|(file, _)| file)
}

/// Opens and locks a part file, if nobody works on it.
fn lock_stale(disk: &dyn Disk, directory: &OwnedFd, name: &str) -> Option<(File, Metadata)> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let fd = openat(directory.as_fd(), name, flags, Mode::empty()).ok()?;
    let file = File::from(fd);
    let meta = file.metadata().ok().filter(Metadata::is_file)?;
    claim_left(disk, directory, name, &file).then_some((file, meta))
}

impl Cleaned {
    /// Removes a part file that is locked.
    fn remove(&mut self, disk: &dyn Disk, directory: &OwnedFd, name: &str, meta: &Metadata) {
        if disk.remove(directory, name).is_ok() {
            self.removed += 1;
            self.bytes += meta.blocks() * 512;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic_file::{AtomicFile, Existing};

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_oldest_part_files_go_first_and_no_more_than_must() {
        let limits = PartLimits { age: Duration::from_secs(100), bytes: 1_000, files: 4 };
        let ends = |times: &[(u64, u64)], wanted| {
            let mut found: Vec<Left> =
                times.iter().map(|(t, bytes)| Left { changed: at(*t), bytes: *bytes }).collect();
            cutoff(&mut found, &limits, at(1_000), wanted)
        };
        assert_eq!(ends(&[], 1_000), None);
        assert_eq!(ends(&[(950, 400), (990, 600)], 0), None);
        assert_eq!(ends(&[(990, 600), (899, 1)], 0), Some(at(899)), "too old");
        assert_eq!(ends(&[(990, 600), (950, 401)], 0), Some(at(950)), "too much");
        assert_eq!(ends(&[(990, 600), (950, 1), (960, 2), (970, 9)], 3), Some(at(960)), "wanted");
        let some = [(990, 600), (950, 1)];
        assert_eq!(ends(&some, 601), Some(at(990)), "all of them are enough");
        assert_eq!(ends(&some, 602), None, "it would be of no use");
        assert_eq!(ends(&[(990, 600), (899, 1)], 602), Some(at(899)), "too old all the same");
        let many: Vec<_> = (0..6).map(|i| (950 + i, 1)).collect();
        assert_eq!(ends(&many, 0), Some(at(951)), "too many");
        // Whatever its clock says.
        assert_eq!(ends(&[(2_000, 600)], 0), None);
    }

    #[test]
    fn a_part_file_in_use_stays_and_so_do_other_files() {
        let home = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir(home.path().join("deep")).expect("directory");
        let kept = |number: u128| format!(".x.wellspring-{number:032x}.kept.part");
        let paths = [
            home.path().join(kept(1)),
            home.path().join("deep").join(kept(2)),
            home.path().join("deep").join("x"),
            home.path().join(".x.wellspring-0000000000000001.part"),
        ];
        for path in &paths {
            std::fs::write(path, [1; 5_000]).expect("written");
        }
        let used = File::open(&paths[0]).expect("open");
        assert!(claim(&SystemDisk, &used));
        let root = OwnedFd::from(File::open(home.path()).expect("open"));
        let limits = PartLimits { bytes: 0, ..PartLimits::default() };
        let cleaned = trim(&SystemDisk, &root, &limits, SystemTime::now(), 0);
        assert_eq!(cleaned.removed, 1);
        assert_eq!(paths.map(|path| path.exists()), [true, false, true, true]);
    }

    #[test]
    fn what_is_below_a_name_that_is_not_utf_8_is_cleaned_too_and_an_end_before_all_is_said() {
        use std::os::unix::ffi::OsStrExt;

        let home = tempfile::tempdir().expect("temporary directory");
        let odd = home.path().join(std::ffi::OsStr::from_bytes(b"\xff")).join("inner");
        std::fs::create_dir_all(&odd).expect("directory");
        let name = |number: u128| format!(".x.wellspring-{number:032x}.kept.part");
        let write = || {
            for number in 0..3 {
                std::fs::write(odd.join(name(number)), [1; 5_000]).expect("written");
            }
        };
        write();
        let cleaned = clean(home.path()).expect("a directory");
        assert_eq!((cleaned.removed, cleaned.is_cut), (3, false));
        write();
        let root = OwnedFd::from(File::open(home.path()).expect("open"));
        let within = |bounds| sweep_within(&SystemDisk, &root, bounds, Stale::All);
        let shallow = within(Bounds { depth: 1, ..Bounds::DEEP });
        assert_eq!((shallow.removed, shallow.is_cut), (0, true));
        // Two directories, and then a file.
        let short = within(Bounds { entries: 3, ..Bounds::DEEP });
        assert_eq!((short.removed, short.is_cut), (1, true));
        let all = within(Bounds { entries: 4, ..Bounds::DEEP });
        assert_eq!((all.removed, all.is_cut), (2, false));
        assert!(!within(Bounds::FLAT).is_cut);
    }

    #[test]
    fn what_a_killed_program_left_of_an_atomic_file_is_removed_and_one_being_written_is_not() {
        let home = tempfile::tempdir().expect("temporary directory");
        let path = home.path().join("x");
        let file = AtomicFile::create(&path, Existing::Keep).expect("begun");
        let names = || {
            let entries = std::fs::read_dir(home.path()).expect("a directory");
            entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
        };
        let being_written = names();
        // A process that is killed loses its lock and leaves the file.
        let name = being_written[0].to_string_lossy();
        let left = name.replace(".part", "-2.part");
        std::fs::write(&left, [1; 5_000]).expect("written");
        // What has a name of its own is nobody's part file.
        std::fs::write(home.path().join(".wellspring-quotas"), "of keys").expect("written");
        assert_eq!(clean(home.path()).expect("a directory").removed, 1);
        assert!(!Path::new(&left).exists() && being_written[0].exists());
        file.finish().expect("it was not taken for left behind");
        assert_eq!(names().len(), 2, "the file and the quotas");
    }
}
