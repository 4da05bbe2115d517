//! Part files that dead processes have left behind.
//!
//! Whoever writes a part file holds a lock on it (`flock`), which ends with the process, however
//! that ends. A part file without a lock belongs to nobody.

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
/// beyond the limits, and the oldest until `wanted` bytes are free that were not.
pub(super) fn trim(
    disk: &dyn Disk,
    root: &OwnedFd,
    limits: &PartLimits,
    now: SystemTime,
    wanted: u64,
) -> Cleaned {
    let mut found = Vec::new();
    visit(root, MAX_DEPTH, &mut 0, &mut |directory, name, _| {
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
    visit(root, MAX_DEPTH, &mut 0, &mut |directory, name, _| {
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
    let mut cleaned = Cleaned::default();
    visit(&root, if deep { MAX_DEPTH } else { 0 }, &mut 0, &mut |directory, name, _| {
        if is_part_file(name)
            && stale.is_one(name)
            && let Some((_lock, meta)) = lock_stale(disk, directory, name)
        {
            cleaned.remove(disk, directory, name, &meta);
        }
    });
    Ok(cleaned)
}

/// Looks at all that is in a directory and below it, within bounds; symbolic links are not followed.
pub(crate) fn visit_below(root: &OwnedFd, look: &mut dyn FnMut(&OwnedFd, &str, FileType)) {
    visit(root, MAX_DEPTH, &mut 0, look);
}

/// Looks at all that is in a directory and `depth` levels below.
fn visit(
    directory: &OwnedFd,
    depth: usize,
    entries: &mut usize,
    look: &mut dyn FnMut(&OwnedFd, &str, FileType),
) {
    let Ok(listed) = Dir::read_from(directory) else { return };
    for entry in listed {
        let Ok(entry) = entry else { return };
        *entries += 1;
        if *entries > MAX_ENTRIES {
            return;
        }
        let Ok(name) = entry.file_name().to_str() else { continue };
        if matches!(name, "." | "..") {
            continue;
        }
        look(directory, name, entry.file_type());
        if depth > 0 && matches!(entry.file_type(), FileType::Directory) {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NOFOLLOW;
            if let Ok(inner) = openat(directory, name, flags, Mode::empty()) {
                visit(&inner, depth - 1, entries, look);
            }
        }
    }
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
