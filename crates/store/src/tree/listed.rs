//! Listed paths, from a listing or from a note of them.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use wellspring_tree::{Content, Cursor, Listing, Pair, compare, order};

use super::NextTree;
use super::adopt::Adoption;
use super::filter::{FilterWalk, is_below};
use super::scan::{Scan, scan};

/// Listed paths, asked for in their order.
pub(super) struct Listed<'a> {
    source: Source<'a>,
    next: Option<String>,
}

enum Source<'a> {
    /// What a filter lets pass; what was skipped is not part of the tree.
    Listing(Cursor<'a>, FilterWalk),
    Paths(Box<dyn Iterator<Item = &'a [u8]> + 'a>),
}

impl<'a> Listed<'a> {
    pub(super) fn new(listing: Cursor<'a>, filter: FilterWalk) -> io::Result<Self> {
        Self::of(Source::Listing(listing, filter))
    }

    pub(super) fn of_paths(paths: impl Iterator<Item = &'a [u8]> + 'a) -> io::Result<Self> {
        Self::of(Source::Paths(Box::new(paths)))
    }

    fn of(source: Source<'a>) -> io::Result<Self> {
        let mut listed = Listed { source, next: None };
        listed.take()?;
        Ok(listed)
    }

    /// Takes the next path.
    pub(super) fn take(&mut self) -> io::Result<Option<String>> {
        let next = self.source.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Whether a path is listed; paths are asked for in their order.
    pub(super) fn has(&mut self, path: &str) -> io::Result<bool> {
        while self.next.as_deref().is_some_and(|next| order(next, path).is_lt()) {
            self.take()?;
        }
        Ok(self.next.as_deref() == Some(path))
    }
}

impl NextTree {
    /// A listing, and what the other tree has by now and is to lose: that which `goes` by its path, and is not there in the
    /// place of something that the listing skips.
    ///
    /// # Errors
    /// The system's.
    pub fn listed_or_lost(
        &self,
        listing: Cursor<'_>,
        goes: impl Fn(&str) -> bool,
    ) -> io::Result<Listing> {
        let there = match File::open(&self.target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Listing::default(),
            root => scan(&OwnedFd::from(root?), Scan::ALL).map_err(io::Error::other)?,
        };
        let there = Cursor::new(there.as_bytes()).map_err(io::Error::other)?;
        let (mut all, mut skipped) = (Listing::new(), None::<String>);
        let compared = compare(listing, there, |pair, _| {
            let entry = match pair {
                Pair::First(listed) => listed,
                // Below a directory something may go, whatever is listed in its place.
                Pair::Both(listed, there) if listed.content != there.content => {
                    let is_skipped = matches!(listed.content, Content::Skipped(_));
                    let is_directory = there.content == Content::Directory;
                    if is_skipped {
                        skipped = Some(listed.path.to_owned());
                    }
                    if is_directory && !is_skipped { there } else { listed }
                }
                Pair::Both(listed, _) => listed,
                Pair::Second(there) => {
                    let stays = skipped.as_deref().is_some_and(|above| is_below(there.path, above));
                    let leads_on = there.content == Content::Directory;
                    if stays || !leads_on && !goes(there.path) {
                        return Ok(());
                    }
                    there
                }
            };
            all.push(&entry).map_err(io::Error::other)?;
            Ok::<(), Adoption>(())
        });
        compared.map_err(|Adoption(error)| error)?;
        Ok(all)
    }
}

impl Source<'_> {
    fn next(&mut self) -> io::Result<Option<String>> {
        let (listing, filter) = match self {
            Source::Listing(listing, filter) => (listing, filter),
            Source::Paths(paths) => {
                let path = paths.next().map(|path| String::from_utf8(path.to_vec()));
                return path.transpose().map_err(io::Error::other);
            }
        };
        while let Some(entry) = listing.next_entry().map_err(io::Error::other)? {
            let is_skipped = matches!(entry.content, Content::Skipped(_));
            if filter.passes(&entry) && !is_skipped {
                return Ok(Some(entry.path.to_owned()));
            }
        }
        Ok(None)
    }
}
