//! Removal of trees that were to take the place of others, and that nobody writes any more.

use std::io;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use super::file::path_of;
use super::swap::NextTree;
use crate::objects::{Cleaned, name_of_next, visit_below};

/// Removes such trees in a directory and all below it, as [`NextTree::discard`] does; symbolic links are not followed.
/// What cannot be looked at or removed stays.
///
/// # Errors
/// The directory cannot be opened.
pub fn clean_trees(directory: &Path) -> io::Result<Cleaned> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root = rustix::fs::open(directory, flags, Mode::empty())?;
    let mut cleaned = Cleaned::default();
    let is_cut = visit_below(&root, &mut |parent, name, kind| {
        if kind == FileType::Directory
            && let Some(of) = name_of_next(name)
            && let Ok(parent) = path_of(parent)
            && let Ok(Some(bytes)) = NextTree::discard(&parent.join(of))
        {
            cleaned.removed += 1;
            cleaned.bytes += bytes;
        }
    });
    cleaned.is_cut = is_cut;
    Ok(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_that_somebody_writes_stay_and_so_does_what_took_their_place() {
        let home = tempfile::tempdir().expect("a directory");
        let at = |path: &str| home.path().join(path);
        let make = |path: &str| {
            std::fs::create_dir_all(at(path)).expect("made");
            std::fs::write(at(path).join("f"), [1; 5_000]).expect("written");
        };
        for path in
            ["a/t", "a/u", "a/v", "a/.v.wellspring-next-unready", "a/.v.wellspring-next-old"]
        {
            make(path);
        }
        // Only its old tree has no name: whoever swapped it was killed between two steps.
        make("a/.w.wellspring-next-old");
        make("a/.x.wellspring-nextly");
        let (left, claimed) = (NextTree::beside(&at("a/t")), NextTree::claim(&at("a/u")));
        let (left, _claimed) = (left.expect("a tree"), claimed.expect("a tree"));
        std::fs::write(left.path().join("new"), [2; 5_000]).expect("written");
        let shared = left.share().expect("nobody else has it");
        assert_eq!(
            NextTree::claim(&at("a/t")).expect_err("shared").kind(),
            io::ErrorKind::ResourceBusy
        );
        let cleaned = clean_trees(home.path()).expect("a directory");
        // Both of `v`, which are one, and the links of `t` and `u` stay.
        assert_eq!((cleaned.removed, cleaned.bytes >= 10_000), (1, true), "{cleaned:?}");
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(at("a"))
                .expect("a directory")
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
                .collect();
            names.sort();
            names
        };
        let stay = [
            ".t.wellspring-next",
            ".u.wellspring-next",
            ".x.wellspring-nextly",
            "t",
            "u",
            "v",
            "w",
        ];
        assert_eq!(names(), stay);
        drop(shared);
        let cleaned = clean_trees(home.path()).expect("a directory");
        assert_eq!(
            (cleaned.removed, (5_000..16_000).contains(&cleaned.bytes)),
            (1, true),
            "{cleaned:?}"
        );
        assert_eq!(names(), [&stay[1..]].concat());
        assert_eq!(std::fs::read(at("a/t/f")).expect("read"), [1; 5_000]);
    }
}
