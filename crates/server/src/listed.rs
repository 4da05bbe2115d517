//! Listings whose files can be asked for, or put.

use std::sync::Arc;

use crate::store::Digest;
use crate::store::tree::listing::{Cursor, Place};
use crate::store::tree::{PackError, TreeListing};

/// Places in a listing where packs begin to read it, in files.
const STRIDE: u32 = 4_096;

/// A listing whose files can be asked for.
pub(super) struct Listed {
    directory: String,
    digest: Digest,
    bytes: Arc<Vec<u8>>,
    /// Where the reading can begin, ascending.
    places: Vec<Place>,
}

impl Listed {
    pub(super) fn new(
        directory: &str,
        digest: Digest,
        bytes: Vec<u8>,
    ) -> Result<Listed, PackError> {
        let mut cursor = Cursor::new(&bytes)?;
        let mut places = vec![cursor.place(&bytes)];
        while cursor.next_entry()?.is_some() {
            let last = places.last().map_or(0, Place::files);
            if cursor.files() >= last + STRIDE {
                places.push(cursor.place(&bytes));
            }
        }
        let (directory, bytes) = (directory.to_owned(), Arc::new(bytes));
        Ok(Listed { directory, digest, bytes, places })
    }

    /// Whether it is the same listing of the same directory.
    pub(super) fn is_same(&self, other: &Listed) -> bool {
        self.digest == other.digest && self.directory == other.directory
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// Its length \[bytes\].
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn directory(&self) -> &str {
        &self.directory
    }

    pub(super) fn whole(&self) -> TreeListing {
        TreeListing { bytes: Arc::clone(&self.bytes), digest: self.digest }
    }

    /// A cursor that stands at or before that file.
    pub(super) fn before(&self, file: u32) -> Cursor<'_> {
        let at = self.places.partition_point(|place| place.files() <= file).saturating_sub(1);
        Cursor::resume(&self.bytes, &self.places[at])
    }
}
