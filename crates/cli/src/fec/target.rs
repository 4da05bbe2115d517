//! Output file that appears under its name complete or not at all.

use std::fs::{Metadata, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;
use wellspring_console::exit::Failed;
use wellspring_net::store::WriteBack;

use super::input::file_error;
use crate::exit;

/// The file being written, not yet under its name.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the file being written, for a program that is about to end. Work that goes on meanwhile
/// can neither begin a file nor give one its name.
pub fn clean_up() {
    let mut unfinished = unfinished();
    if let Some(path) = unfinished.take() {
        // It is gone if the work has just failed.
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(unfinished);
}

/// A hidden file beside `path`, until it is complete and takes that name in one step.
pub(super) struct Target {
    file: BufWriter<NamedTempFile>,
    write_back: WriteBack,
    path: PathBuf,
    force: bool,
    input: Metadata,
}

impl Target {
    /// Begins a file for what is made from `input`; `force` lets it replace a regular file.
    ///
    /// # Errors
    /// The target exists, is the input, or is something else than a file; or the system's.
    pub(super) fn create(path: &Path, force: bool, input: &Metadata) -> Result<Self, Failed> {
        check(path, force, input)?;
        // Renaming must not cross a file system.
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut unfinished = unfinished();
        let file = tempfile::Builder::new()
            .prefix(".wellspring-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => exit::no_folder(folder.display()),
                _ => file_error(folder, &error),
            })?;
        *unfinished = Some(file.path().to_owned());
        let file = BufWriter::with_capacity(1 << 18, file);
        let write_back = WriteBack::default();
        Ok(Self { file, write_back, path: path.to_owned(), force, input: input.clone() })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        self.file.write_all(bytes).map_err(|error| file_error(&self.path, &error))?;
        self.write_back.wrote(self.file.get_ref().as_file(), bytes.len() as u64);
        Ok(())
    }

    /// Writes what is buffered to the disk and gives the file its name.
    pub(super) fn finish(self) -> Result<(), Failed> {
        let Self { file, write_back, path, force, input } = self;
        let file = file.into_inner().map_err(|error| file_error(&path, error.error()))?;
        let synced = write_back.finish().and_then(|()| file.as_file().sync_all());
        synced.map_err(|error| file_error(&path, &error))?;
        let mut unfinished = unfinished();
        let named = if force {
            // Much may have happened since.
            check(&path, force, &input)?;
            file.persist(&path)
        } else {
            file.persist_noclobber(&path)
        };
        named.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => exit::target_exists(path.display()),
            _ => file_error(&path, &error.error),
        })?;
        *unfinished = None;
        Ok(())
    }
}

/// Refuses a target whose replacement would lose data, or is not asked for.
pub(super) fn check(path: &Path, force: bool, input: &Metadata) -> Result<(), Failed> {
    let shown = path.display();
    if path == Path::new("-") {
        return Err(Failed::usage("`-`: standard output is not written to, only files are")
            .hint("Give a file's name by -o; ./- is a file of that name."));
    }
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(file_error(path, &error)),
    };
    if (found.dev(), found.ino()) == (input.dev(), input.ino()) {
        return Err(Failed::usage(format!("{shown} is the input, which would be lost"))
            .hint("Choose another name by -o."));
    }
    if !found.is_file() {
        return Err(Failed::usage(format!("{shown} exists and is not a regular file"))
            .hint("Only regular files are replaced: choose another name by -o."));
    }
    if force { Ok(()) } else { Err(exit::target_exists(shown)) }
}
