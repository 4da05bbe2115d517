//! Ledger of the files that clients with quotas have put: a text file in the served directory.
//!
//! Each line has an owner (`-` for nobody), a size and a name; the last line of a name that fits the file counts. A line is
//! on the disk before the file has its name, so that nothing that was put is forgotten by a crash. Servers of one directory
//! share it: each takes in what others have written since, and writes while it has the lock. One that is written anew is
//! another file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::tree::path_of;
use crate::store::{
    Existing, ObjectName, QUOTA_LEDGER, Root, atomic_file::AtomicFile, is_same_directory,
};

/// Longest line \[bytes\]: an owner, a size and a name.
const MAX_LINE: u64 = 64 + 21 + crate::store::MAX_NAME_LEN as u64;
/// Lines beyond twice the files, after which the ledger is written anew.
const SPARE_LINES: usize = 1_000;
/// How often the lock is tried of a ledger that others write anew.
const LOCK_ATTEMPTS: usize = 100;
const NOBODY: &str = "-";

/// Whose a file is, and how long it was when it was put \[bytes\].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Owned {
    pub owner: Arc<str>,
    pub size: u64,
}

/// Whose files are, by their names.
pub(super) type Files = BTreeMap<String, Owned>;

#[derive(Debug)]
pub(super) struct Ledger {
    root: Arc<Root>,
    /// The directory whose ledger was read.
    directory: Option<Arc<OwnedFd>>,
    /// What was read, if there was one.
    file: Option<File>,
    /// How far \[bytes\].
    read: u64,
    lines: usize,
}

/// What a look at the ledger has found.
pub(super) enum Found {
    /// What others have written since the last look.
    Lines(Vec<(String, Option<Owned>)>),
    /// One that another has written anew.
    Anew(Files),
    /// None any more.
    None,
    /// That of a directory that was not looked at before.
    OfAnother(Files),
}

/// The ledger, which nobody else writes until this is dropped.
pub(super) struct Locked(File);

impl Ledger {
    /// That of a directory, not read yet.
    pub(super) fn new(root: Arc<Root>) -> Self {
        Ledger { root, directory: None, file: None, read: 0, lines: 0 }
    }

    /// Looks what others have written; of another directory's ledger, the files that are as it says: `max_files` at most.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn look(&mut self, max_files: usize) -> io::Result<Found> {
        self.try_look(max_files).map_err(|error| named(&error))
    }

    fn try_look(&mut self, max_files: usize) -> io::Result<Found> {
        let directory = self.root.directory();
        let path = path_in(&directory)?;
        if self.directory.as_ref().is_none_or(|had| !is_same_directory(had, &directory)) {
            let files =
                self.read_anew(&path, max_files, |name, size| is_there(&directory, name, size))?;
            self.directory = Some(directory);
            return Ok(Found::OfAnother(files));
        }
        let there = match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let had = self.file.take();
                (self.read, self.lines) = (0, 0);
                return Ok(had.map_or(Found::Lines(Vec::new()), |_| Found::None));
            }
            there => there?,
        };
        let Some(file) = self.file.as_ref().filter(|file| is_file(file, &there)) else {
            return Ok(Found::Anew(self.read_anew(&path, max_files, |_, _| true)?));
        };
        let mut lines = Vec::new();
        if there.len() > self.read {
            let each = |name: &str, owned| lines.push((name.to_owned(), owned));
            let (read, count) = read_lines(file, self.read, each)?;
            (self.read, self.lines) = (read, self.lines + count);
        }
        Ok(Found::Lines(lines))
    }

    /// Reads the whole of it, and takes the lines that `fits` says.
    fn read_anew(
        &mut self,
        path: &Path,
        max_files: usize,
        fits: impl Fn(&str, u64) -> bool,
    ) -> io::Result<Files> {
        let mut files = BTreeMap::new();
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (self.file, self.read, self.lines) = (None, 0, 0);
                return Ok(files);
            }
            file => file?,
        };
        let each = |name: &str, owned: Option<Owned>| match owned {
            None => drop(files.remove(name)),
            Some(owned) => {
                let has_room = files.len() < max_files || files.contains_key(name);
                if has_room && fits(name, owned.size) {
                    files.insert(name.to_owned(), owned);
                }
            }
        };
        let (read, lines) = read_lines(&file, 0, each)?;
        (self.file, self.read, self.lines) = (Some(file), read, lines);
        Ok(files)
    }

    /// Which directory it is in.
    pub(super) fn directory(&self) -> Arc<OwnedFd> {
        self.root.directory()
    }

    /// Waits until nobody else writes it; where files cannot be locked there is no waiting. It is made, with a name that
    /// lasts, if it is not there.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn lock(&self) -> io::Result<Locked> {
        self.try_lock().map_err(|error| named(&error))
    }

    fn try_lock(&self) -> io::Result<Locked> {
        for _ in 0..LOCK_ATTEMPTS {
            let directory = self.root.directory();
            let path = path_in(&directory)?;
            let file = open_to_append(&path)?;
            let _ = file.lock();
            // Whoever had the lock may have written it anew.
            if path.metadata().is_ok_and(|there| is_file(&file, &there)) {
                return Ok(Locked(file));
            }
        }
        Err(io::Error::other("others write it anew all the time"))
    }

    /// Writes whose files are now, after a [look](Self::look) with the lock.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn append<'a>(
        &mut self,
        locked: &mut Locked,
        files: impl Iterator<Item = (&'a str, Option<&'a Owned>)>,
        sync: bool,
    ) -> io::Result<()> {
        self.try_append(&mut locked.0, files, sync).map_err(|error| named(&error))
    }

    fn try_append<'a>(
        &mut self,
        file: &mut File,
        files: impl Iterator<Item = (&'a str, Option<&'a Owned>)>,
        sync: bool,
    ) -> io::Result<()> {
        let mut text = String::new();
        let mut lines = 0;
        let len = file.metadata()?.len();
        if len > self.read {
            // The disk was full in the midst of a line, or its server was killed.
            text.push('\n');
            lines += 1;
        }
        for (name, owned) in files {
            put_line(&mut text, name, owned);
            lines += 1;
        }
        file.write_all(text.as_bytes())?;
        self.read = len + text.len() as u64;
        self.lines += lines;
        if sync { file.sync_data() } else { Ok(()) }
    }

    /// Whether most of its lines say nothing any more.
    pub(super) fn is_long(&self, files: usize) -> bool {
        self.lines > 2 * files + SPARE_LINES
    }

    /// Whether some of its lines say nothing of these files.
    pub(super) fn has_more_than(&self, files: usize) -> bool {
        self.lines > files
    }

    /// Writes it anew, after a [look](Self::look) with the lock. Nothing is to be appended with that any more.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn rewrite(&mut self, _locked: &Locked, files: &Files) -> io::Result<()> {
        self.try_rewrite(files).map_err(|error| named(&error))
    }

    fn try_rewrite(&mut self, files: &Files) -> io::Result<()> {
        let directory = self.root.directory();
        let path = path_in(&directory)?;
        let mut file = AtomicFile::private(&path, Existing::Replace)?;
        let (mut text, mut written) = (String::new(), 0);
        for (name, owned) in files {
            put_line(&mut text, name, Some(owned));
            if text.len() > 1 << 16 {
                file.write_all(text.as_bytes())?;
                written += text.len() as u64;
                text.clear();
            }
        }
        file.write_all(text.as_bytes())?;
        written += text.len() as u64;
        let anew = file.as_file().try_clone()?;
        file.finish()?;
        // It was locked as what is under way.
        let _ = anew.unlock();
        (self.file, self.read, self.lines) = (Some(anew), written, files.len());
        Ok(())
    }
}

/// An error of the system, with what it is about; clients are told of some, and not where the directory is.
fn named(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{QUOTA_LEDGER}: {error}"))
}

fn path_in(directory: &OwnedFd) -> io::Result<PathBuf> {
    Ok(path_of(directory)?.join(QUOTA_LEDGER))
}

/// Whether what was found is that file.
fn is_file(file: &File, found: &Metadata) -> bool {
    file.metadata().is_ok_and(|file| (file.dev(), file.ino()) == (found.dev(), found.ino()))
}

/// Reads lines from there on; says where the last whole one ends, and how many there are.
fn read_lines(
    mut file: &File,
    from: u64,
    mut each: impl FnMut(&str, Option<Owned>),
) -> io::Result<(u64, usize)> {
    let mut owners: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    file.seek(SeekFrom::Start(from))?;
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    let (mut read, mut lines) = (from, 0);
    loop {
        line.clear();
        let len = io::Read::take(&mut reader, MAX_LINE).read_until(b'\n', &mut line)? as u64;
        if line.last() != Some(&b'\n') && len < MAX_LINE {
            return Ok((read, lines));
        }
        (read, lines) = (read + len, lines + 1);
        let Some((owner, size, name)) = parse(&line) else { continue };
        let owned = (owner != NOBODY).then(|| {
            let owner = owners.entry(owner.into()).or_insert_with_key(Arc::clone);
            Owned { owner: Arc::clone(owner), size }
        });
        each(name, owned);
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
            match AtomicFile::private(path, Existing::Keep)?.finish() {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => open(),
            }
        }
        opened => opened,
    }
}

/// What has a name in a directory, a link itself.
pub(in super::super) fn stat_below(directory: &OwnedFd, name: &str) -> io::Result<Metadata> {
    path_of(directory)?.join(name).symlink_metadata()
}

/// Whether a file is there as it was put; a directory or a link has no bytes.
pub(super) fn is_there(directory: &OwnedFd, name: &str, size: u64) -> bool {
    let found = stat_below(directory, name);
    found.is_ok_and(|found| if found.is_file() { found.len() == size } else { size == 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_short_takes_no_other_with_it() {
        let directory = tempfile::tempdir().expect("temporary directory");
        std::fs::write(directory.path().join("b"), "ab").expect("written");
        // The disk was full after the first bytes of a line.
        std::fs::write(directory.path().join(QUOTA_LEDGER), "x 1 na").expect("written");
        let root = Arc::new(Root::open(directory.path()).expect("a directory"));
        let mut ledger = Ledger::new(Arc::clone(&root));
        let mut locked = ledger.lock().expect("locked");
        assert!(matches!(ledger.look(10), Ok(Found::OfAnother(files)) if files.is_empty()));
        let owned = Owned { owner: "o".into(), size: 2 };
        let files = [("b", Some(&owned))].into_iter();
        ledger.append(&mut locked, files, false).expect("appended");
        assert!(matches!(ledger.look(10), Ok(Found::Lines(lines)) if lines.is_empty()));
        let Ok(Found::OfAnother(files)) = Ledger::new(root).look(10) else { panic!("a ledger") };
        assert_eq!(files.get("b"), Some(&owned));
    }
}
