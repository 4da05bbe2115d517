//! Listed paths, from a listing or from a note of them.

use std::io;

use wellspring_tree::{Content, Cursor, order};

use super::filter::FilterWalk;

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
