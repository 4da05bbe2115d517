//! BLAKE3 digest files, in the format of `b3sum`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use wellspring_console::exit::Failed;
use wellspring_store::Digest;

use super::input::file_error;

/// What the name of an object's digest file ends with.
const EXTENSION: &str = ".b3";

/// Longest digest file read \[bytes\]: a digest and the longest path Linux knows, all of it escaped.
const MAX_LEN: u64 = 64 + 3 + 2 * 4096;

/// The digest file of the object `path`: the same name followed by `.b3`.
pub(super) fn path_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(EXTENSION);
    PathBuf::from(name)
}

/// The line `b3sum` writes for a file of that digest. The name has no directory, so that
/// `b3sum -c` finds the file wherever both stand side by side.
pub(super) fn line(digest: &Digest, file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let escaped = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    let mark = if escaped == name { "" } else { "\\" };
    format!("{mark}{digest}  {escaped}\n")
}

/// The digest in the file `path`, if there is such a file.
///
/// # Errors
/// The file holds something else than one line of `b3sum`; or the system's.
pub(super) fn read(path: &Path) -> Result<Option<Digest>, Failed> {
    let error = |error| file_error(path, &error);
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(system) => return Err(error(system)),
        // Opening a pipe would wait for its writer.
        Ok(metadata) if !metadata.is_file() => return Err(malformed(path)),
        Ok(_) => {}
    }
    let mut text = Vec::new();
    File::open(path).map_err(error)?.take(MAX_LEN + 1).read_to_end(&mut text).map_err(error)?;
    parse(&text).map(Some).ok_or_else(|| malformed(path))
}

fn malformed(path: &Path) -> Failed {
    Failed::other(format!("{}: not the BLAKE3 digest of one file", path.display()))
        .hint("Give the digest by --digest, or move this file away to decode without it.")
}

fn parse(text: &[u8]) -> Option<Digest> {
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix(b"\\").unwrap_or(line);
    if text.len() as u64 > MAX_LEN || line.contains(&b'\n') {
        return None;
    }
    let (digest, name) = line.split_at_checked(64)?;
    // A digest alone is what `b3sum --no-names` writes.
    if !name.is_empty() && !name.starts_with(b"  ") {
        return None;
    }
    std::str::from_utf8(digest).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_form_of_b3sum() {
        let digest = Digest::of_nothing();
        let plain = line(&digest, Path::new("some/where/movie.mkv"));
        assert_eq!(
            plain,
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262  movie.mkv\n"
        );
        let escaped = line(&digest, Path::new("a\\b\nc"));
        assert_eq!(escaped, format!("\\{digest}  a\\\\b\\nc\n"));
        for text in [&plain, &escaped, plain.trim_end(), &plain[..64], &format!("{digest}  a\r\n")]
        {
            assert_eq!(parse(text.as_bytes()), Some(digest), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_one_digest_is_refused() {
        let line = line(&Digest::of_nothing(), Path::new("a"));
        let long = format!("{}{}", line.trim_end(), "a".repeat(9_000));
        for text in ["", "\n", &line[1..], &line.replace("  ", " "), &line.repeat(2), &long] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
