//! Adoption of what a directory has besides a tree that takes its place.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use wellspring_tree::{Content, Cursor, Entry, Listing, ListingError, Pair, compare};

use super::TreeTarget;
use super::filter::TreeFilter;
use super::listed::Listed;
use super::scan::{Scan, scan};
use super::swap::{NextTree, is_gone, note_that_files_are_written, unless_gone};
use super::swap_note::{Had, identity};
use crate::objects::{Disk, HashProgress, SystemDisk, hash_file, part_file_name};

/// Times that a tree in which others write is looked through, at most.
const ADOPTIONS: usize = 8;

impl NextTree {
    /// Gives it what the other tree has by now and what a listing, as far as the filter lets it pass, does not have, and
    /// nothing else: this tree may have been begun long ago, by a process that has ended.
    ///
    /// # Errors
    /// The system's.
    pub fn adopt(&self, listing: Cursor<'_>, filter: &TreeFilter) -> io::Result<()> {
        for _ in 1..ADOPTIONS {
            match self.try_adopt(listing.clone(), filter) {
                Err(error) if may_be_a_change(&error) => {}
                adopted => return adopted,
            }
        }
        self.try_adopt(listing, filter)
    }

    fn try_adopt(&self, listing: Cursor<'_>, filter: &TreeFilter) -> io::Result<()> {
        note_that_files_are_written(&self.next)?;
        let open = |path: &Path| Ok::<_, io::Error>(OwnedFd::from(File::open(path)?));
        let walk = |root: &OwnedFd| scan(root, Scan::ALL).map_err(io::Error::other);
        let (there, mut doubts) = match open(&self.target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Listing::default(), None),
            root => root.and_then(|root| Ok((walk(&root)?, Some(TreeTarget::of(root)))))?,
        };
        let here = walk(&open(&self.next)?)?;
        let cursor = |listing| Cursor::new(listing).map_err(io::Error::other);
        let mut listed = Listed::new(listing, filter.walk())?;
        let mut surplus = Vec::new();
        let adopted = compare(cursor(there.as_bytes())?, cursor(here.as_bytes())?, |pair, _| {
            let (Pair::First(entry) | Pair::Second(entry) | Pair::Both(entry, _)) = pair;
            if listed.has(entry.path)? {
                return Ok(());
            }
            match pair {
                Pair::First(there) => self.take_over(&there, doubts.as_mut())?,
                Pair::Second(here) => {
                    surplus.push((here.path.to_owned(), here.content == Content::Directory));
                }
                Pair::Both(there, here) => match self.is_same(&there, &here) {
                    Ok(true) => {}
                    Err(error) if !is_gone(&self.target.join(there.path)) => Err(error)?,
                    _ => {
                        self.remove(here.path, here.content == Content::Directory)?;
                        self.take_over(&there, doubts.as_mut())?;
                    }
                },
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

    /// Gives a tree, which has taken the place of the other one, what that was given meanwhile and what was not listed.
    /// What has come into the tree since is left alone, and what it had and has no more is not brought back. Returns
    /// whether there was anything.
    pub(super) fn rescue(&self, mut listed: Listed<'_>, mut had: Had<'_>) -> io::Result<bool> {
        let walk = |path: &Path| {
            scan(&OwnedFd::from(File::open(path)?), Scan::ALL).map_err(io::Error::other)
        };
        let (there, here) = (walk(&self.target)?, walk(&self.next)?);
        let cursor = |listing| Cursor::new(listing).map_err(io::Error::other);
        let mut any = false;
        let rescued = compare(cursor(there.as_bytes())?, cursor(here.as_bytes())?, |pair, _| {
            let (Pair::First(entry) | Pair::Second(entry) | Pair::Both(entry, _)) = pair;
            let is_late = match pair {
                Pair::First(_) => had.identity(entry.path)?.is_none(),
                Pair::Second(_) => false,
                Pair::Both(there, here) => {
                    self.is_late(&there, &here, had.identity(entry.path)?)?
                }
            };
            if is_late && !listed.has(entry.path)? {
                any = true;
                self.bring(&entry)?;
            }
            Ok::<(), Adoption>(())
        });
        rescued.map_err(|Adoption(error)| error)?;
        Ok(any)
    }

    /// Whether what the other tree has under a path was put there after this one, which had that, took over what was
    /// there: by times alone that cannot be told, since a file may come with one of long ago.
    fn is_late(&self, there: &Entry<'_>, here: &Entry<'_>, had: Option<&str>) -> io::Result<bool> {
        let (from, at) = (self.target.join(there.path), self.next.join(here.path));
        let now = match fs::symlink_metadata(&at) {
            Err(_) if is_gone(&at) => None,
            now => Some(identity(&now?)),
        };
        if now.is_none() || now.as_deref() != had {
            // Somebody has removed or replaced it since.
            return Ok(false);
        }
        Ok(match (there.content, here.content) {
            (Content::Link { target: one }, Content::Link { target: other }) => one != other,
            _ if self.is_same(there, here)? => false,
            // Files in doubt are taken over as copies.
            (Content::File { size: one, .. }, Content::File { size: other, .. }) => {
                one != other || !have_the_same_bytes(&from, &at)?
            }
            _ => true,
        })
    }

    /// Brings something of the other tree here, in the place of what is older.
    fn bring(&self, entry: &Entry<'_>) -> io::Result<()> {
        let (from, to) = (self.target.join(entry.path), self.next.join(entry.path));
        let name =
            to.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        let beside = to.with_file_name(part_file_name(name, SystemDisk.random()?));
        let brought = self.make_lost_parents(entry.path).and_then(|()| match entry.content {
            Content::Directory => make_like(&from, &to),
            Content::Link { target } => {
                std::os::unix::fs::symlink(target, &beside).and_then(|()| fs::rename(&beside, &to))
            }
            _ => fs::hard_link(&from, &beside).and_then(|()| fs::rename(&beside, &to)),
        });
        brought.or_else(|error| match error.kind() {
            // Gone by now, or it would stand in the way of what is listed.
            io::ErrorKind::NotFound
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory => {
                let _ = fs::remove_file(&beside);
                Ok(())
            }
            _ => Err(error),
        })
    }

    /// Makes the directories above a path of the other tree that somebody has removed here since.
    fn make_lost_parents(&self, path: &str) -> io::Result<()> {
        for (end, _) in path.match_indices('/') {
            let above = self.next.join(&path[..end]);
            match fs::symlink_metadata(&above) {
                Ok(found) if found.is_dir() => {}
                // A link could lead out.
                Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    make_like(&self.target.join(&path[..end]), &above)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives it something of the other tree, unless that is gone.
    fn take_over(&self, entry: &Entry<'_>, doubts: Option<&mut TreeTarget>) -> io::Result<()> {
        let is_in_doubt = |size| {
            doubts.is_some_and(|doubts| doubts.may_be_torn(entry.path, size, entry.modified))
        };
        let is_copied = matches!(entry.content, Content::File { size, .. } if is_in_doubt(size));
        unless_gone(&self.target.join(entry.path), || self.try_take_over(entry, is_copied))
    }

    fn try_take_over(&self, entry: &Entry<'_>, is_copied: bool) -> io::Result<()> {
        let (from, to) = (self.target.join(entry.path), self.next.join(entry.path));
        self.make_parents(entry.path)?;
        match entry.content {
            Content::Directory => make_like(&from, &to),
            // The note of the other tree goes with it: that time would say that these are the bytes. It gets another.
            Content::File { .. } if is_copied => fs::copy(from, to).map(|_| ()),
            Content::File { .. } => fs::hard_link(from, to),
            // It may lead elsewhere by now.
            Content::Link { .. } => std::os::unix::fs::symlink(fs::read_link(from)?, to),
            Content::Skipped(reason) => {
                let text = format!("{} {reason}, and would be lost", entry.path);
                Err(io::Error::new(io::ErrorKind::Unsupported, text))
            }
        }
    }

    /// Makes the directories above a path that the other tree has and this one not yet: they are listed.
    fn make_parents(&self, path: &str) -> io::Result<()> {
        for (end, _) in path.match_indices('/') {
            let (from, to) = (self.target.join(&path[..end]), self.next.join(&path[..end]));
            match fs::symlink_metadata(&to) {
                Ok(found) if found.is_dir() => continue,
                Ok(_) => fs::remove_file(&to)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            make_like(&from, &to)?;
        }
        Ok(())
    }

    /// Whether what both trees have under a path is the same: of a file, that it is one file. Another with that length
    /// and time may be one that a power cut has left.
    fn is_same(&self, there: &Entry<'_>, here: &Entry<'_>) -> io::Result<bool> {
        if let (Content::File { .. }, Content::File { .. }) = (there.content, here.content) {
            let one = fs::symlink_metadata(self.target.join(there.path))?;
            let other = fs::symlink_metadata(self.next.join(here.path))?;
            return Ok((one.dev(), one.ino()) == (other.dev(), other.ino()));
        }
        let is_directory = there.content == Content::Directory;
        Ok(there.content == here.content && (is_directory || there.modified == here.modified))
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
}

/// Whether an error can come from something that others have put in the place of what was seen there.
fn may_be_a_change(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::AlreadyExists
            // Of a directory no further name can be made.
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::InvalidInput
    )
}

/// Makes a directory with the permissions of another.
fn make_like(from: &Path, to: &Path) -> io::Result<()> {
    let like = from.symlink_metadata()?;
    if !like.is_dir() {
        // Something else is there by now.
        return Err(io::ErrorKind::NotADirectory.into());
    }
    fs::create_dir(to)?;
    fs::set_permissions(to, like.permissions())
}

/// Whether two files of one length have the same bytes.
fn have_the_same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let digest = |path: &Path| {
        let file = File::open(path)?;
        hash_file(&file, file.metadata()?.len(), &HashProgress::default())
    };
    Ok(digest(one)? == digest(other)?)
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
