//! Listings, written.

use std::cmp::Ordering;
use std::fmt;

use crate::entry::{Content, Entry};
use crate::number::{folded, put};
use crate::path::order;

/// Longest listing \[bytes\]: about eight million files.
pub const MAX_LISTING_LEN: usize = 256 << 20;

/// First bytes of every listing, with the version of its form.
pub(crate) const MAGIC: &[u8; 4] = b"wst1";

/// Numbers of the kinds of entries.
pub(crate) const DIRECTORY: u8 = 0;
pub(crate) const FILE: u8 = 1;
pub(crate) const FILE_WITH_DIGEST: u8 = 2;
pub(crate) const LINK: u8 = 3;
pub(crate) const SKIPPED: u8 = 4;
/// Added to the kind of an entry that has attributes.
pub(crate) const WITH_ATTRIBUTES: u8 = 0x80;

/// The manifest of a tree, as bytes.
///
/// An entry has its kind \[1 byte\], the number of bytes that its path shares with the one before, the
/// rest of the path, its mode, the time of its modification, and its size and digest, its target, or
/// the reason why it was skipped; then the owner and the extended attributes if they were asked for. Numbers have as many bytes as they need. A million files with
/// names of ten bytes take about 25 MB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    last: String,
    entries: u64,
}

/// A tree has more entries than a listing takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListingFull;

impl fmt::Display for ListingFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tree's listing has more than {} MiB", MAX_LISTING_LEN >> 20)
    }
}

impl std::error::Error for ListingFull {}

impl Default for Listing {
    fn default() -> Self {
        Listing { bytes: MAGIC.to_vec(), last: String::new(), entries: 0 }
    }
}

impl Listing {
    /// A listing without entries.
    pub fn new() -> Self {
        Listing::default()
    }

    /// Appends an entry, which comes behind all before it in the [order] of paths.
    ///
    /// # Errors
    /// There is no room.
    ///
    /// # Panics
    /// In debug builds: the entry is out of order.
    pub fn push(&mut self, entry: &Entry<'_>) -> Result<(), ListingFull> {
        let first = self.last.is_empty();
        debug_assert!(
            first || order(&self.last, entry.path) == Ordering::Less,
            "{} is before {}",
            self.last,
            entry.path
        );
        let mut shared = common(&self.last, entry.path);
        while !entry.path.is_char_boundary(shared) {
            shared -= 1;
        }
        let out = &mut self.bytes;
        let kind = match entry.content {
            Content::Directory => DIRECTORY,
            Content::File { digest: None, .. } => FILE,
            Content::File { digest: Some(_), .. } => FILE_WITH_DIGEST,
            Content::Link { .. } => LINK,
            Content::Skipped(_) => SKIPPED,
        };
        let has_attributes = !entry.attributes.keeps.is_nothing();
        out.push(if has_attributes { kind | WITH_ATTRIBUTES } else { kind });
        put(shared as u64, out);
        put_text(&entry.path[shared..], out);
        put(entry.mode.into(), out);
        put(folded(entry.modified.seconds), out);
        put(entry.modified.nanos.into(), out);
        match entry.content {
            Content::Directory => {}
            Content::File { size, digest } => {
                put(size, out);
                out.extend_from_slice(digest.as_ref().map_or(&[], |digest| &digest[..]));
            }
            Content::Link { target } => put_text(target, out),
            Content::Skipped(reason) => put((reason as u8).into(), out),
        }
        if has_attributes {
            entry.attributes.put(out);
        }
        if out.len() > MAX_LISTING_LEN {
            return Err(ListingFull);
        }
        self.last.truncate(shared);
        self.last.push_str(&entry.path[shared..]);
        self.entries += 1;
        Ok(())
    }

    /// The listing's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many entries there are.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The listing's bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn common(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    put(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}
