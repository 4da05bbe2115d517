//! Walk of a tree into a listing.

use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::LazyLock;
use std::time::SystemTime;

use rustix::fs::{
    Access, AtFlags, Dir, FileType, Mode, OFlags, Stat, accessat, fstat, openat, readlinkat, statat,
};
use rustix::io::Errno;
use wellspring_tree::{
    Attributes, Content, Entry, Keeps, Listing, ListingFull, MAX_XATTRS_LEN, Modified, SkipReason,
    Xattrs, check_link, check_path,
};

use super::attributes::{owner_of, read_xattrs};
use super::file::{LinksOut, modified, reading};
use super::walked::Walked;
use crate::objects::{
    DigestCache, Fingerprint, HashProgress, hash_file, is_reserved, name_of_next,
};

/// How a tree is walked.
#[derive(Clone, Copy, Debug)]
pub struct Scan {
    /// Whether what has a name that begins with a dot belongs to the tree.
    pub hidden: bool,
    /// Whether what is in the directories of the directory belongs to it.
    pub deep: bool,
    /// Whether each file is read for its digest.
    pub digests: bool,
    /// Whether owners and extended attributes are read.
    pub keeps: Keeps,
    /// What becomes of links that lead out.
    pub links_out: LinksOut,
}

impl Scan {
    /// All that is there, without its bytes, owners and attributes.
    pub(super) const ALL: Scan = Scan {
        hidden: true,
        deep: true,
        digests: false,
        keeps: Keeps { owner: false, xattrs: false, acls: false },
        links_out: LinksOut::Skipped,
    };
}

/// What helps a walk, and what ends it.
#[derive(Clone, Copy)]
pub struct ScanHelp<'a> {
    /// Digests that are known, and to which those of long files are added; without, all files are read.
    pub digests: Option<&'a DigestCache>,
    /// Bytes that were read; [stopping](HashProgress::stop) it ends the walk.
    pub progress: &'a HashProgress,
    /// Walks before it, and after it.
    pub walked: Walked<'a>,
}

impl ScanHelp<'_> {
    /// None, for a walk to its end.
    pub fn none() -> ScanHelp<'static> {
        static NEVER_STOPPED: LazyLock<HashProgress> = LazyLock::new(HashProgress::default);
        ScanHelp { digests: None, progress: &NEVER_STOPPED, walked: Walked::Nothing }
    }
}

/// Files of which the digests are kept that a walk has read: this long or longer \[bytes\]. What is shorter is soon read again,
/// and there may be so many that others would be forgotten.
const MIN_KEPT: u64 = 1 << 20;

/// Walks of a tree in which directories are replaced, at most.
const ATTEMPTS: usize = 4;

/// Why a tree cannot be walked.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScanError {
    /// It has too many entries.
    Full(ListingFull),
    /// A file changed while it was read for its digest, or a directory was replaced while it was walked, whenever that was
    /// tried.
    Changed(String),
    /// A file or directory has extended attributes that are too long for a listing.
    Attributes(String),
    /// It was stopped.
    Stopped,
    /// The system's own error, at that path.
    Io(String, io::Error),
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScanError::Full(full) => full.fmt(f),
            ScanError::Changed(path) => write!(f, "{path} changed while it was read"),
            ScanError::Attributes(path) => {
                write!(
                    f,
                    "{path} has extended attributes of more than {} KiB",
                    MAX_XATTRS_LEN >> 10
                )
            }
            ScanError::Stopped => f.write_str("the walk was stopped; ask again"),
            ScanError::Io(path, error) if path.is_empty() => error.fmt(f),
            ScanError::Io(path, error) => write!(f, "{path}: {error}"),
        }
    }
}

impl std::error::Error for ScanError {}

impl From<ListingFull> for ScanError {
    fn from(full: ListingFull) -> Self {
        ScanError::Full(full)
    }
}

/// Walks the tree below a directory. Symbolic links are not followed. What cannot be part of a tree
/// is listed as skipped, with the reason; what vanishes meanwhile, part files of objects that are
/// being received, and trees that are to take the place of others are left out. If a directory is replaced
/// meanwhile, which may be on its way to be removed, all is walked again.
///
/// # Errors
/// [`ScanError`].
pub fn scan(root: &OwnedFd, how: Scan) -> Result<Listing, ScanError> {
    scan_with(root, how, ScanHelp::none())
}

/// The same with help.
///
/// # Errors
/// [`ScanError`].
pub fn scan_with(root: &OwnedFd, how: Scan, help: ScanHelp<'_>) -> Result<Listing, ScanError> {
    let open = || root.try_clone().map_err(|error| ScanError::Io(String::new(), error));
    scan_named_with(open, how, help).map(|(_, listing)| listing)
}

/// The same of a directory that is opened by its name, which may lead to another one at any time. Returns it as it was
/// opened, too.
///
/// # Errors
/// [`ScanError`], and what `open` fails with.
pub fn scan_named<E: From<ScanError>>(
    open: impl Fn() -> Result<OwnedFd, E>,
    how: Scan,
) -> Result<(OwnedFd, Listing), E> {
    scan_named_with(open, how, ScanHelp::none())
}

/// The same with help.
///
/// # Errors
/// [`ScanError`], and what `open` fails with.
pub fn scan_named_with<E: From<ScanError>>(
    open: impl Fn() -> Result<OwnedFd, E>,
    how: Scan,
    help: ScanHelp<'_>,
) -> Result<(OwnedFd, Listing), E> {
    let here = |errno: Errno| ScanError::Io(String::new(), errno.into());
    let mut replaced = String::new();
    for attempt in 1..=ATTEMPTS {
        let root = open()?;
        let (path, is_last) = (String::new(), attempt == ATTEMPTS);
        let listing = Listing::new();
        let mut walk = Walk { how, help, listing, path, is_last, replaced: None };
        let names = walk.names(&root).map_err(here)?;
        walk.entries(&root, names)?;
        let inode = |root: &OwnedFd| fstat(root).map(|stat| (stat.st_dev, stat.st_ino));
        if inode(&open()?).map_err(here)? != inode(&root).map_err(here)? {
            walk.replaced = Some(".".to_owned());
        }
        match walk.replaced {
            None => return Ok((root, walk.listing)),
            Some(path) => replaced = path,
        }
    }
    Err(ScanError::Changed(replaced).into())
}

/// A name in a directory as it is listed; `None` behind it if it is only for people.
struct Named {
    shown: String,
    usable: bool,
}

struct Walk<'a> {
    how: Scan,
    help: ScanHelp<'a>,
    listing: Listing,
    /// Of what is looked at.
    path: String,
    /// What is gone is no matter any more.
    is_last: bool,
    /// A directory that was replaced while it was walked.
    replaced: Option<String>,
}

impl Walk<'_> {
    /// The names in a directory, in the order of listings.
    fn names(&self, directory: &OwnedFd) -> Result<Vec<Named>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let raw: &CStr = entry.file_name();
            if matches!(raw.to_bytes(), b"." | b"..") {
                continue;
            }
            if !self.how.hidden && raw.to_bytes().starts_with(b".") {
                continue;
            }
            let named = match raw.to_str() {
                Ok(name) if is_reserved(name) || name_of_next(name).is_some() => continue,
                Ok(name) if check_path(name).is_ok() => {
                    Named { shown: name.to_owned(), usable: true }
                }
                _ => {
                    let odd = |c: char| c == '\\' || c.is_control();
                    let shown = raw.to_string_lossy().replace(odd, "\u{fffd}");
                    Named { shown, usable: false }
                }
            };
            names.push(named);
        }
        // A name that is only for people may come out as another: that one says it all.
        names.sort_unstable_by(|a, b| a.shown.cmp(&b.shown).then(b.usable.cmp(&a.usable)));
        names.dedup_by(|b, a| a.shown == b.shown);
        Ok(names)
    }

    fn entries(&mut self, directory: &OwnedFd, names: Vec<Named>) -> Result<(), ScanError> {
        let above = self.path.len();
        for Named { shown, usable } in names {
            self.help.progress.add(0).map_err(|_| ScanError::Stopped)?;
            self.path.truncate(above);
            if above > 0 {
                self.path.push('/');
            }
            self.path.push_str(&shown);
            if !usable || check_path(&self.path).is_err() {
                self.skip(SkipReason::Name)?;
                continue;
            }
            match statat(directory, shown.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => self.entry(directory, &shown, &stat)?,
                Err(Errno::NOENT) => {}
                Err(Errno::ACCESS) => self.skip(SkipReason::Unreadable)?,
                Err(errno) => return Err(self.trouble(errno)),
            }
        }
        self.path.truncate(above);
        Ok(())
    }

    fn entry(&mut self, directory: &OwnedFd, name: &str, stat: &Stat) -> Result<(), ScanError> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.file(directory, name, stat),
            FileType::Symlink => {
                let target = match readlinkat(directory, name, Vec::new()) {
                    // Removed in this moment, or replaced by something that is no link.
                    Err(Errno::NOENT | Errno::INVAL) => return Ok(()),
                    target => target.map_err(|errno| self.trouble(errno))?,
                };
                match target.to_str().ok().filter(|to| check_link(&self.path, to).is_ok()) {
                    Some(target) => self.push(stat, Content::Link { target }, &[]),
                    None => self.link_out(directory, name),
                }
            }
            FileType::Directory => {
                let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let inner = match openat(directory, name, flags, Mode::empty()) {
                    Ok(inner) => inner,
                    Err(Errno::ACCESS) => return self.skip(SkipReason::Unreadable),
                    // Replaced or removed in this moment.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                    Err(errno) => return Err(self.trouble(errno)),
                };
                // One that is as deep as may be is looked into, too: what is in it is skipped, and that is said.
                let names = match self.how.deep.then(|| self.names(&inner)) {
                    // Without the right to search it nothing in it can be asked for.
                    Some(Err(Errno::ACCESS)) => return self.skip(SkipReason::Unreadable),
                    // It was removed after it was opened.
                    Some(Err(Errno::NOENT)) => Some(Vec::new()),
                    names => names.transpose().map_err(|errno| self.trouble(errno))?,
                };
                self.push_with_xattrs(stat, Content::Directory, &inner)?;
                let Some(names) = names else { return Ok(()) };
                self.entries(&inner, names)?;
                // One that is on its way to be removed may have had more in it.
                let is_replaced = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(now) => (now.st_dev, now.st_ino) != (stat.st_dev, stat.st_ino),
                    Err(_) => !self.is_last,
                };
                if is_replaced {
                    self.replaced.get_or_insert_with(|| self.path.clone());
                }
                Ok(())
            }
            _ => self.skip(SkipReason::Special),
        }
    }

    fn file(&mut self, directory: &OwnedFd, name: &str, stat: &Stat) -> Result<(), ScanError> {
        let may_read = || accessat(directory, name, Access::READ_OK, AtFlags::EACCESS);
        match if stat.st_mode & 0o444 == 0o444 { Ok(()) } else { may_read() } {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(_) => return self.skip(SkipReason::Unreadable),
        }
        let digest = match self.how.digests && stat.st_size > 0 {
            true => match self.digest(directory, name)? {
                None => return Ok(()),
                digest => digest,
            },
            false => None,
        };
        let content = Content::File { size: stat.st_size as u64, digest };
        match self.how.keeps.has_xattrs() {
            false => self.push(stat, content, &[]),
            true => match openat(directory, name, reading(self.how.links_out), Mode::empty()) {
                Ok(file) => self.push_with_xattrs(stat, content, &file),
                // Replaced or removed in this moment.
                Err(Errno::NOENT | Errno::LOOP) => Ok(()),
                Err(errno) => Err(self.trouble(errno)),
            },
        }
    }

    fn link_out(&mut self, directory: &OwnedFd, name: &str) -> Result<(), ScanError> {
        if self.how.links_out == LinksOut::Copied
            && let Ok(stat) = statat(directory, name, AtFlags::empty())
            && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        {
            return self.file(directory, name, &stat);
        }
        self.skip(SkipReason::LeadsOut)
    }

    /// The digest of a file; none if it is gone meanwhile.
    fn digest(&self, directory: &OwnedFd, name: &str) -> Result<Option<[u8; 32]>, ScanError> {
        let is_gone =
            || matches!(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT));
        let read = || -> io::Result<Option<[u8; 32]>> {
            let flags = reading(self.how.links_out);
            let file = File::from(openat(directory, name, flags, Mode::empty())?);
            let (before, began) = (Fingerprint::of(&file)?, SystemTime::now());
            if let Some(digest) = self.help.digests.and_then(|digests| digests.get(&before)) {
                return Ok(Some(digest.0));
            }
            let walked = self.help.walked.digests();
            if let Some(digest) = walked.and_then(|walked| walked.get(&before)) {
                return Ok(Some(digest.0));
            }
            if matches!(self.help.walked, Walked::Relies(_)) && before.size() >= MIN_KEPT {
                return Ok(None);
            }
            // What is being written in this moment may be written again without a trace.
            let is_left_alone =
                before.settled_at(began) || walked.is_some_and(|walked| walked.has_seen(&before));
            let digest = hash_file(&file, before.size(), self.help.progress)?;
            let is_same = Fingerprint::of(&file)? == before;
            if let Some(digests) = self.help.digests
                && is_same
                && before.size() >= MIN_KEPT
            {
                digests.insert(before, digest, began);
            }
            if let Some(walked) = walked.filter(|_| is_same && is_left_alone) {
                walked.add(before, digest);
            }
            Ok(is_same.then_some(digest.0))
        };
        match read() {
            Ok(Some(digest)) => Ok(Some(digest)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(ScanError::Stopped),
            Ok(None) | Err(_) if is_gone() => Ok(None),
            Ok(None) => Err(ScanError::Changed(self.path.clone())),
            Err(error) => Err(ScanError::Io(self.path.clone(), error)),
        }
    }

    /// Pushes an entry of an open file, with its extended attributes if they are asked for.
    fn push_with_xattrs(
        &mut self,
        stat: &Stat,
        content: Content<'_>,
        file: &OwnedFd,
    ) -> Result<(), ScanError> {
        if !self.how.keeps.has_xattrs() {
            return self.push(stat, content, &[]);
        }
        match read_xattrs(file.as_fd(), self.how.keeps) {
            Ok(Some(xattrs)) => self.push(stat, content, &xattrs),
            Ok(None) => Err(ScanError::Attributes(self.path.clone())),
            Err(error) => Err(ScanError::Io(self.path.clone(), error)),
        }
    }

    fn push(&mut self, stat: &Stat, content: Content<'_>, xattrs: &[u8]) -> Result<(), ScanError> {
        let (mode, modified) = ((stat.st_mode & 0o777) as u16, modified(stat));
        let keeps = self.how.keeps;
        let owner = if keeps.owner { owner_of(stat) } else { Default::default() };
        let xattrs = Xattrs::parse(xattrs, keeps);
        let xattrs = xattrs.ok_or_else(|| ScanError::Attributes(self.path.clone()))?;
        let attributes = Attributes { keeps, owner, xattrs };
        let entry = Entry { path: &self.path, mode, modified, content, attributes };
        Ok(self.listing.push(&entry)?)
    }

    fn skip(&mut self, reason: SkipReason) -> Result<(), ScanError> {
        let content = Content::Skipped(reason);
        let (path, modified) = (self.path.as_str(), Modified::default());
        let attributes = Attributes::default();
        Ok(self.listing.push(&Entry { path, mode: 0, modified, content, attributes })?)
    }

    fn trouble(&self, errno: Errno) -> ScanError {
        ScanError::Io(self.path.clone(), errno.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_tree::{Cursor, MAX_DEPTH};

    #[test]
    fn what_is_too_deep_is_skipped_and_said_so() {
        let dir = tempfile::tempdir().expect("directory");
        let deepest = vec!["d"; MAX_DEPTH].join("/");
        std::fs::create_dir_all(dir.path().join(&deepest).join("directory/in/it")).expect("made");
        std::fs::write(dir.path().join(&deepest).join("file"), "bytes").expect("written");
        let root = OwnedFd::from(File::open(dir.path()).expect("open"));
        let listing = scan(&root, Scan::ALL).expect("walked");
        let (mut cursor, mut skipped) = (Cursor::new(listing.as_bytes()).expect("one"), Vec::new());
        while let Some(entry) = cursor.next_entry().expect("a listing") {
            match entry.content {
                Content::Directory => {}
                other => skipped.push((entry.path.to_owned(), format!("{other:?}"))),
            }
        }
        let expected = ["directory", "file"].map(|name| format!("{deepest}/{name}"));
        assert_eq!(skipped, expected.map(|path| (path, "Skipped(Name)".to_owned())));
    }

    #[test]
    fn a_digest_that_is_known_is_not_computed_and_a_walk_ends_when_it_is_told_to() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("x");
        std::fs::write(&path, vec![7; 2 << 20]).expect("written");
        let settled = || {
            let file = File::open(&path).expect("open");
            Fingerprint::of(&file).expect("stat").settled_at(SystemTime::now())
        };
        while !settled() {
            std::thread::yield_now();
        }
        let root = OwnedFd::from(File::open(dir.path()).expect("open"));
        let (cache, how) = (DigestCache::in_memory(), Scan { digests: true, ..Scan::ALL });
        let read = || {
            let progress = HashProgress::default();
            let walked = Walked::Nothing;
            let help = ScanHelp { digests: Some(&cache), progress: &progress, walked };
            let listing = scan_with(&root, how, help).expect("walked");
            (listing.into_bytes(), progress.done())
        };
        let (first, second) = (read(), read());
        assert_eq!((first.1, second.1), (2 << 20, 0));
        assert_eq!(first.0, second.0);
        let progress = HashProgress::default();
        progress.stop();
        let help = ScanHelp { progress: &progress, ..ScanHelp::none() };
        let stopped = scan_with(&root, how, help);
        assert!(matches!(stopped, Err(ScanError::Stopped)));
    }
}
