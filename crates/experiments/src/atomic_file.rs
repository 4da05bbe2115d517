//! Files that appear under their name only when complete.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempPath;

/// What is being written; `None` once the program is about to end.
static UNFINISHED: Mutex<Option<BTreeSet<PathBuf>>> = Mutex::new(Some(BTreeSet::new()));

fn unfinished() -> MutexGuard<'static, Option<BTreeSet<PathBuf>>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Its name for now; a device or a pipe is written in place and has none.
    temporary: Option<TempPath>,
}

impl AtomicFile {
    /// Begins a file that is to have that name, and to take the place of what has it now.
    ///
    /// # Errors
    /// Those of the file.
    pub fn create(path: &Path) -> Result<AtomicFile> {
        let problem = || path.display().to_string();
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(path).with_context(problem)?;
            return Ok(AtomicFile { file, path: path.into(), temporary: None });
        }
        // What a link points at is replaced, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.into());
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut unfinished = unfinished();
        let Some(names) = unfinished.as_mut() else { bail!("interrupted") };
        // Not for its owner alone, as temporary files are by default.
        let made = tempfile::Builder::new()
            .prefix(".wellspring-")
            .make_in(folder, |name| OpenOptions::new().write(true).create_new(true).open(name));
        let (file, temporary) = made.with_context(problem)?.into_parts();
        names.insert(temporary.to_path_buf());
        Ok(AtomicFile { file, path, temporary: Some(temporary) })
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(mut self) -> Result<()> {
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        let mut unfinished = unfinished();
        let Some(names) = unfinished.as_mut() else { bail!("interrupted") };
        names.remove(&*temporary);
        temporary.persist(&self.path).with_context(|| self.path.display().to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_leaves_nothing_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "before").unwrap();
        let names = || std::fs::read_dir(folder.path()).unwrap().count();
        let mut dropped = AtomicFile::create(&path).unwrap();
        dropped.write_all(b"cut").unwrap();
        drop(dropped);
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"before".to_vec(), 1));
        let mut whole = AtomicFile::create(&path).unwrap();
        whole.write_all(b"after").unwrap();
        whole.finish().unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"after".to_vec(), 1));
    }

    #[test]
    fn devices_are_written_in_place() {
        let mut null = AtomicFile::create(Path::new("/dev/null")).unwrap();
        null.write_all(b"gone").unwrap();
        null.finish().unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }
}
