//! Trees that take the place of others at once.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use wellspring_tree::{Content, Cursor, MAX_DEPTH};

use super::TreeTarget;
use super::alike::be_like;
use super::filter::TreeFilter;
use super::listed::Listed;
use super::movable;
use super::removal::remove_tree;
use super::scan::{Scan, scan};
use super::swap_note::SwapNote;
use crate::objects::{NEXT_TREE, QUOTA_LEDGER};

/// Times that something is tried which others remove and make again, at most.
const ATTEMPTS: usize = 16;

/// A tree beside another that is to take its place: `.NAME.wellspring-next`. It begins with the same files, as
/// further names of them; one that an earlier process has left is taken up as it is.
#[derive(Default, Debug)]
pub struct NextTree {
    pub(super) target: PathBuf,
    pub(super) next: PathBuf,
    /// The lock of whoever [claimed](Self::claim) it.
    claim: Option<File>,
    /// It has all that the other tree has: nobody began it before, and nothing was left out.
    is_whole: bool,
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
    /// Of kind [`io::ErrorKind::Unsupported`] if it can never take the other's place, or not with all that this has; the
    /// system's.
    pub fn beside(target: &Path) -> io::Result<Self> {
        let mut tree = NextTree::named_beside(target)?;
        let _one = tree.alone()?;
        tree.end_swap()?;
        movable::check(&tree.target, &tree.named("-unready"))?;
        tree.end_inner_swaps()?;
        if !tree.next.exists() {
            tree.is_whole = tree.fill()?;
        }
        tree.take_parts();
        Ok(tree)
    }

    pub(super) fn named_beside(target: &Path) -> io::Result<Self> {
        let target = match target.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(target)?,
            found => found?,
        };
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(NEXT_TREE);
        let next = target.with_file_name(hidden);
        Ok(NextTree { target, next, claim: None, is_whole: false })
    }

    /// The same, for one process at a time: two that write one tree would mix theirs.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::ResourceBusy`] if another process has it; the system's.
    pub fn claim(target: &Path) -> io::Result<Self> {
        let mut tree = NextTree::beside(target)?;
        tree.claim = Some(tree.lock(FlockOperation::NonBlockingLockExclusive)?);
        Ok(tree)
    }

    /// Keeps out those who [claim](Self::claim) or [discard](Self::discard) it as long as the result is kept; others may
    /// share it.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::ResourceBusy`] if somebody has claimed it; the system's.
    pub fn share(&self) -> io::Result<File> {
        self.lock(FlockOperation::NonBlockingLockShared)
    }

    fn lock(&self, how: FlockOperation) -> io::Result<File> {
        let file = File::open(&self.next)?;
        // Where directories cannot be locked it is as it was: nobody is kept out.
        if flock(&file, how) == Err(Errno::WOULDBLOCK) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // Whoever had it before may have put it in its place.
        let (locked, named) = (file.metadata()?, fs::symlink_metadata(&self.next)?);
        if (locked.dev(), locked.ino()) != (named.dev(), named.ino()) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(file)
    }

    /// Removes what is beside `target` of a tree that nobody writes any more, and ends what a process that was killed in a
    /// [swap](Self::swap) has left undone. Returns the bytes that this frees, none if there was nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn discard(target: &Path) -> io::Result<Option<u64>> {
        let tree = NextTree::named_beside(target)?;
        let _one = tree.alone()?;
        let (unready, old) = (tree.named("-unready"), tree.old());
        let mut freed = None;
        if old.exists() {
            freed = tree.target.exists().then(|| bytes_of_its_own(&old));
        }
        tree.end_swap()?;
        let _claim = match tree.lock(FlockOperation::NonBlockingLockExclusive) {
            // Where directories cannot be locked somebody may write it.
            Ok(claim) if flock(&claim, FlockOperation::NonBlockingLockExclusive).is_err() => None,
            Ok(claim) => {
                // Partly removed it must not be taken up: see there.
                if unready.exists() {
                    remove_tree(&unready)?;
                }
                fs::rename(&tree.next, &unready)?;
                Some(claim)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ResourceBusy => None,
                _ => return Err(error),
            },
        };
        if unready.exists() {
            freed = Some(freed.unwrap_or(0) + bytes_of_its_own(&unready));
            remove_tree(&unready)?;
        }
        Ok(freed)
    }

    /// Whether it has all that the other tree has, since it was made a moment ago.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.next
    }

    /// Gives it the files of the other tree, and says whether these are all. It gets its name when it has them.
    fn fill(&self) -> io::Result<bool> {
        let unready = self.named("-unready");
        match remove_tree(&unready) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let is_whole = self.try_fill(&unready).inspect_err(|_| {
            // The error that matters is the first.
            let _ = remove_tree(&unready);
        })?;
        fs::rename(&unready, &self.next)?;
        Ok(is_whole)
    }

    fn try_fill(&self, unready: &Path) -> io::Result<bool> {
        fs::create_dir_all(unready)?;
        if !self.target.exists() {
            return Ok(true);
        }
        // What the other tree was given in this life of the machine may not be on the disk either.
        note_that_files_are_written(unready)?;
        let is_whole = self.link_into(unready)?;
        be_like(&self.target, unready)?;
        Ok(is_whole)
    }

    fn link_into(&self, to: &Path) -> io::Result<bool> {
        let root = OwnedFd::from(File::open(&self.target)?);
        let listing = scan(&root, Scan::ALL).map_err(io::Error::other)?;
        let mut cursor = Cursor::new(listing.as_bytes()).map_err(io::Error::other)?;
        let mut directories = Vec::new();
        let (mut there, mut is_whole) = (TreeTarget::of(root), true);
        while let Some(entry) = cursor.next_entry().map_err(io::Error::other)? {
            let path = to.join(entry.path);
            match entry.content {
                Content::Directory => {
                    fs::create_dir(&path)?;
                    directories.push(entry.path.to_owned());
                }
                Content::File { size, .. } => {
                    // It is fetched again, or adopted.
                    if there.may_be_torn(entry.path, size, entry.modified) {
                        is_whole = false;
                    } else {
                        let from = self.target.join(entry.path);
                        match unless_gone(&from, || fs::hard_link(&from, &path)) {
                            Err(_) if is_another(&from, entry.content) => is_whole = false,
                            linked => linked?,
                        }
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
            let from = self.target.join(path);
            if is_another(&from, Content::Directory) {
                is_whole = false;
                continue;
            }
            let like = || {
                let to = to.join(path);
                be_like(&from, &to)?;
                File::open(to)?.set_modified(from.symlink_metadata()?.modified()?)
            };
            unless_gone(&from, like)?;
        }
        Ok(is_whole)
    }

    /// Takes the place of the other tree, which is removed. What that was given since this one [adopted](Self::adopt) what
    /// it has, and what a listing, as far as the filter lets it pass, does not have, is `kept`.
    ///
    /// # Errors
    /// The system's. One of the trees is in the place, and the other beside it.
    pub fn swap(&self, kept: Option<(Cursor<'_>, &TreeFilter)>) -> io::Result<Swapped> {
        let NextTree { target, next, .. } = self;
        let _one = self.alone()?;
        // What has the name outlives a power cut before the other tree goes.
        let settle = || File::open(target.parent().unwrap_or(target))?.sync_all();
        if !target.exists() {
            fs::rename(next, target)?;
            settle()?;
            return Ok(Swapped::New);
        }
        let (old, note) = (self.old(), self.note());
        remove_if_there(&note)?;
        if let Some((listing, filter)) = kept {
            let listed = || Listed::new(listing.clone(), filter.walk());
            SwapNote::write(&note, next, [listed()?, listed()?])?;
        }
        let swapped = match renameat_with(CWD, next, CWD, target, RenameFlags::EXCHANGE) {
            Ok(()) => {
                settle()?;
                // Partly removed it must not be taken up as the tree that comes next: its note may be gone before files
                // that are in doubt.
                fs::rename(next, &old)?;
                Swapped::AtOnce
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                fs::rename(target, &old)?;
                fs::rename(next, target)?;
                Swapped::InTwoSteps
            }
            Err(errno) => {
                // It is of no use without the exchange.
                let _ = fs::remove_file(&note);
                return Err(errno.into());
            }
        };
        settle()?;
        self.end_rescue()?;
        if let Err(error) = self.remove_old() {
            // The tree has its place. What is left is of no use, and `clean` or the next swap tries again.
            tracing::warn!(%error, "the directory that was there before cannot be removed");
        }
        Ok(swapped)
    }

    /// Where the tree goes whose place was taken, until it is removed.
    fn old(&self) -> PathBuf {
        self.named("-old")
    }

    fn note(&self) -> PathBuf {
        self.named("-note")
    }

    fn named(&self, end: &str) -> PathBuf {
        let mut name = self.next.clone().into_os_string();
        name.push(end);
        PathBuf::from(name)
    }

    /// Waits until nobody else makes or swaps trees in that directory; where directories cannot be locked there is no
    /// waiting.
    pub(super) fn alone(&self) -> io::Result<File> {
        let parent = self.target.parent().unwrap_or(&self.target);
        fs::create_dir_all(parent)?;
        let parent = File::open(parent)?;
        let _ = flock(&parent, FlockOperation::LockExclusive);
        Ok(parent)
    }

    /// Does what is left to do in a [swap](Self::swap), of this process or of one that was killed in it.
    pub(super) fn end_swap(&self) -> io::Result<()> {
        self.end_rescue()?;
        self.remove_old()
    }

    /// Brings over what the other tree was given in the moment of a swap; it is of no more use then.
    fn end_rescue(&self) -> io::Result<()> {
        let (old, note) = (self.old(), self.note());
        let noted = SwapNote::read(&note)?.filter(|noted| noted.has_happened(&self.target));
        if noted.is_some() && !old.exists() && self.next.exists() {
            // Killed before that got its name.
            fs::rename(&self.next, &old)?;
        }
        if old.exists() && !self.target.exists() {
            fs::rename(&old, &self.target)?;
        }
        if old.exists() && noted.is_none() && self.next.exists() {
            // Killed between two steps, and somebody has made the directory again.
            return Err(self.torn());
        }
        if old.exists() {
            if let Some(noted) = noted {
                let there = NextTree {
                    target: old.clone(),
                    next: self.target.clone(),
                    ..NextTree::default()
                };
                if there.rescue(noted.listed()?, noted.had())? {
                    // It may have been on the disk where it was.
                    TreeTarget::open(&self.target, false)?.sync()?;
                }
            }
            // Who has put what in a served directory is part of no tree.
            let _ = fs::hard_link(old.join(QUOTA_LEDGER), self.target.join(QUOTA_LEDGER));
        }
        // First: of a tree that is partly removed nothing is to be brought over.
        remove_if_there(&note)
    }

    /// Neither of two directories is to go: each may have what the other has not.
    fn torn(&self) -> io::Error {
        let text = format!(
            "{} holds what was in {} before a swap that was cut off, and that was made again since: move what you need over \
             and remove it",
            self.old().display(),
            self.target.display()
        );
        io::Error::new(io::ErrorKind::AlreadyExists, text)
    }

    fn remove_old(&self) -> io::Result<()> {
        let old = self.old();
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", old.display()));
        for _ in 1..ATTEMPTS {
            match remove_tree(&old) {
                // Somebody who has it open makes things in it.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                removed => return removed.map_err(named),
            }
        }
        remove_tree(&old).map_err(named)
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What is done with something that others may remove, and it is no error that they have. What is there again is tried
/// again.
pub(super) fn unless_gone(path: &Path, mut done: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..ATTEMPTS {
        match done() {
            Err(error) if is_no_more(&error) => {}
            done => return done,
        }
        if is_gone(path) {
            return Ok(());
        }
    }
    done()
}

/// Whether nothing has that name.
pub(super) fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| is_no_more(&error))
}

fn is_no_more(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether something else has that name than what is listed.
fn is_another(path: &Path, listed: Content<'_>) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| match listed {
        Content::Directory => !found.is_dir(),
        Content::Link { .. } => !found.is_symlink(),
        _ => !found.is_file(),
    })
}

/// What the files of a tree that have no other name take on the disk \[bytes\].
fn bytes_of_its_own(tree: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(tree).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes += bytes_of_its_own(&entry.path()),
            Ok(meta) if meta.nlink() == 1 => bytes += meta.blocks() * 512,
            _ => {}
        }
    }
    bytes
}

/// What is linked or copied into a tree may not be on the disk until all that is written there is.
pub(super) fn note_that_files_are_written(tree: &Path) -> io::Result<()> {
    TreeTarget::open(tree, false)?.begin()
}
