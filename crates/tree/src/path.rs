//! Rules for the paths and link targets of a tree.

use std::cmp::Ordering;
use std::fmt;

/// Longest path in a tree \[bytes\].
pub const MAX_PATH_LEN: usize = 1_000;
/// Longest component of a path \[bytes\]: what file systems hold.
pub const MAX_COMPONENT_LEN: usize = 255;
/// Most components of a path.
pub const MAX_DEPTH: usize = 32;
/// Longest target of a symbolic link \[bytes\].
const MAX_TARGET_LEN: usize = 1_000;

/// Why a path or the target of a link has no place in a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum PathError {
    /// It is empty, begins or ends with `/`, or holds `//`.
    EmptyComponent,
    /// It has a component `.` or `..`.
    Dots,
    /// It has a backslash or a control character.
    BadCharacter,
    /// It, or one of its components, is too long.
    TooLong,
    /// It has too many components.
    TooDeep,
    /// The link leads out of the tree.
    LeadsOut,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathError::EmptyComponent => "a path with an empty component",
            PathError::Dots => "a path with a component `.` or `..`",
            PathError::BadCharacter => "a path with a backslash or a control character",
            PathError::TooLong => "a path that is too long",
            PathError::TooDeep => "a path with too many components",
            PathError::LeadsOut => "a link that leads out of the tree",
        })
    }
}

impl std::error::Error for PathError {}

/// Checks a path: components joined by `/` that lead to a place below the tree's root.
///
/// # Errors
/// Why it has no place in a tree.
pub fn check_path(path: &str) -> Result<(), PathError> {
    if path.len() > MAX_PATH_LEN {
        return Err(PathError::TooLong);
    }
    if path.contains(is_bad) {
        return Err(PathError::BadCharacter);
    }
    let mut depth = 0;
    for component in path.split('/') {
        depth += 1;
        match component {
            "" => return Err(PathError::EmptyComponent),
            "." | ".." => return Err(PathError::Dots),
            component if component.len() > MAX_COMPONENT_LEN => return Err(PathError::TooLong),
            _ => {}
        }
    }
    if depth > MAX_DEPTH { Err(PathError::TooDeep) } else { Ok(()) }
}

/// Checks the target of a symbolic link at `path`: it is relative, does not leave the tree, and goes up at its beginning
/// alone. There it goes up through directories, and behind a name maybe from where another link leads to.
///
/// # Errors
/// Why such a link has no place in a tree.
pub fn check_link(path: &str, target: &str) -> Result<(), PathError> {
    if target.len() > MAX_TARGET_LEN {
        return Err(PathError::TooLong);
    }
    if target.contains(is_bad) {
        return Err(PathError::BadCharacter);
    }
    if target.is_empty() {
        return Err(PathError::EmptyComponent);
    }
    if target.starts_with('/') {
        return Err(PathError::LeadsOut);
    }
    let (mut depth, mut is_named) = (path.split('/').count() - 1, false);
    for component in target.split('/') {
        match component {
            "" | "." => {}
            ".." if depth == 0 || is_named => return Err(PathError::LeadsOut),
            ".." => depth -= 1,
            _ => is_named = true,
        }
    }
    Ok(())
}

fn is_bad(c: char) -> bool {
    c == '\\' || c.is_control()
}

/// Order of paths in a listing: component by component, so that a directory stands right before
/// what it holds.
pub fn order(one: &str, other: &str) -> Ordering {
    // No component has a byte below a space, so a separator that counts as zero sorts first.
    let key = |byte: u8| if byte == b'/' { 0 } else { byte };
    one.bytes().map(key).cmp(other.bytes().map(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_tree_are_refused() {
        for (path, error) in [
            ("", PathError::EmptyComponent),
            ("/etc", PathError::EmptyComponent),
            ("a//b", PathError::EmptyComponent),
            ("a/", PathError::EmptyComponent),
            ("..", PathError::Dots),
            ("a/../../b", PathError::Dots),
            ("./a", PathError::Dots),
            ("a\\..\\b", PathError::BadCharacter),
            ("a\0b", PathError::BadCharacter),
        ] {
            assert_eq!(check_path(path), Err(error), "{path:?}");
        }
        assert_eq!(check_path(&"x".repeat(256)), Err(PathError::TooLong));
        assert_eq!(check_path(&["abcd"; 201].join("/")), Err(PathError::TooLong));
        assert_eq!(check_path(&["a"; 33].join("/")), Err(PathError::TooDeep));
        for path in ["a", "a/b c", "...", "ü/日本語", "-rf"] {
            assert_eq!(check_path(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn links_lead_to_places_in_the_tree_alone() {
        for (path, target) in [("a", "b"), ("a/b", "../c"), ("a/b/c", "./..//../d/./e")] {
            assert_eq!(check_link(path, target), Ok(()), "{path} -> {target}");
        }
        for (path, target) in [
            ("a", "/etc"),
            ("a", ".."),
            ("a/b", "../.."),
            ("a", "b/../../c"),
            ("a/b", "../../a"),
            // Where `b`, or `a/x` leads to, is not said here.
            ("a", "b/.."),
            ("a/b", "x/../../secret"),
            ("a/b", "../a/x/../secret"),
        ] {
            assert_eq!(check_link(path, target), Err(PathError::LeadsOut), "{path} -> {target}");
        }
        assert_eq!(check_link("a", ""), Err(PathError::EmptyComponent));
    }

    #[test]
    fn a_directory_stands_before_what_it_holds_and_that_before_its_neighbours() {
        let mut paths = ["a.b", "a/x", "a", "b", "a/x/y", "a b", "a/x.y"];
        paths.sort_by(|one, other| order(one, other));
        assert_eq!(paths, ["a", "a/x", "a/x/y", "a/x.y", "a b", "a.b", "b"]);
    }
}
