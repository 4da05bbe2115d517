//! Obstacles to a tree in a directory, found before anything is made.

use std::collections::BTreeSet;
use std::io;

use rustix::fs::FileType;
use wellspring_tree::{Content, Cursor, Entry, Listing, Pair, compare};

use super::filter::TreeFilter;
use super::plan_options::{PlanError, PlanOptions, TreeListing};
use super::{Scan, TreeTarget, scan};

/// Looks for two names of the tree that the file system, if it `folds` them, takes for one, and for directories that are in
/// the way of something else and stay.
pub(super) fn check(
    options: &PlanOptions,
    listing: &TreeListing,
    (target, folds): (&mut TreeTarget, bool),
    local: &Listing,
) -> Result<(), PlanError> {
    let mut seen = folds.then(BTreeSet::new);
    let mut filter = options.filter.walk();
    compare(Cursor::new(&listing.bytes)?, Cursor::new(local.as_bytes())?, |pair, _| {
        let (Pair::First(entry) | Pair::Second(entry) | Pair::Both(entry, _)) = pair;
        let passes = filter.passes(&entry);
        let (there, here) = match pair {
            Pair::First(there) => (there, None),
            Pair::Both(there, here) => (there, Some(here)),
            Pair::Second(_) => return Ok(()),
        };
        if !passes || !is_moved(options, &there) {
            return Ok(());
        }
        if seen.as_mut().is_some_and(|seen| !seen.insert(folded(there.path))) {
            return Err(PlanError::Case(there.path.to_owned()));
        }
        let is_directory = |entry: Entry<'_>| entry.content == Content::Directory;
        if here.is_some_and(is_directory) && !is_directory(there) {
            let stays = stays(options, target, there.path);
            if stays.map_err(|error| PlanError::Place(there.path.to_owned(), error))? {
                return Err(PlanError::InTheWay(there.path.to_owned()));
            }
        }
        Ok(())
    })
}

fn is_moved(options: &PlanOptions, there: &Entry<'_>) -> bool {
    match there.content {
        Content::Skipped(_) => false,
        Content::Link { .. } => options.deep,
        Content::Directory | Content::File { .. } => true,
    }
}

/// Whether a directory that is in the way is not removed.
fn stays(options: &PlanOptions, target: &mut TreeTarget, path: &str) -> io::Result<bool> {
    match options.delete {
        true => leaves_out(target, path, &options.filter),
        false => target.has_besides(path, |_| false),
    }
}

/// Whether a filter leaves out a directory, or something in it.
pub(super) fn leaves_out(
    target: &mut TreeTarget,
    path: &str,
    filter: &TreeFilter,
) -> io::Result<bool> {
    if filter.is_everything() {
        return Ok(false);
    }
    if !filter.belongs(path, true) {
        return Ok(true);
    }
    let inside = |name: &str| format!("{path}/{name}");
    let directory = target.directory_of(&inside("any"))?;
    let listing = scan(directory.as_ref(), Scan::ALL).map_err(io::Error::other)?;
    let mut cursor = Cursor::new(listing.as_bytes()).map_err(io::Error::other)?;
    while let Some(entry) = cursor.next_entry().map_err(io::Error::other)? {
        if !filter.belongs(&inside(entry.path), entry.content == Content::Directory) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A path without case, as file systems compare that do not tell cases apart.
pub fn folded(path: &str) -> String {
    path.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Whether a directory takes names that differ in case alone for the same, as far as what is in it tells: nothing is
/// written.
pub(super) fn seems_to_fold(target: &mut TreeTarget, local: &Listing) -> bool {
    let Ok(mut cursor) = Cursor::new(local.as_bytes()) else { return false };
    while let Ok(Some(entry)) = cursor.next_entry() {
        let (upper, lower) = (entry.path.to_uppercase(), entry.path.to_lowercase());
        let other = if upper == entry.path { lower } else { upper };
        if entry.path.contains('/') || other == entry.path {
            continue;
        }
        let Some(one) = target.stat(entry.path) else { continue };
        let is_directory = FileType::from_raw_mode(one.st_mode) == FileType::Directory;
        if is_directory || one.st_nlink == 1 {
            let same =
                |other: rustix::fs::Stat| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
            return target.stat(&other).is_some_and(same);
        }
    }
    false
}
