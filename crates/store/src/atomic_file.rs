//! Files that appear under their name only when complete.
//!
//! A file is written under a temporary name beside its own, synced, and renamed. What is under way
//! when the program ends by a signal is removed by [`discard_unfinished`]. What a killed program leaves has the name
//! of a part file, and no lock: `clean` and the like remove it.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempPath;

pub use crate::existing::Existing;

/// The files being written; `None` once the program is about to end.
static UNFINISHED: Mutex<Option<BTreeSet<PathBuf>>> = Mutex::new(Some(BTreeSet::new()));

fn unfinished() -> MutexGuard<'static, Option<BTreeSet<PathBuf>>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn interrupted() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the program is about to end")
}

/// Removes what is being written, for a program that is about to end: no file is begun or gets its
/// name from then on.
pub fn discard_unfinished() {
    for path in unfinished().take().unwrap_or_default() {
        // It is gone if it was finished that moment.
        let _ = std::fs::remove_file(path);
    }
}

/// A file being written. Dropped before [`AtomicFile::finish`], it leaves nothing.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    path: PathBuf,
    existing: Existing,
    /// Its name for now; a device or a pipe is written in place and has none.
    temporary: Option<TempPath>,
}

impl AtomicFile {
    /// Begins a file that is to have that name, with the rights that the umask leaves. A symbolic
    /// link of that name is replaced, not followed.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path, existing: Existing) -> io::Result<Self> {
        Self::begin(path, existing, 0o666)
    }

    /// The same for a file that its owner alone may read and write.
    ///
    /// # Errors
    /// The system's.
    pub fn private(path: &Path, existing: Existing) -> io::Result<Self> {
        Self::begin(path, existing, 0o600)
    }

    /// Begins an output of a user's choice: what has that name now is replaced, of a symbolic link
    /// what it points at; a device or a pipe is written in place.
    ///
    /// # Errors
    /// The system's.
    pub fn output(path: &Path) -> io::Result<Self> {
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(path)?;
            let (path, existing) = (path.to_owned(), Existing::Replace);
            return Ok(AtomicFile { file, path, existing, temporary: None });
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Self::create(&path, Existing::Replace)
    }

    fn begin(path: &Path, existing: Existing, mode: u32) -> io::Result<Self> {
        let mut unfinished = unfinished();
        let names = unfinished.as_mut().ok_or_else(interrupted)?;
        let made = tempfile::Builder::new()
            .prefix(".wellspring-")
            .suffix(".part")
            .make_in(folder_of(path), |name| claim(open_new(name, mode)?))
            .map_err(bare)?;
        let (file, temporary) = made.into_parts();
        names.insert(temporary.to_path_buf());
        Ok(AtomicFile { file, path: path.to_owned(), existing, temporary: Some(temporary) })
    }

    /// The name that the file is to have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file itself, to sync or measure it.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// Syncs the file to the disk and gives it its name.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::AlreadyExists`] if something has the name and is to be kept; the
    /// system's. The file is removed.
    pub fn finish(mut self) -> io::Result<()> {
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        let synced = self.file.sync_all();
        let mut unfinished = unfinished();
        let names = unfinished.as_mut().ok_or_else(interrupted)?;
        names.remove(&*temporary);
        synced?;
        match self.existing {
            Existing::Keep => temporary.persist_noclobber(&self.path),
            Existing::Replace => temporary.persist(&self.path),
        }
        .map_err(|error| error.error)?;
        drop(unfinished);
        sync_folder(folder_of(&self.path));
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let (Some(temporary), Some(names)) = (&self.temporary, unfinished().as_mut()) {
            names.remove(&**temporary);
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Where the temporary file stands: renaming must not cross a file system.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn open_new(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path)
}

/// Locks a file that was just made, as part files are, so that nobody takes it for left behind. If somebody did before
/// that, the error makes [`tempfile::Builder`] choose another name.
#[cfg(unix)]
fn claim(file: File) -> io::Result<File> {
    use std::fs::TryLockError;
    use std::os::unix::fs::MetadataExt;
    let is_ours = match file.try_lock() {
        Ok(()) => file.metadata()?.nlink() > 0,
        Err(TryLockError::WouldBlock) => false,
        // A file system without locks: then nothing in it is taken for left behind either.
        Err(TryLockError::Error(_)) => true,
    };
    if is_ours { Ok(file) } else { Err(io::ErrorKind::AlreadyExists.into()) }
}

#[cfg(not(unix))]
fn claim(file: File) -> io::Result<File> {
    Ok(file)
}

/// The system's error, without the temporary name, which says nothing to a user.
fn bare(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|outer| outer.source());
    let system = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    match system.and_then(io::Error::raw_os_error) {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error,
    }
}

/// Makes the new name last. Not every system and not every file system can sync a directory; the
/// data are on the disk then, and the name follows.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn write(file: io::Result<AtomicFile>, bytes: &[u8]) -> AtomicFile {
        let mut file = file.expect("begun");
        file.write_all(bytes).expect("written");
        file
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_leaves_nothing_otherwise() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "before").expect("written");
        let seen = || {
            let names = std::fs::read_dir(folder.path()).expect("folder").count();
            (std::fs::read(&path).expect("read"), names)
        };
        drop(write(AtomicFile::output(&path), b"cut"));
        assert_eq!(seen(), (b"before".to_vec(), 1));
        let file = write(AtomicFile::output(&path), b"after");
        assert_eq!(seen(), (b"before".to_vec(), 2), "not before it is finished");
        file.finish().expect("finished");
        assert_eq!(seen(), (b"after".to_vec(), 1));
    }

    #[test]
    fn a_file_that_exists_is_kept_if_asked_for() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("a");
        let file = write(AtomicFile::create(&path, Existing::Keep), b"ours");
        // Another process was faster.
        std::fs::write(&path, "theirs").expect("written");
        let error = file.finish().expect_err("kept");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).expect("read"), b"theirs");
        assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 1);
    }

    #[test]
    fn a_private_file_is_its_owners_alone_from_the_beginning() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("key");
        let file = write(AtomicFile::private(&path, Existing::Keep), b"secret");
        let mode = |meta: std::fs::Metadata| meta.permissions().mode() & 0o777;
        assert_eq!(mode(file.as_file().metadata().expect("stat")), 0o600);
        file.finish().expect("finished");
        assert_eq!(mode(path.metadata().expect("stat")), 0o600);
    }

    #[test]
    fn a_link_is_followed_for_an_output_and_replaced_otherwise() {
        let folder = tempfile::tempdir().expect("folder");
        let [link, path] = ["link", "a"].map(|name| folder.path().join(name));
        std::fs::write(&path, "before").expect("written");
        std::os::unix::fs::symlink("a", &link).expect("link");
        write(AtomicFile::output(&link), b"through").finish().expect("finished");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&path).expect("read"), b"through");
        write(AtomicFile::create(&link, Existing::Replace), b"own").finish().expect("finished");
        assert!(!link.is_symlink());
        assert_eq!(std::fs::read(&path).expect("read"), b"through");
    }

    #[test]
    fn the_systems_error_is_told_as_it_is() {
        let folder = tempfile::tempdir().expect("folder");
        let error = AtomicFile::output(&folder.path().join("none/a")).expect_err("no folder");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.raw_os_error().is_some());
    }

    #[test]
    fn devices_are_written_in_place() {
        write(AtomicFile::output(Path::new("/dev/null")), b"gone").finish().expect("finished");
        assert!(!Path::new("/dev/null").metadata().expect("stat").is_file());
    }
}
