//! Adoption of what a directory has besides a tree that takes its place.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use wellspring_tree::{Content, Cursor, Entry, Listing, ListingError, Pair, compare};

use super::TreeTarget;
use super::alike::make_like;
use super::filter::TreeFilter;
use super::listed::Listed;
use super::scan::{Scan, scan};
use super::swap::{NextTree, is_gone, note_that_files_are_written, unless_gone};

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
    // Of a directory no further name can be made (EPERM). Who may not do a thing at all is told EACCES.
    let is_a_directory = Errno::from_io_error(error) == Some(Errno::PERM);
    is_a_directory
        || matches!(
            error.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::AlreadyExists
                | io::ErrorKind::InvalidInput
        )
}

/// The error of an adoption.
pub(super) struct Adoption(pub(super) io::Error);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_no_change_and_a_name_for_a_directory_is() {
        let error = |errno: Errno| io::Error::from(errno);
        assert!(may_be_a_change(&error(Errno::PERM)) && may_be_a_change(&error(Errno::NOENT)));
        assert!(may_be_a_change(&io::ErrorKind::NotADirectory.into()));
        assert!(!may_be_a_change(&error(Errno::ACCESS)) && !may_be_a_change(&error(Errno::IO)));
    }
}
