//! Output file that appears under its name complete or not at all.

use std::fs::Metadata;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use wellspring_console::exit::Failed;
use wellspring_store::WriteBack;
use wellspring_store::atomic_file::{AtomicFile, Existing};

use super::input::file_error;
use crate::exit;

/// A hidden file beside its final name, until it is complete and takes that name in one step.
pub(super) struct Target {
    file: BufWriter<AtomicFile>,
    write_back: WriteBack,
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
        let existing = if force { Existing::Replace } else { Existing::Keep };
        let file = AtomicFile::create(path, existing).map_err(|error| {
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            match error.kind() {
                io::ErrorKind::NotFound => exit::no_folder(folder.display()),
                _ => file_error(folder, &error),
            }
        })?;
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { file, write_back: WriteBack::default(), force, input: input.clone() })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| file_error(self.file.get_ref().path(), &error))?;
        self.write_back.wrote(self.file.get_ref().as_file(), bytes.len() as u64);
        Ok(())
    }

    /// Writes what is buffered to the disk and gives the file its name.
    pub(super) fn finish(self) -> Result<(), Failed> {
        let Self { file, write_back, force, input } = self;
        let path = file.get_ref().path().to_owned();
        let file = file.into_inner().map_err(|error| file_error(&path, error.error()))?;
        let synced = write_back.finish().and_then(|()| file.as_file().sync_all());
        synced.map_err(|error| file_error(&path, &error))?;
        if force {
            // Much may have happened since.
            check(&path, force, &input)?;
        }
        file.finish().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exit::target_exists(path.display()),
            _ => file_error(&path, &error),
        })
    }
}

/// Removes a file that is about to be replaced, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), Failed> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file_error(path, &error)),
        _ => Ok(()),
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
