//! Ledger of the files that clients with quotas have put: a text file in the served directory.
//!
//! Each line has an owner (`-` for nobody), a size and a name; the last line of a name that fits the file counts. A line is
//! on the disk before the file has its name, so that nothing that was put is forgotten by a crash.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::tree::path_of;
use crate::store::{Existing, ObjectName, QUOTA_LEDGER, atomic_file::AtomicFile};

/// Longest line \[bytes\]: an owner, a size and a name.
const MAX_LINE: u64 = 64 + 21 + crate::store::MAX_NAME_LEN as u64;
/// Lines beyond twice the files, after which the ledger is written anew.
const SPARE_LINES: usize = 1_000;
const NOBODY: &str = "-";

/// Whose a file is, and how long it was when it was put \[bytes\].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Owned {
    pub owner: Arc<str>,
    pub size: u64,
}

#[derive(Debug)]
pub(super) struct Ledger {
    directory: PathBuf,
    /// For appending; opened when there is something to write.
    file: Option<File>,
    lines: usize,
    /// Its last line may be a part of one: the disk was full.
    is_torn: bool,
}

impl Ledger {
    /// Reads the ledger of a directory, and the files that are as it says: `max_files` at most.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(
        directory: &Path,
        max_files: usize,
    ) -> io::Result<(Self, BTreeMap<String, Owned>)> {
        let mut ledger =
            Ledger { directory: directory.to_owned(), file: None, lines: 0, is_torn: false };
        let mut files = BTreeMap::new();
        let file = match File::open(ledger.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((ledger, files)),
            file => file?,
        };
        let mut owners: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        let (mut reader, mut line) = (BufReader::new(file), Vec::new());
        loop {
            line.clear();
            if io::Read::take(&mut reader, MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            ledger.lines += 1;
            let Some((owner, size, name)) = parse(&line) else { continue };
            if owner == NOBODY {
                files.remove(name);
            } else if is_there(directory, name, size)
                && (files.len() < max_files || files.contains_key(name))
            {
                let owner = owners.entry(owner.into()).or_insert_with_key(Arc::clone);
                files.insert(name.to_owned(), Owned { owner: Arc::clone(owner), size });
            }
        }
        if ledger.lines > files.len() {
            ledger.rewrite(&files)?;
        }
        Ok((ledger, files))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes whose files are now.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn append<'a>(
        &mut self,
        files: impl Iterator<Item = (&'a str, Option<&'a Owned>)>,
        sync: bool,
    ) -> io::Result<()> {
        let mut text = String::new();
        for (name, owned) in files {
            put_line(&mut text, name, owned);
            self.lines += 1;
        }
        if text.is_empty() {
            return Ok(());
        }
        if self.is_torn {
            text.insert(0, '\n');
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open_to_append(&self.directory.join(QUOTA_LEDGER))?),
        };
        self.is_torn = true;
        file.write_all(text.as_bytes())?;
        self.is_torn = false;
        if sync { file.sync_data() } else { Ok(()) }
    }

    /// Whether most of its lines say nothing any more.
    pub(super) fn is_long(&self, files: usize) -> bool {
        self.lines > 2 * files + SPARE_LINES
    }

    /// Writes it anew.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn rewrite(&mut self, files: &BTreeMap<String, Owned>) -> io::Result<()> {
        let mut file = AtomicFile::private(&self.path(), Existing::Replace)?;
        let mut text = String::new();
        for (name, owned) in files {
            put_line(&mut text, name, Some(owned));
            if text.len() > 1 << 16 {
                file.write_all(text.as_bytes())?;
                text.clear();
            }
        }
        file.write_all(text.as_bytes())?;
        file.finish()?;
        (self.file, self.lines, self.is_torn) = (None, files.len(), false);
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.directory.join(QUOTA_LEDGER)
    }
}

fn put_line(text: &mut String, name: &str, owned: Option<&Owned>) {
    let (owner, size) = owned.map_or((NOBODY, 0), |owned| (&*owned.owner, owned.size));
    // Names have no control characters. Into a string nothing can fail.
    let _ = writeln!(text, "{owner} {size} {name}");
}

fn parse(line: &[u8]) -> Option<(&str, u64, &str)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let mut words = line.splitn(3, ' ');
    let (owner, size, name) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    ObjectName::new(name).is_ok().then_some((owner, size, name))
}

/// Opens the ledger, or makes it with a name that lasts.
fn open_to_append(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().append(true).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            AtomicFile::private(path, Existing::Replace)?.finish()?;
            open()
        }
        opened => opened,
    }
}

/// What has a name in a directory, a link itself.
pub(in super::super) fn stat_below(directory: &OwnedFd, name: &str) -> io::Result<Metadata> {
    path_of(directory)?.join(name).symlink_metadata()
}

/// Whether a file is there as it was put; a directory or a link has no bytes.
pub(super) fn is_there(directory: &Path, name: &str, size: u64) -> bool {
    let found = std::fs::symlink_metadata(directory.join(name));
    found.is_ok_and(|found| if found.is_file() { found.len() == size } else { size == 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_short_takes_no_other_with_it() {
        let directory = tempfile::tempdir().expect("temporary directory");
        std::fs::write(directory.path().join("b"), "ab").expect("written");
        let (mut ledger, _) = Ledger::open(directory.path(), 10).expect("a ledger");
        // The disk was full after the first bytes of a line.
        std::fs::write(ledger.path(), "x 1 na").expect("written");
        ledger.is_torn = true;
        let owned = Owned { owner: "o".into(), size: 2 };
        ledger.append([("b", Some(&owned))].into_iter(), false).expect("appended");
        let (_, files) = Ledger::open(directory.path(), 10).expect("a ledger");
        assert_eq!(files.get("b"), Some(&owned));
    }
}
