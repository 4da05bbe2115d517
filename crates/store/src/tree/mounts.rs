//! File systems that are mounted below a directory.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::file::path_of;

/// Where file systems are mounted below a directory.
pub(super) fn mounted_below(directory: &OwnedFd) -> io::Result<Vec<PathBuf>> {
    let above = std::fs::read_link(path_of(directory)?)?;
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    Ok(points(&mounts).filter(|at| at.starts_with(&above) && *at != above).collect())
}

/// The places that a table of mounts says, of each line the fifth word.
fn points(mounts: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = mounts.split(|&byte| byte == b'\n');
    let words = lines.filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    words.map(|word| PathBuf::from(OsString::from_vec(unescaped(word))))
}

/// A word in which each space, tab, line's end and backslash is written as a backslash and three octal digits.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(word.len()), word);
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let written = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let escaped = written.filter(|_| byte == b'\\');
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &behind[3..] } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_table_of_mounts_is_read_with_odd_names() {
        let table = b"22 1 0:20 / /proc rw,relatime shared:5 - proc proc rw\n\
            30 22 8:1 /sub /srv/two\\040words\\134x rw - ext4 /dev/sda1 rw\n\nshort\n";
        let found: Vec<_> = points(table).collect();
        assert_eq!(found, [PathBuf::from("/proc"), PathBuf::from("/srv/two words\\x")]);
        assert_eq!(unescaped(b"\\04"), b"\\04");
        assert_eq!(unescaped(b"\\999"), b"\\999");
    }

    #[test]
    fn what_is_mounted_below_a_directory_is_found_and_what_is_elsewhere_is_not() {
        let open = |path: &std::path::Path| OwnedFd::from(File::open(path).expect("open"));
        let below = mounted_below(&open("/".as_ref())).expect("found");
        assert!(below.contains(&PathBuf::from("/proc")), "{below:?}");
        assert!(!below.contains(&PathBuf::from("/")));
        let dir = tempfile::tempdir().expect("directory");
        assert_eq!(mounted_below(&open(dir.path())).expect("none"), [""; 0].map(PathBuf::from));
    }
}
