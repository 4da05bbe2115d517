//! A tree that is put, as it lies here.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::error::TreeError;
use super::super::put_report::PutTreeOptions;
use crate::manifest::hash_sections;
use crate::put::OpenedFile;
use crate::store::tree::listing::{Content, Cursor, Listing, SkipReason};
use crate::store::tree::{
    LinksOut, Pack, PlanError, Scan, ScanError, TreeListing, open_listed, path_of, read_pack,
    scan_named, unnamed_file,
};
use crate::store::{Fingerprint, HashProgress};

/// Skipped paths that are kept for the report.
const SKIPPED_KEPT: usize = 100;

/// A directory that was walked.
pub(super) struct Source {
    root: OwnedFd,
    links_out: LinksOut,
    pub listing: TreeListing,
    pub files: u32,
    pub bytes: u64,
    pub skipped: Vec<(String, SkipReason)>,
    pub skipped_count: u64,
}

impl Source {
    /// A function that walks a directory, which blocks its thread.
    pub(super) fn walk(
        directory: PathBuf,
        options: PutTreeOptions,
    ) -> impl FnOnce() -> Result<Source, TreeError> + Send + 'static {
        move || {
            let here = |error| PlanError::Place(String::new(), error);
            let open = || {
                let root = File::open(&directory).map_err(here)?;
                match root.metadata().map_err(here)?.is_dir() {
                    true => Ok(OwnedFd::from(root)),
                    false => Err(TreeError::from(here(io::ErrorKind::NotADirectory.into()))),
                }
            };
            let (digests, keeps) = (options.tree.checksum, options.tree.keeps);
            let links_out = options.links_out;
            let how = Scan { hidden: true, deep: true, digests, keeps, links_out };
            let (root, walked) = scan_named(open, how)?;
            Source::of(root, &walked, &options)
        }
    }

    fn of(root: OwnedFd, walked: &Listing, options: &PutTreeOptions) -> Result<Source, TreeError> {
        let mut filter = options.tree.filter.walk();
        let mut listing = Listing::new();
        let (mut files, mut bytes, mut skipped, mut skipped_count) = (0, 0_u64, Vec::new(), 0);
        let mut cursor = Cursor::new(walked.as_bytes())?;
        while let Some(entry) = cursor.next_entry()? {
            if !filter.passes(&entry) {
                continue;
            }
            match entry.content {
                Content::File { size, .. } => {
                    files += 1;
                    bytes = bytes.saturating_add(size);
                }
                // Listed in any case: hosts leave alone what they have there.
                Content::Skipped(reason) if options.tree.filter.may_want(entry.path, reason) => {
                    skipped_count += 1;
                    if skipped.len() < SKIPPED_KEPT {
                        skipped.push((entry.path.to_owned(), reason));
                    }
                }
                _ => {}
            }
            listing.push(&entry).map_err(ScanError::from)?;
        }
        let bytes_of = Arc::new(listing.into_bytes());
        let digest = crate::store::Digest(*blake3::hash(&bytes_of).as_bytes());
        let listing = TreeListing { bytes: bytes_of, digest };
        let links_out = options.links_out;
        Ok(Source { root, links_out, listing, files, bytes, skipped, skipped_count })
    }

    /// Whether something that is no directory has that path, listed or not.
    pub(super) fn has_leaf(&self, path: &str) -> bool {
        let found = path_of(&self.root).and_then(|root| root.join(path).symlink_metadata());
        found.is_ok_and(|found| !found.is_dir())
    }

    /// The first half of the listing's digest.
    pub(super) fn id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id.copy_from_slice(&self.listing.digest.0[..16]);
        id
    }

    /// Reads the files of a pack into a nameless file, or opens the one file that it is.
    pub(super) fn open(&self, pack: &Pack) -> Result<Opened, TreeError> {
        let cursor = Cursor::resume(&self.listing.bytes, &pack.place);
        if pack.files.count() == 1 {
            let number = pack.files.runs()[0].start;
            let (file, fingerprint) = open_listed(&self.root, cursor, number, self.links_out)?;
            return Ok(Opened::File(file, fingerprint));
        }
        Ok(Opened::Bytes(of_bytes(&read_pack(&self.root, cursor, &pack.files, self.links_out)?)?))
    }
}

/// What is to be sent.
pub(super) enum Opened {
    /// A file, whose digest may be known.
    File(File, Fingerprint),
    /// Bytes in a file without a name.
    Bytes(OpenedFile),
}

/// Bytes as a file without a name.
pub(super) fn of_bytes(bytes: &[u8]) -> Result<OpenedFile, TreeError> {
    let kept = || -> io::Result<OpenedFile> {
        let (file, fingerprint) = unnamed_file(bytes)?;
        let (digest, sections) =
            hash_sections(&file, bytes.len() as u64, &HashProgress::default())?;
        Ok(OpenedFile { file, fingerprint, digest, sections: Some(sections) })
    };
    kept().map_err(|error| PlanError::Place("a temporary file".to_owned(), error).into())
}
