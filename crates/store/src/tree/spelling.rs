//! Names that a file system takes for one: they differ in case, or in how their letters are composed.

use std::collections::BTreeSet;

use rustix::fs::{Dev, FileType, Stat};
use wellspring_tree::{Attributes, Content, Entry, SkipReason};

use super::TreeTarget;
use super::file::modified;
use super::filter::is_below;

/// Entries of a tree that lie in a directory, and are listed there under other names.
#[derive(Default, Debug)]
pub(super) struct Spellings {
    paths: Vec<String>,
    /// A directory that is not there, and so nothing below it.
    absent: Option<String>,
}

impl Spellings {
    /// What a directory has under the path of an entry that it does not list; asked for in the order of the paths.
    pub(super) fn look(&mut self, target: &mut TreeTarget, there: &Entry<'_>) -> Option<Found> {
        let path = there.path;
        if self.absent.as_deref().is_some_and(|absent| is_below(path, absent)) {
            return None;
        }
        let Some(found) = Found::at(target, path) else {
            if there.content == Content::Directory {
                self.absent = Some(path.to_owned());
            }
            return None;
        };
        self.paths.push(path.to_owned());
        // The bytes are not looked at here.
        let has_digest = matches!(there.content, Content::File { digest: Some(_), .. });
        (!has_digest).then_some(found)
    }

    /// Leaves those of some paths that lead to none of these entries.
    pub(super) fn leave_others(&self, target: &mut TreeTarget, paths: &mut Vec<String>) {
        let mut inode = |path: &String| -> Option<(Dev, u64)> {
            target.stat(path).map(|stat| (stat.st_dev, stat.st_ino))
        };
        let known: BTreeSet<_> = self.paths.iter().filter_map(&mut inode).collect();
        if !known.is_empty() {
            paths.retain(|path| inode(path).is_none_or(|inode| !known.contains(&inode)));
        }
    }
}

/// Something in a directory.
pub(super) struct Found {
    stat: Stat,
    /// Where it leads to, if it is a link.
    link: Option<String>,
}

impl Found {
    fn at(target: &mut TreeTarget, path: &str) -> Option<Self> {
        let stat = target.stat(path)?;
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let link = if is_link { target.link_target(path) } else { None };
        Some(Found { stat, link })
    }

    /// The same as an entry of that path, without digest, owner and attributes.
    pub(super) fn entry<'a>(&'a self, path: &'a str) -> Entry<'a> {
        let content = match (FileType::from_raw_mode(self.stat.st_mode), &self.link) {
            (FileType::Directory, _) => Content::Directory,
            (FileType::RegularFile, _) => {
                Content::File { size: self.stat.st_size as u64, digest: None }
            }
            (_, Some(target)) => Content::Link { target },
            (_, None) => Content::Skipped(SkipReason::Special),
        };
        let mode = (self.stat.st_mode & 0o777) as u16;
        let (modified, attributes) = (modified(&self.stat), Attributes::default());
        Entry { path, mode, modified, content, attributes }
    }
}
