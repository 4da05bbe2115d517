//! Note of a swap that is under way, for whoever comes after a process that was killed in it.
//!
//! It stands beside the trees and has the inode of the tree that takes the other's place, by which it is known whether
//! it has, and two lists of paths. The other's versions of those that were listed are of no more use; what the other was
//! given besides is brought over before it goes. What the new tree has besides, and somebody has removed or replaced by
//! then, is not: that is told by what it had.

use std::cmp::Ordering;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use wellspring_tree::{Cursor, order};

use super::listed::Listed;
use super::scan::{Scan, scan};

/// A note.
#[derive(Debug)]
pub(super) struct SwapNote {
    inode: u64,
    /// Paths that were listed, each followed by a zero.
    listed: Vec<u8>,
    /// Likewise, others that the tree had then, each behind its [identity] and a space.
    had: Vec<u8>,
}

impl SwapNote {
    /// Writes a note, where there is none: `next` is about to take another tree's place. It is on the disk then. What is
    /// listed is gone through twice.
    pub(super) fn write(at: &Path, next: &Path, listed: [Listed<'_>; 2]) -> io::Result<()> {
        // Who may not look into the directory may not read the names in it here.
        let file = File::options().write(true).create_new(true).mode(0o600).open(at)?;
        let mut file = BufWriter::new(file);
        write!(file, "{}\0", fs::metadata(next)?.ino())?;
        let [mut all, mut listed] = listed;
        while let Some(path) = all.take()? {
            file.write_all(path.as_bytes())?;
            file.write_all(b"\0")?;
        }
        file.write_all(b"\0")?;
        let there = scan(&OwnedFd::from(File::open(next)?), Scan::ALL).map_err(io::Error::other)?;
        let mut there = Cursor::new(there.as_bytes()).map_err(io::Error::other)?;
        while let Some(entry) = there.next_entry().map_err(io::Error::other)? {
            if !listed.has(entry.path)? {
                let found = identity(&fs::symlink_metadata(next.join(entry.path))?);
                write!(file, "{found} {}\0", entry.path)?;
            }
        }
        file.write_all(b"\0")?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }

    /// The note that is there, if it is whole.
    pub(super) fn read(at: &Path) -> io::Result<Option<SwapNote>> {
        match fs::read(at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            bytes => Ok(SwapNote::parse(&bytes?)),
        }
    }

    fn parse(bytes: &[u8]) -> Option<SwapNote> {
        let end = bytes.iter().position(|&byte| byte == 0)?;
        let inode = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
        let (listed, rest) = paths(&bytes[end + 1..])?;
        let (had, rest) = paths(rest)?;
        let (listed, had) = (listed.to_vec(), had.to_vec());
        rest.is_empty().then_some(SwapNote { inode, listed, had })
    }

    /// Whether the tree has taken the place of that name.
    pub(super) fn has_happened(&self, target: &Path) -> bool {
        fs::metadata(target).is_ok_and(|found| found.ino() == self.inode)
    }

    /// The paths that were listed.
    pub(super) fn listed(&self) -> io::Result<Listed<'_>> {
        Listed::of_paths(each(&self.listed))
    }

    /// Others that the tree had.
    pub(super) fn had(&self) -> Had<'_> {
        let mut paths: Box<dyn Iterator<Item = &[u8]>> = Box::new(each(&self.had));
        Had { next: paths.next(), paths }
    }
}

/// Paths that a tree had, asked for in their order.
pub(super) struct Had<'a> {
    paths: Box<dyn Iterator<Item = &'a [u8]> + 'a>,
    next: Option<&'a [u8]>,
}

impl Had<'_> {
    /// The [identity] of what the tree had under a path; paths are asked for in their order.
    pub(super) fn identity(&mut self, path: &str) -> io::Result<Option<&str>> {
        while let Some(next) = self.next {
            let next = std::str::from_utf8(next).map_err(io::Error::other)?;
            let (identity, had) = next.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
            match order(had, path) {
                Ordering::Less => self.next = self.paths.next(),
                Ordering::Equal => return Ok(Some(identity)),
                Ordering::Greater => break,
            }
        }
        Ok(None)
    }
}

/// What tells something from whatever else has had, or will have, its name: the inode, and, since that is given to another
/// one day, when it was made, where the file system says so.
pub(super) fn identity(meta: &Metadata) -> String {
    let made = meta.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    format!("{}-{}", meta.ino(), made.unwrap_or_default().as_nanos())
}

/// A list of paths, and what comes after the zero that ends it.
fn paths(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = 0;
    loop {
        match bytes[end..].iter().position(|&byte| byte == 0)? {
            0 => return Some((&bytes[..end], &bytes[end + 1..])),
            len => end += len + 1,
        }
    }
}

fn each(paths: &[u8]) -> impl Iterator<Item = &[u8]> {
    paths.split(|&byte| byte == 0).take_while(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{NextTree, TreeFilter};
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use wellspring_tree::Listing;

    /// A directory `t` with a tree beside that is to take its place, which has what it has, and lists `listed`.
    struct Place {
        home: tempfile::TempDir,
        next: NextTree,
        listing: Listing,
    }

    impl Place {
        fn new() -> Self {
            let home = tempfile::tempdir().expect("a directory");
            fs::create_dir(home.path().join("t")).expect("made");
            let mut place = Place { home, next: NextTree::default(), listing: Listing::new() };
            place.write("t/listed", "old");
            place.write("t/mine", "mine");
            place.next = NextTree::beside(&place.at("t")).expect("a tree beside");
            fs::remove_file(place.next.path().join("listed")).expect("removed");
            fs::write(place.next.path().join("listed"), "new").expect("written");
            let (content, attributes) = (
                wellspring_tree::Content::File { size: 3, digest: None },
                wellspring_tree::Attributes::default(),
            );
            let modified = wellspring_tree::Modified { seconds: 1, nanos: 0 };
            let entry = wellspring_tree::Entry {
                path: "listed",
                mode: 0o644,
                modified,
                content,
                attributes,
            };
            place.listing.push(&entry).expect("room");
            place
        }

        fn at(&self, path: &str) -> std::path::PathBuf {
            self.home.path().join(path)
        }

        fn write(&self, path: &str, bytes: &str) {
            fs::write(self.at(path), bytes).expect("written");
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.at(path)).unwrap_or_default()
        }

        fn note(&self) {
            let listing = || Cursor::new(self.listing.as_bytes()).expect("a listing");
            let listed = || Listed::new(listing(), TreeFilter::default().walk()).expect("valid");
            let (at, both) = (self.at(".t.wellspring-next-note"), [listed(), listed()]);
            SwapNote::write(&at, self.next.path(), both).expect("noted");
        }

        fn exchange(&self) {
            renameat_with(CWD, self.next.path(), CWD, self.at("t"), RenameFlags::EXCHANGE)
                .expect("exchanged");
        }

        fn left(&self) -> Vec<String> {
            let entries = fs::read_dir(self.home.path()).expect("a directory");
            let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
            let mut left: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
            left.sort();
            left
        }
    }

    #[test]
    fn what_came_before_a_kill_in_a_swap_is_brought_over_by_the_next_process() {
        for has_its_name in [false, true] {
            let place = Place::new();
            // Given to the directory after all that it had was adopted, and before the names were exchanged.
            place.write("t/late", "late");
            place.write("t/listed", "of no use");
            place.note();
            place.exchange();
            if has_its_name {
                let old = place.at(".t.wellspring-next-old");
                fs::rename(place.next.path(), old).expect("renamed");
            }
            if has_its_name {
                drop(NextTree::beside(&place.at("t")).expect("a tree beside"));
                assert_eq!(place.left(), [".t.wellspring-next", "t"]);
            } else {
                NextTree::discard(&place.at("t")).expect("discarded");
                assert_eq!(place.left(), ["t"]);
            }
            let read = ["t/late", "t/listed", "t/mine"].map(|path| place.read(path));
            assert_eq!(read, ["late", "new", "mine"]);
        }
    }

    /// Puts a file of long ago in a place, as `mv` and `rsync` do.
    fn move_old_file_to(at: &Path, bytes: &str) {
        let beside = at.with_extension("beside");
        fs::write(&beside, bytes).expect("written");
        let file = File::options().write(true).open(&beside).expect("open");
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
        fs::rename(&beside, at).expect("in place");
    }

    #[test]
    fn what_was_replaced_by_something_older_before_or_after_a_kill_in_a_swap_stays() {
        for is_before in [true, false] {
            let place = Place::new();
            place.write("t/link-to", "");
            std::os::unix::fs::symlink("mine", place.next.path().join("link")).expect("linked");
            std::os::unix::fs::symlink("listed", place.at("t/link")).expect("linked");
            if is_before {
                move_old_file_to(&place.at("t/mine"), "older");
            }
            place.note();
            place.exchange();
            if !is_before {
                move_old_file_to(&place.at("t/mine"), "older");
                fs::remove_file(place.at("t/link")).expect("removed");
                std::os::unix::fs::symlink("link-to", place.at("t/link")).expect("linked");
            }
            NextTree::discard(&place.at("t")).expect("discarded");
            assert_eq!(place.read("t/mine"), "older", "before: {is_before}");
            let leads_to = fs::read_link(place.at("t/link")).expect("a link");
            assert_eq!(leads_to, Path::new(if is_before { "listed" } else { "link-to" }));
        }
    }

    #[test]
    fn a_copy_of_what_was_there_is_not_replaced_by_it() {
        let place = Place::new();
        let copy = place.next.path().join("mine");
        fs::remove_file(&copy).expect("removed");
        fs::write(&copy, "mine").expect("written");
        let inode = fs::metadata(copy).expect("stat").ino();
        place.note();
        place.exchange();
        NextTree::discard(&place.at("t")).expect("discarded");
        assert_eq!(fs::metadata(place.at("t/mine")).expect("stat").ino(), inode);
    }

    #[test]
    fn what_was_removed_after_a_kill_in_a_swap_does_not_come_back() {
        let place = Place::new();
        place.write("t/late", "late");
        place.note();
        place.exchange();
        for path in ["t/mine", "t/listed"] {
            fs::remove_file(place.at(path)).expect("removed");
        }
        NextTree::discard(&place.at("t")).expect("discarded");
        assert_eq!(place.left(), ["t"]);
        assert!(!place.at("t/mine").exists() && !place.at("t/listed").exists());
        assert_eq!(place.read("t/late"), "late");
    }

    #[test]
    fn what_came_into_a_directory_that_was_removed_after_a_kill_is_not_lost() {
        let place = Place::new();
        for (tree, files) in
            [(place.at("t"), ["old", "late"].as_slice()), (place.next.path().to_owned(), &["old"])]
        {
            fs::create_dir(tree.join("d")).expect("made");
            files
                .iter()
                .for_each(|file| fs::write(tree.join("d").join(file), file).expect("written"));
        }
        place.note();
        place.exchange();
        fs::remove_dir_all(place.at("t/d")).expect("removed");
        NextTree::discard(&place.at("t")).expect("discarded");
        assert_eq!((place.read("t/d/late"), place.read("t/d/old")), ("late".into(), String::new()));
    }

    #[test]
    fn nothing_is_brought_over_through_a_link_that_leads_out() {
        let place = Place::new();
        fs::create_dir(place.at("t/d")).expect("made");
        place.write("t/d/late", "late");
        place.note();
        place.exchange();
        fs::create_dir(place.at("outside")).expect("made");
        std::os::unix::fs::symlink(place.at("outside"), place.at("t/d")).expect("linked");
        NextTree::discard(&place.at("t")).expect("discarded");
        assert_eq!(place.left(), ["outside", "t"]);
        assert!(!place.at("outside/late").exists());
    }

    #[test]
    fn a_swap_that_was_only_noted_is_none() {
        let place = Place::new();
        place.write("t/late", "late");
        place.note();
        drop(NextTree::beside(&place.at("t")).expect("a tree beside"));
        assert_eq!(place.left(), [".t.wellspring-next", "t"]);
        assert_eq!(["t/late", "t/listed"].map(|path| place.read(path)), ["late", "old"]);
        assert!(!place.at(".t.wellspring-next/late").exists());
    }

    #[test]
    fn a_note_that_is_cut_off_is_none() {
        let place = Place::new();
        place.note();
        let at = place.at(".t.wellspring-next-note");
        let whole = fs::read(&at).expect("read");
        assert!(SwapNote::read(&at).expect("read").is_some());
        for len in 0..whole.len() {
            fs::write(&at, &whole[..len]).expect("written");
            assert!(SwapNote::read(&at).expect("read").is_none(), "{len} bytes");
        }
    }

    #[test]
    fn who_has_put_what_in_a_served_directory_outlives_a_swap() {
        for keeps in [false, true] {
            let place = Place::new();
            place.write("t/.wellspring-quotas", "0 bytes");
            let filter = TreeFilter::default();
            let listing = Cursor::new(place.listing.as_bytes()).expect("a listing");
            place.next.swap(keeps.then_some((listing, &filter))).expect("swapped");
            assert_eq!(place.read("t/.wellspring-quotas"), "0 bytes");
            assert_eq!(
                (place.left(), place.read("t/listed")),
                (vec!["t".to_owned()], "new".into())
            );
        }
    }
}
