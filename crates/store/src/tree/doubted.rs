//! Files that are served and may not be what they were to be: see [`unsynced`](super::unsynced).

use std::fs::File;
use std::os::fd::OwnedFd;

use wellspring_tree::{Content, Cursor, ListingError, Selection};

use super::TreeTarget;
use super::file::{PACKED, state};
use super::packs::wanted;

/// Of the files below a directory that a listing has, those that may have other bytes than they were given: the first,
/// and how many. `top` is the directory that is served.
///
/// # Errors
/// The listing is none.
pub fn in_doubt(
    root: OwnedFd,
    top: &OwnedFd,
    listing: &[u8],
) -> Result<Option<(String, u64)>, ListingError> {
    let (mut tree, mut cursor) = (TreeTarget::below(root, Some(top)), Cursor::new(listing)?);
    let mut found: Option<(String, u64)> = None;
    while let Some(entry) = cursor.next_entry()? {
        let Content::File { size, .. } = entry.content else { continue };
        if tree.may_be_torn(entry.path, size, entry.modified) {
            found.get_or_insert_with(|| (entry.path.to_owned(), 0)).1 += 1;
        }
    }
    Ok(found)
}

/// The same of files of a listing by their numbers: the first of them that is one of those. `cursor` stands at or before
/// them.
///
/// # Errors
/// The listing is none.
pub fn one_in_doubt(
    root: OwnedFd,
    top: &OwnedFd,
    cursor: Cursor<'_>,
    files: &Selection,
) -> Result<Option<String>, ListingError> {
    let mut tree = TreeTarget::below(root, Some(top));
    let mut files = wanted(cursor, files)?.into_iter();
    let found = files.find(|file| tree.may_be_torn(&file.path, file.size, file.meta.modified));
    Ok(found.map(|file| file.path))
}

/// Whether an open file, which has that path below a directory that is served, is one of those. `top`, that directory,
/// is asked for if it can be.
pub fn is_in_doubt(file: &File, path: &str, top: impl FnOnce() -> Option<OwnedFd>) -> bool {
    let Ok((size, modified)) = state(file) else { return false };
    if size >= PACKED {
        return false;
    }
    let Some((top, root)) = top().and_then(|top| Some((top.try_clone().ok()?, top))) else {
        return false;
    };
    TreeTarget::below(root, Some(&top)).may_be_torn(path, size, modified)
}
