//! Rescue of what a tree was given while another took its place.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use wellspring_tree::{Content, Cursor, Entry, Pair, compare};

use super::adopt::Adoption;
use super::alike::make_like;
use super::listed::Listed;
use super::scan::{Scan, scan};
use super::swap::{NextTree, is_gone};
use super::swap_note::{Had, identity};
use crate::objects::{Disk, HashProgress, SystemDisk, hash_file, part_file_name};

/// A directory in whose place something else is to come, and what is below it as it was.
struct Cleared {
    path: String,
    below: Vec<(String, bool)>,
}

/// Removes what had a name before.
type Remove = fn(&Path) -> io::Result<()>;

impl NextTree {
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
        let mut cleared: Vec<Cleared> = Vec::new();
        let rescued = compare(cursor(there.as_bytes())?, cursor(here.as_bytes())?, |pair, _| {
            let (Pair::First(entry) | Pair::Second(entry) | Pair::Both(entry, _)) = pair;
            let path = entry.path;
            let had = had.identity(path)?;
            match pair {
                Pair::First(_) if had.is_none() && !listed.has(path)? => {
                    any = true;
                    self.bring(path, None)?;
                }
                Pair::Second(here) => {
                    if let Some(above) = cleared.last_mut().filter(|above| above.holds(path))
                        && self.is_as_it_was(path, had)?
                    {
                        above.below.push((path.to_owned(), here.content == Content::Directory));
                    }
                }
                Pair::Both(there, here)
                    if self.is_late(&there, &here, had)? && !listed.has(path)? =>
                {
                    any = true;
                    match (there.content, here.content) {
                        (_, Content::Directory) => {
                            cleared.push(Cleared { path: path.to_owned(), below: Vec::new() });
                        }
                        (Content::Directory, _) => {
                            self.bring(path, Some(|file| fs::remove_file(file)))?;
                        }
                        _ => self.bring(path, None)?,
                    }
                }
                _ => {}
            }
            Ok::<(), Adoption>(())
        });
        rescued.map_err(|Adoption(error)| error)?;
        cleared.iter().try_for_each(|directory| self.bring_instead(directory))?;
        Ok(any)
    }

    /// Whether what the other tree has under a path was put there after this one, which had that, took over what was
    /// there: by times alone that cannot be told, since a file may come with one of long ago.
    fn is_late(&self, there: &Entry<'_>, here: &Entry<'_>, had: Option<&str>) -> io::Result<bool> {
        if there.content == Content::Directory && here.content == Content::Directory
            || !self.is_as_it_was(here.path, had)?
        {
            return Ok(false);
        }
        Ok(match (there.content, here.content) {
            (Content::File { size: one, .. }, Content::File { size: other, .. }) => {
                let (from, at) = (self.target.join(there.path), self.next.join(here.path));
                let is_one_file = had == Some(&identity(&fs::symlink_metadata(&from)?));
                // Files in doubt are taken over as copies.
                !is_one_file && (one != other || !have_the_same_bytes(&from, &at)?)
            }
            (there, here) => there != here,
        })
    }

    /// Whether nobody has removed or replaced since what this tree had under a path.
    fn is_as_it_was(&self, path: &str, had: Option<&str>) -> io::Result<bool> {
        let at = self.next.join(path);
        match fs::symlink_metadata(&at) {
            Err(_) if is_gone(&at) => Ok(false),
            now => Ok(had == Some(&identity(&now?))),
        }
    }

    /// Brings something of the other tree here, in the place of what is older; if that is of another kind, it is said how
    /// it is removed.
    fn bring(&self, path: &str, remove: Option<Remove>) -> io::Result<()> {
        let (from, to) = (self.target.join(path), self.next.join(path));
        let name =
            to.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        let beside = to.with_file_name(part_file_name(name, SystemDisk.random()?));
        let brought = self.make_lost_parents(path).and_then(|()| {
            let kind = fs::symlink_metadata(&from)?.file_type();
            if kind.is_dir() {
                let Some(remove) = remove else { return make_like(&from, &to) };
                make_like(&from, &beside)?;
                return replace(&beside, &to, remove);
            }
            if kind.is_symlink() {
                std::os::unix::fs::symlink(fs::read_link(&from)?, &beside)?;
            } else {
                fs::hard_link(&from, &beside)?;
            }
            match remove {
                Some(remove) => replace(&beside, &to, remove),
                None => fs::rename(&beside, &to),
            }
        });
        brought.or_else(|error| match error.kind() {
            // Gone by now, or it would stand in the way of what is listed.
            io::ErrorKind::NotFound
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::DirectoryNotEmpty => {
                let _ = fs::remove_file(&beside).or_else(|_| fs::remove_dir(&beside));
                Ok(())
            }
            // A directory by now, of which no further name can be made. What is in it comes later, or not at all.
            io::ErrorKind::PermissionDenied if from.is_dir() => Ok(()),
            _ => Err(error),
        })
    }

    /// Brings something in the place of a directory in which nothing is but what was there.
    fn bring_instead(&self, directory: &Cleared) -> io::Result<()> {
        use io::ErrorKind::{DirectoryNotEmpty, NotFound};
        for (path, is_directory) in directory.below.iter().rev() {
            let path = self.next.join(path);
            let removed = if *is_directory { fs::remove_dir(path) } else { fs::remove_file(path) };
            match removed {
                Err(error) if [NotFound, DirectoryNotEmpty].contains(&error.kind()) => {}
                removed => removed?,
            }
        }
        let is_left = fs::read_dir(self.next.join(&directory.path));
        if is_left.is_ok_and(|mut left| left.next().is_none()) {
            self.bring(&directory.path, Some(|directory| fs::remove_dir(directory)))?;
        }
        Ok(())
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
}

impl Cleared {
    fn holds(&self, path: &str) -> bool {
        path.strip_prefix(&self.path).is_some_and(|below| below.starts_with('/'))
    }
}

/// Gives a name to what is beside, and removes what had it, which is of another kind. The name leads to one of them
/// whenever the process is killed: without either, the next one would take it for removed by somebody.
fn replace(beside: &Path, at: &Path, remove: Remove) -> io::Result<()> {
    let exchange = || renameat_with(CWD, beside, CWD, at, RenameFlags::EXCHANGE);
    match exchange() {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            remove(at)?;
            return fs::rename(beside, at);
        }
        exchanged => exchanged?,
    }
    remove(beside).or_else(|error| {
        // Not what it was.
        exchange()?;
        Err(error)
    })
}

/// Whether two files of one length have the same bytes.
fn have_the_same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let digest = |path: &Path| {
        let file = File::open(path)?;
        hash_file(&file, file.metadata()?.len(), &HashProgress::default())
    };
    Ok(digest(one)? == digest(other)?)
}
