//! Leftovers of transfers that were cut off, in a directory whose place another tree is to take.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use wellspring_tree::MAX_DEPTH;

use super::swap::NextTree;
use crate::objects::{is_left_to_take_up, lock_left, name_of_next};

impl NextTree {
    /// Ends the swaps of directories in the other tree whose processes were killed in them: what is to be brought over
    /// would go with it.
    pub(super) fn end_inner_swaps(&self) -> io::Result<()> {
        let is_of_swap = |name: &str| {
            (name.ends_with("-old") || name.ends_with("-note")) && name_of_next(name).is_some()
        };
        for (path, name) in found_in(&self.target, &is_of_swap) {
            let Some(of) = name_of_next(&name) else { continue };
            let tree = NextTree::named_beside(&path.with_file_name(of))?;
            let _one = tree.alone()?;
            tree.end_swap()?;
        }
        Ok(())
    }

    /// Moves the part files here that the other tree has, that can be taken up, and that nobody writes: a further name
    /// would keep them from that. What cannot be moved stays where it is.
    pub(super) fn take_parts(&self) {
        for (path, name) in found_in(&self.target, &is_left_to_take_up) {
            let to = path.strip_prefix(&self.target).map(|path| self.next.join(path));
            let (Ok(to), Some(parent)) = (to, path.parent()) else { continue };
            if fs::symlink_metadata(&to).is_ok() {
                continue;
            }
            // A tree that takes the place of another keeps the times of its directories.
            let folder = to.parent().and_then(|folder| File::open(folder).ok());
            let modified =
                folder.as_ref().and_then(|folder| folder.metadata().ok()?.modified().ok());
            let Ok(parent) = File::open(parent) else { continue };
            if let Some(_lock) = lock_left(&parent.into(), &name)
                && fs::rename(&path, &to).is_ok()
                && let Some((folder, modified)) = folder.zip(modified)
            {
                let _ = folder.set_modified(modified);
            }
        }
    }
}

/// What is in a directory and below it and has such a name; not in trees that are to take the place of others, and through
/// no link.
fn found_in(directory: &Path, is_one: &dyn Fn(&str) -> bool) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    look(directory, MAX_DEPTH, is_one, &mut found);
    found
}

fn look(
    directory: &Path,
    depth: usize,
    is_one: &dyn Fn(&str) -> bool,
    found: &mut Vec<(PathBuf, String)>,
) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if is_one(&name) {
            found.push((entry.path(), name));
        } else if depth > 0
            && name_of_next(&name).is_none()
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
        {
            look(&entry.path(), depth - 1, is_one, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{SystemDisk, claim};

    #[test]
    fn part_files_that_can_be_taken_up_go_with_the_tree_that_is_to_have_the_place() {
        let home = tempfile::tempdir().expect("a directory");
        let target = home.path().join("t");
        fs::create_dir_all(target.join("d")).expect("made");
        let name = |number: u128| format!("d/.x.wellspring-{number:032x}.kept.part");
        for number in [1, 2] {
            fs::write(target.join(name(number)), "part").expect("written");
        }
        let used = File::open(target.join(name(2))).expect("open");
        assert!(claim(&SystemDisk, &used));
        let next = NextTree::beside(&target).expect("a tree");
        let at = |tree: &Path| [1, 2].map(|number| tree.join(name(number)).exists());
        assert_eq!((at(&target), at(next.path())), ([false, true], [true, false]));
        // One that was taken up is given what was left since.
        drop(used);
        NextTree::beside(&target).expect("a tree").swap(None).expect("swapped");
        assert_eq!(at(&target), [true, true]);
    }
}
