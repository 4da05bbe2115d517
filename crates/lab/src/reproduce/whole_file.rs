//! Files that are written whole or not at all.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use wellspring_store::atomic_file::AtomicFile;

/// Writes a file into a folder, which is made if it is missing. What has that name now stays unless the new one is whole.
///
/// # Errors
/// Those of the file.
pub fn save(folder: &Path, name: &str, text: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let path = folder.join(name);
    let write = || {
        let mut file = AtomicFile::output(&path)?;
        file.write_all(text.as_bytes())?;
        file.finish()
    };
    write().with_context(|| path.display().to_string())
}
