//! Input files of the codec, and the errors they cause.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use wellspring_console::exit::Failed;

/// Opens a file to read from beginning to end, perhaps twice.
pub(super) fn open(path: &Path) -> Result<(File, Metadata), Failed> {
    let error = |error| file_error(path, &error);
    // Asked before: opening a pipe would wait for who writes to it.
    if !std::fs::metadata(path).map_err(error)?.is_file() {
        return Err(Failed::usage(format!("{}: not a regular file", path.display())));
    }
    let file = File::open(path).map_err(error)?;
    let metadata = file.metadata().map_err(error)?;
    Ok((file, metadata))
}

pub(super) fn file_error(path: &Path, error: &io::Error) -> Failed {
    Failed::system(path.display(), error)
}

/// As [`file_error`], of reading no more than the file had at first.
pub(super) fn read_error(path: &Path, error: &io::Error) -> Failed {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Failed::other(format!("{}: became shorter while it was read", path.display()));
    }
    file_error(path, error)
}

/// Misuse of the codec, which the checks before it should have caught.
pub(super) fn codec_error(error: wellspring_codec::Error) -> Failed {
    Failed::other(error.to_string())
}
