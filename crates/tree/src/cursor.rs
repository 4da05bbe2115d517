//! Listings, read and checked.

use std::cmp::Ordering;
use std::fmt;

use crate::attributes::Attributes;
use crate::builder::{DIRECTORY, FILE, FILE_WITH_DIGEST, LINK, MAGIC, SKIPPED, WITH_ATTRIBUTES};
use crate::entry::{Content, Entry, Modified, SkipReason};
use crate::number::{take, unfolded};
use crate::path::{PathError, check_link, check_path, order};

/// Why bytes are no listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ListingError {
    /// They do not begin as a listing does, or are of another version.
    NoListing,
    /// They end within an entry, or an entry has a value that it cannot have.
    Malformed,
    /// An entry has a path or a target that has no place in a tree.
    Path(PathError),
    /// A path occurs twice, or out of order.
    Order,
    /// An entry stands in a directory that is not listed.
    NoParent,
}

impl fmt::Display for ListingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListingError::NoListing => f.write_str("no listing of a tree"),
            ListingError::Malformed => f.write_str("a malformed listing of a tree"),
            ListingError::Path(error) => write!(f, "a listing with {error}"),
            ListingError::Order => f.write_str("a listing with a path twice or out of order"),
            ListingError::NoParent => f.write_str("a listing with an entry without its directory"),
        }
    }
}

impl std::error::Error for ListingError {}

impl From<PathError> for ListingError {
    fn from(error: PathError) -> Self {
        ListingError::Path(error)
    }
}

/// Reads the entries of a listing one after the other, and checks each.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    path: String,
    /// Lengths of the beginnings of `path` that are directories, ascending.
    directories: Vec<usize>,
    files: u32,
    begun: bool,
}

/// Where a [`Cursor`] stands in a listing.
#[derive(Clone, Debug)]
pub struct Place {
    offset: usize,
    path: String,
    directories: Vec<usize>,
    files: u32,
    begun: bool,
}

impl Place {
    /// How many regular files are before it: the number of the next one, counted from 0.
    pub fn files(&self) -> u32 {
        self.files
    }
}

impl<'a> Cursor<'a> {
    /// Where it stands in `listing`, which it reads.
    pub fn place(&self, listing: &[u8]) -> Place {
        let offset = listing.len() - self.rest.len();
        let (path, directories) = (self.path.clone(), self.directories.clone());
        Place { offset, path, directories, files: self.files, begun: self.begun }
    }

    /// Goes on from a place in the same listing.
    pub fn resume(listing: &'a [u8], place: &Place) -> Self {
        let (path, directories) = (place.path.clone(), place.directories.clone());
        let rest = listing.get(place.offset..).unwrap_or_default();
        Cursor { rest, path, directories, files: place.files, begun: place.begun }
    }

    /// Begins to read a listing.
    ///
    /// # Errors
    /// [`ListingError::NoListing`].
    pub fn new(listing: &'a [u8]) -> Result<Self, ListingError> {
        let rest = listing.strip_prefix(MAGIC).ok_or(ListingError::NoListing)?;
        Ok(Cursor { rest, path: String::new(), directories: Vec::new(), files: 0, begun: false })
    }

    /// How many regular files were read: the number of the next one, counted from 0.
    pub fn files(&self) -> u32 {
        self.files
    }

    /// The next entry; `None` behind the last.
    ///
    /// # Errors
    /// Why the bytes are no listing of a tree. Nothing is to be read behind an error.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, ListingError> {
        let Some((&first, rest)) = self.rest.split_first() else { return Ok(None) };
        let kind = first & !WITH_ATTRIBUTES;
        self.rest = rest;
        self.read_path(kind == SKIPPED)?;
        let mode = self.number()?;
        let mode = u16::try_from(mode).ok().filter(|mode| *mode <= 0o777);
        let mode = mode.ok_or(ListingError::Malformed)?;
        let seconds = unfolded(self.number()?);
        let nanos = u32::try_from(self.number()?).ok().filter(|nanos| *nanos < 1_000_000_000);
        let modified = Modified { seconds, nanos: nanos.ok_or(ListingError::Malformed)? };
        let content = match kind {
            DIRECTORY => {
                self.directories.push(self.path.len());
                Content::Directory
            }
            FILE | FILE_WITH_DIGEST => {
                let size = self.number()?;
                let digest = match kind {
                    FILE => None,
                    _ => {
                        let (digest, rest) =
                            self.rest.split_first_chunk().ok_or(ListingError::Malformed)?;
                        self.rest = rest;
                        Some(*digest)
                    }
                };
                self.files = self.files.checked_add(1).ok_or(ListingError::Malformed)?;
                Content::File { size, digest }
            }
            LINK => {
                let target = self.text()?;
                check_link(&self.path, target)?;
                Content::Link { target }
            }
            SKIPPED => {
                let reason = SkipReason::from_number(self.number()?);
                Content::Skipped(reason.ok_or(ListingError::Malformed)?)
            }
            _ => return Err(ListingError::Malformed),
        };
        let attributes = match first & WITH_ATTRIBUTES {
            0 => Attributes::default(),
            _ => Attributes::take(&mut self.rest).ok_or(ListingError::Malformed)?,
        };
        Ok(Some(Entry { path: &self.path, mode, modified, content, attributes }))
    }

    /// Reads the next path over the one before.
    fn read_path(&mut self, skipped: bool) -> Result<(), ListingError> {
        let shared = usize::try_from(self.number()?).map_err(|_| ListingError::Malformed)?;
        if shared > self.path.len() || !self.path.is_char_boundary(shared) {
            return Err(ListingError::Malformed);
        }
        let tail = self.text()?;
        // What follows the shared beginning decides the order, and must say more than before.
        if self.begun && order(&self.path[shared..], tail) != Ordering::Less {
            return Err(ListingError::Order);
        }
        self.begun = true;
        // The tail may repeat what could have been shared.
        let same = |(a, b): &(u8, u8)| a == b;
        let common =
            shared + self.path[shared..].bytes().zip(tail.bytes()).take_while(same).count();
        while let Some(&len) = self.directories.last() {
            // Below it are paths that have all of it, and a slash behind.
            if common > len || common == len && tail.as_bytes().get(len - shared) == Some(&b'/') {
                break;
            }
            self.directories.pop();
        }
        self.path.truncate(shared);
        self.path.push_str(tail);
        match check_path(&self.path) {
            // The names of what is left out are why it is left out.
            Err(PathError::TooLong | PathError::TooDeep) if skipped => {}
            other => other?,
        }
        let parent = self.path.rfind('/');
        if parent != self.directories.last().copied() {
            return Err(ListingError::NoParent);
        }
        Ok(())
    }

    fn number(&mut self) -> Result<u64, ListingError> {
        take(&mut self.rest).ok_or(ListingError::Malformed)
    }

    fn text(&mut self) -> Result<&'a str, ListingError> {
        let len = usize::try_from(self.number()?).map_err(|_| ListingError::Malformed)?;
        let (text, rest) = self.rest.split_at_checked(len).ok_or(ListingError::Malformed)?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| ListingError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Listing;
    use crate::attributes::{Keeps, Owner, Xattrs};
    use proptest::prelude::*;

    fn file(path: &str) -> Entry<'_> {
        let content = Content::File { size: 5, digest: None };
        let attributes = Attributes::default();
        Entry { path, mode: 0o644, modified: Modified::default(), content, attributes }
    }

    fn directory(path: &str) -> Entry<'_> {
        Entry { content: Content::Directory, mode: 0o755, ..file(path) }
    }

    fn link<'a>(path: &'a str, target: &'a str) -> Entry<'a> {
        Entry { content: Content::Link { target }, mode: 0o777, ..file(path) }
    }

    fn attributes(xattrs: &[u8]) -> Attributes<'_> {
        let keeps = Keeps { owner: true, xattrs: true, acls: false };
        let xattrs = Xattrs::parse(xattrs, keeps).expect("attributes");
        Attributes { keeps, owner: Owner { user: 1_000, group: 0 }, xattrs }
    }

    /// Entries of a listing as they are shown.
    fn read(listing: &[u8]) -> Result<Vec<String>, ListingError> {
        let mut cursor = Cursor::new(listing)?;
        let mut entries = Vec::new();
        while let Some(entry) = cursor.next_entry()? {
            entries.push(format!("{entry:?}"));
        }
        Ok(entries)
    }

    /// A listing whose paths need not be in order.
    fn raw(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for entry in entries {
            let mut one = Listing::new();
            one.push(entry).expect("room");
            bytes.extend_from_slice(&one.as_bytes()[MAGIC.len()..]);
        }
        bytes
    }

    #[test]
    fn a_listing_comes_back_as_it_was_written() {
        let modified = Modified { seconds: -3, nanos: 999_999_999 };
        let mut xattrs = [(b"user.k".to_vec(), b"v".to_vec())];
        let xattrs = Xattrs::to_bytes(&mut xattrs).expect("few");
        let entries = [
            directory("a"),
            Entry { modified, mode: 0, ..directory("a/b") },
            Entry {
                content: Content::File { size: u64::MAX, digest: Some([7; 32]) },
                ..file("a/b/c")
            },
            link("a/b/d", "../../z"),
            Entry { content: Content::Skipped(SkipReason::Special), ..file("a/b/e") },
            Entry { attributes: attributes(&xattrs), ..file("a/bc") },
            file("a.b"),
            file("z"),
        ];
        let mut listing = Listing::new();
        entries.iter().for_each(|entry| listing.push(entry).expect("room"));
        let shown: Vec<_> = entries.iter().map(|entry| format!("{entry:?}")).collect();
        assert_eq!(read(listing.as_bytes()), Ok(shown));
        assert_eq!(listing.entries(), 8);
    }

    #[test]
    fn hostile_listings_are_refused() {
        let bad_path = |path| raw(&[file(path)]);
        for (listing, error) in [
            (b"wst2".to_vec(), ListingError::NoListing),
            (bad_path("../x"), ListingError::Path(PathError::Dots)),
            (bad_path("/etc/passwd"), ListingError::Path(PathError::EmptyComponent)),
            (bad_path("a/b"), ListingError::NoParent),
            (raw(&[file("a"), file("a/b")]), ListingError::NoParent),
            (raw(&[link("a", "b"), file("a/b")]), ListingError::NoParent),
            (raw(&[directory("a"), file("ab/c")]), ListingError::NoParent),
            (raw(&[directory("a"), file("b"), file("a/c")]), ListingError::Order),
            (raw(&[file("a"), file("a")]), ListingError::Order),
            (raw(&[directory("a"), link("a", "b")]), ListingError::Order),
            (raw(&[link("a", "../b")]), ListingError::Path(PathError::LeadsOut)),
            (raw(&[link("a", "/b")]), ListingError::Path(PathError::LeadsOut)),
        ] {
            assert_eq!(read(&listing), Err(error), "{listing:?}");
        }
    }

    #[test]
    fn a_listing_that_is_cut_is_refused_or_shorter() {
        let mut listing = Listing::new();
        for entry in [directory("a"), file("a/b"), link("a/c", "b"), file("d")] {
            listing.push(&entry).expect("room");
        }
        let whole = read(listing.as_bytes()).expect("a listing");
        let mut cursor = Cursor::new(listing.as_bytes()).expect("a listing");
        for expected in &whole {
            let place = cursor.place(listing.as_bytes());
            let mut other = Cursor::resume(listing.as_bytes(), &place);
            let entry = format!("{:?}", other.next_entry().expect("valid").expect("an entry"));
            assert_eq!(&entry, expected);
            cursor.next_entry().expect("valid");
        }
        for len in 0..listing.as_bytes().len() {
            if let Ok(part) = read(&listing.as_bytes()[..len]) {
                assert!(part.len() < whole.len() && whole.starts_with(&part), "{len}");
            }
        }
    }

    /// What holds of every listing that is accepted.
    fn check_accepted(bytes: &[u8]) {
        let Ok(mut cursor) = Cursor::new(bytes) else { return };
        let mut directories = std::collections::BTreeSet::new();
        let mut seen = std::collections::BTreeSet::new();
        while let Ok(Some(entry)) = cursor.next_entry() {
            assert!(seen.insert(entry.path.to_owned()), "{} twice", entry.path);
            if let Some((parent, _)) = entry.path.rsplit_once('/') {
                assert!(directories.contains(parent), "{} stands nowhere", entry.path);
            }
            let path = std::path::Path::new(entry.path);
            let normal = |c| matches!(c, std::path::Component::Normal(_));
            assert!(path.components().all(normal), "{}", entry.path);
            if entry.content == Content::Directory {
                directories.insert(entry.path.to_owned());
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_stays_in_its_tree(
            entries in prop::collection::vec(
                ("[ab./]{1,6}", 0..4_u8, "[ab./]{1,6}", 0..7_usize, any::<bool>()), 0..12,
            ),
            change in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut bytes = MAGIC.to_vec();
            let mut before = String::new();
            for (path, kind, target, shared, attributed) in &entries {
                let with = if *attributed { WITH_ATTRIBUTES } else { 0 };
                bytes.push([DIRECTORY, FILE, LINK, SKIPPED][usize::from(*kind)] | with);
                let shared = (*shared).min(before.len());
                crate::number::put(shared as u64, &mut bytes);
                crate::number::put(path.len() as u64, &mut bytes);
                bytes.extend_from_slice(path.as_bytes());
                bytes.extend_from_slice(&[0o7, 0, 0]);
                match kind {
                    0 => {}
                    1 => bytes.push(9),
                    2 => {
                        bytes.push(target.len() as u8);
                        bytes.extend_from_slice(target.as_bytes());
                    }
                    _ => bytes.push(1),
                }
                if *attributed {
                    // An owner, and an attribute of one byte.
                    bytes.extend_from_slice(b"\x03\x00\x00\x09\x06user.a\x01v");
                }
                before.truncate(shared);
                before.push_str(path);
            }
            check_accepted(&bytes);
            if let Some((at, byte)) = change {
                let at = at.index(bytes.len());
                bytes[at] = byte;
                check_accepted(&bytes);
            }
        }
    }
}
