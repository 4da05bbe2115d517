//! Trees that take the place of others at once.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use wellspring_tree::{
    Content, Cursor, Entry, Keeps, ListingError, MAX_DEPTH, Pair, compare, order,
};

use super::TreeTarget;
use super::scan::{Scan, scan};

/// A tree beside another that is to take its place: `.NAME.wellspring-next`. It begins with the same files, as
/// further names of them; one that an earlier process has left is taken up as it is.
#[derive(Debug)]
pub struct NextTree {
    target: PathBuf,
    next: PathBuf,
}

/// End of the name of a tree that is to take the place of another.
const NEXT: &str = ".wellspring-next";

/// The name of the tree that is to take the place of one of that name, beside it.
pub fn next_name(name: &str) -> String {
    format!(".{name}{NEXT}")
}

/// How a tree took the place of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swapped {
    /// There was no moment without one of them.
    AtOnce,
    /// The file system cannot exchange directories: for a moment there was none.
    InTwoSteps,
    /// There was none before.
    New,
}

impl NextTree {
    /// Makes a tree beside `target`, which need not exist.
    ///
    /// # Errors
    /// The system's.
    pub fn beside(target: &Path) -> io::Result<Self> {
        let target = match target.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(target)?,
            found => found?,
        };
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(NEXT);
        let next = target.with_file_name(hidden);
        let tree = NextTree { target, next };
        if !tree.next.exists() {
            tree.fill()?;
        }
        Ok(tree)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.next
    }

    /// Gives it the files of the other tree. It gets its name when it has all.
    fn fill(&self) -> io::Result<()> {
        let mut unready = self.next.clone().into_os_string();
        unready.push("-unready");
        let unready = PathBuf::from(unready);
        match fs::remove_dir_all(&unready) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(&unready)?;
        if self.target.exists() {
            self.link_into(&unready)?;
            fs::set_permissions(&unready, self.target.metadata()?.permissions())?;
        }
        fs::rename(&unready, &self.next)
    }

    fn link_into(&self, to: &Path) -> io::Result<()> {
        let root = OwnedFd::from(File::open(&self.target)?);
        let how = Scan { hidden: true, deep: true, digests: false, keeps: Keeps::default() };
        let listing = scan(&root, how).map_err(io::Error::other)?;
        let mut cursor = Cursor::new(listing.as_bytes()).map_err(io::Error::other)?;
        let mut directories = Vec::new();
        // What may not be on the disk is fetched again.
        let mut there = TreeTarget::of(root);
        while let Some(entry) = cursor.next_entry().map_err(io::Error::other)? {
            let path = to.join(entry.path);
            match entry.content {
                Content::Directory => {
                    fs::create_dir(&path)?;
                    directories.push(entry.path.to_owned());
                }
                Content::File { size, .. } => {
                    if !there.is_in_doubt(entry.path, size, entry.modified) {
                        fs::hard_link(self.target.join(entry.path), &path)?;
                    }
                }
                Content::Link { target } => std::os::unix::fs::symlink(target, &path)?,
                // Nothing is lost that a copy cannot have.
                Content::Skipped(reason) => {
                    let text = format!("{} {reason}, and would be lost", entry.path);
                    return Err(io::Error::new(io::ErrorKind::Unsupported, text));
                }
            }
        }
        let deepest = directories.iter().map(|path| path.split('/').count()).max();
        if deepest.is_some_and(|depth| depth >= MAX_DEPTH) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the tree is too deep"));
        }
        // What is in a directory changes its time, and may not be made in one that is read alone.
        for path in directories.iter().rev() {
            let meta = self.target.join(path).metadata()?;
            let directory = File::open(to.join(path))?;
            directory.set_permissions(meta.permissions())?;
            directory.set_modified(meta.modified()?)?;
        }
        Ok(())
    }

    /// Gives it what the other tree has by now and a listing does not, and nothing else: this tree may have been begun
    /// long ago, by a process that has ended.
    ///
    /// # Errors
    /// The system's.
    pub fn adopt(&self, mut listing: Cursor<'_>) -> io::Result<()> {
        if !self.target.exists() {
            return Ok(());
        }
        let how = Scan { hidden: true, deep: true, digests: false, keeps: Keeps::default() };
        let walk =
            |path: &Path| scan(&OwnedFd::from(File::open(path)?), how).map_err(io::Error::other);
        let (there, here) = (walk(&self.target)?, walk(&self.next)?);
        let cursor = |listing| Cursor::new(listing).map_err(io::Error::other);
        let mut listed = next_path(&mut listing)?;
        let mut surplus = Vec::new();
        let adopted = compare(cursor(there.as_bytes())?, cursor(here.as_bytes())?, |pair, _| {
            let (Pair::First(entry) | Pair::Second(entry) | Pair::Both(entry, _)) = pair;
            while listed.as_deref().is_some_and(|listed| order(listed, entry.path).is_lt()) {
                listed = next_path(&mut listing)?;
            }
            if listed.as_deref() == Some(entry.path) {
                return Ok(());
            }
            match pair {
                Pair::First(there) => self.take_over(&there)?,
                Pair::Second(here) => {
                    surplus.push((here.path.to_owned(), here.content == Content::Directory));
                }
                Pair::Both(there, here) if is_same(&there, &here) => {}
                Pair::Both(there, here) => {
                    self.remove(here.path, here.content == Content::Directory)?;
                    self.take_over(&there)?;
                }
            }
            Ok::<(), Adoption>(())
        });
        adopted.map_err(|Adoption(error)| error)?;
        // Behind what is in it comes a directory, in the other order.
        for (path, is_directory) in surplus.iter().rev() {
            self.remove(path, *is_directory)?;
        }
        Ok(())
    }

    /// Gives it something of the other tree.
    fn take_over(&self, entry: &Entry<'_>) -> io::Result<()> {
        let (from, to) = (self.target.join(entry.path), self.next.join(entry.path));
        match entry.content {
            Content::Directory => {
                fs::create_dir(&to)?;
                fs::set_permissions(&to, from.metadata()?.permissions())
            }
            Content::File { .. } => fs::hard_link(from, to),
            Content::Link { target } => std::os::unix::fs::symlink(target, to),
            Content::Skipped(reason) => {
                let text = format!("{} {reason}, and would be lost", entry.path);
                Err(io::Error::new(io::ErrorKind::Unsupported, text))
            }
        }
    }

    fn remove(&self, path: &str, is_directory: bool) -> io::Result<()> {
        let path = self.next.join(path);
        let removed = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            // It went with the directory above, in whose place a file may be.
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(()),
                _ => Err(error),
            },
            removed => removed,
        }
    }

    /// Takes the place of the other tree, which is removed.
    ///
    /// # Errors
    /// The system's. One of the trees is in the place, and the other beside it.
    pub fn swap(self) -> io::Result<Swapped> {
        let NextTree { target, next } = &self;
        // What has the name outlives a power cut before the other tree goes.
        let settle = || File::open(target.parent().unwrap_or(target))?.sync_all();
        if !target.exists() {
            fs::rename(next, target)?;
            settle()?;
            return Ok(Swapped::New);
        }
        match renameat_with(CWD, next, CWD, target, RenameFlags::EXCHANGE) {
            Ok(()) => {
                settle()?;
                fs::remove_dir_all(next)?;
                Ok(Swapped::AtOnce)
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                let mut old = next.clone().into_os_string();
                old.push("-old");
                fs::rename(target, &old)?;
                fs::rename(next, target)?;
                settle()?;
                fs::remove_dir_all(&old)?;
                Ok(Swapped::InTwoSteps)
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

/// The error of an adoption.
struct Adoption(io::Error);

impl From<io::Error> for Adoption {
    fn from(error: io::Error) -> Self {
        Adoption(error)
    }
}

impl From<ListingError> for Adoption {
    fn from(error: ListingError) -> Self {
        Adoption(io::Error::other(error))
    }
}

/// The next path of a listing; what was skipped in it is not part of the tree.
fn next_path(listing: &mut Cursor<'_>) -> io::Result<Option<String>> {
    loop {
        let entry = listing.next_entry().map_err(io::Error::other)?;
        match entry {
            Some(Entry { content: Content::Skipped(_), .. }) => {}
            entry => return Ok(entry.map(|entry| entry.path.to_owned())),
        }
    }
}

/// Whether what both trees have under a path is the same.
fn is_same(one: &Entry<'_>, other: &Entry<'_>) -> bool {
    one.content == other.content
        && (one.content == Content::Directory || one.modified == other.modified)
}
