//! Note of a swap that is under way, for whoever comes after a process that was killed in it.
//!
//! It stands beside the trees and has the inode of the tree that takes the other's place, by which it is known whether
//! it has, and the paths that were listed in it: the other's versions of these are of no more use, and what the other
//! was given besides is brought over before it goes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::listed::Listed;

/// A note.
#[derive(Debug)]
pub(super) struct SwapNote {
    inode: u64,
    /// Listed paths, each followed by a zero, and one more zero.
    paths: Vec<u8>,
}

impl SwapNote {
    /// Writes a note, where there is none: `next` is about to take another tree's place. It is on the disk then.
    pub(super) fn write(at: &Path, next: &Path, mut listed: Listed<'_>) -> io::Result<()> {
        // Who may not look into the directory may not read the names in it here.
        let file = File::options().write(true).create_new(true).mode(0o600).open(at)?;
        let mut file = BufWriter::new(file);
        write!(file, "{}\0", fs::metadata(next)?.ino())?;
        while let Some(path) = listed.take()? {
            file.write_all(path.as_bytes())?;
            file.write_all(b"\0")?;
        }
        file.write_all(b"\0")?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }

    /// The note that is there, if it is whole.
    pub(super) fn read(at: &Path) -> io::Result<Option<SwapNote>> {
        let bytes = match fs::read(at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        let whole = bytes.ends_with(b"\0\0");
        let inode = bytes.split(|&byte| byte == 0).next().filter(|_| whole);
        let inode = inode.and_then(|inode| std::str::from_utf8(inode).ok()?.parse().ok());
        Ok(inode.map(|inode| {
            let after = bytes.iter().position(|&byte| byte == 0).unwrap_or_default() + 1;
            SwapNote { inode, paths: bytes[after..].to_vec() }
        }))
    }

    /// Whether the tree has taken the place of that name.
    pub(super) fn has_happened(&self, target: &Path) -> bool {
        fs::metadata(target).is_ok_and(|found| found.ino() == self.inode)
    }

    /// The paths that were listed.
    pub(super) fn listed(&self) -> io::Result<Listed<'_>> {
        let paths = self.paths.split(|&byte| byte == 0).take_while(|path| !path.is_empty());
        Listed::of_paths(paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{NextTree, TreeFilter};
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use wellspring_tree::{Cursor, Listing};

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
            let listing = Cursor::new(self.listing.as_bytes()).expect("a listing");
            let listed = Listed::new(listing, TreeFilter::default().walk()).expect("valid");
            SwapNote::write(&self.at(".t.wellspring-next-note"), self.next.path(), listed)
                .expect("noted");
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
