//! Patterns that choose what of a directory is moved.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use wellspring_console::exit::Failed;

/// Patterns of one option. One without `/`, but for its end, fits the last component at any depth; with `/` at its end it
/// fits directories alone.
pub(super) struct Patterns {
    all: GlobSet,
    directories: GlobSet,
}

impl Patterns {
    pub(super) fn parse(patterns: &[String]) -> Result<Self, Failed> {
        let (mut all, mut directories) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in patterns {
            let (inner, is_of_directories) = checked(pattern)?;
            let glob = GlobBuilder::new(&inner).literal_separator(true).build();
            let glob = glob.map_err(|error| Failed::usage(format!("a bad pattern: {error}")))?;
            if is_of_directories { &mut directories } else { &mut all }.add(glob);
        }
        let built = |set: GlobSetBuilder| {
            set.build().map_err(|error| Failed::usage(format!("bad patterns: {error}")))
        };
        Ok(Patterns { all: built(all)?, directories: built(directories)? })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.directories.is_empty()
    }

    pub(super) fn fit(&self, path: &str, is_directory: bool) -> bool {
        self.all.is_match(path) || is_directory && self.directories.is_match(path)
    }

    /// Whether they fit that path, or a directory above it.
    pub(super) fn fit_at_or_above(&self, path: &str, is_directory: bool) -> bool {
        let mut above = path.match_indices('/').map(|(end, _)| &path[..end]);
        self.fit(path, is_directory) || above.any(|directory| self.fit(directory, true))
    }
}

/// A pattern as it is compared with paths, and whether it fits directories alone.
fn checked(pattern: &str) -> Result<(String, bool), Failed> {
    let bad = |why: &str| Failed::usage(format!("a bad pattern: `{pattern}` {why}"));
    let from_here = pattern.strip_prefix("./");
    let anchored = from_here.or_else(|| pattern.strip_prefix('/'));
    let rest = anchored.unwrap_or(pattern);
    let inner = rest.strip_suffix('/').unwrap_or(rest);
    if inner.is_empty() {
        return Err(bad("names nothing: write the name of something in the directory"));
    }
    for part in inner.split('/') {
        match part {
            "" => return Err(bad("has `//`, which no path has: write one `/`")),
            "." | ".." => {
                return Err(bad("has `.` or `..`, which no path has: begin at the directory"));
            }
            _ => {}
        }
    }
    let is_at_any_depth = anchored.is_none() && !inner.contains('/');
    let anywhere = if is_at_any_depth { "**/" } else { "" };
    Ok((format!("{anywhere}{inner}"), inner.len() < rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pattern: &str) -> Patterns {
        Patterns::parse(&[pattern.to_owned()]).unwrap_or_else(|_| panic!("{pattern}"))
    }

    #[test]
    fn patterns_without_a_slash_fit_at_any_depth() {
        let set = Patterns::parse(&["*.bin".to_owned(), "a/**".to_owned()]).expect("patterns");
        for path in ["x.bin", "d/e/x.bin", "a/b/c"] {
            assert!(set.fit(path, false), "{path}");
        }
        for path in ["x.bin.txt", "a", "d/a/x"] {
            assert!(!set.fit(path, false), "{path}");
        }
    }

    #[test]
    fn a_slash_at_the_end_means_directories_and_one_at_the_beginning_the_directory_itself() {
        // A pattern, and whether it fits a directory `cache`, a file of that name, and both a directory below.
        for (pattern, directory, file, deeper) in [
            ("cache", true, true, true),
            ("cache/", true, false, true),
            ("/cache", true, true, false),
            ("./cache", true, true, false),
            ("/cache/", true, false, false),
            ("./cache/", true, false, false),
            ("d/cache", false, false, true),
            ("/d/cache/", false, false, true),
            ("c*/", true, false, true),
        ] {
            let set = one(pattern);
            let fits = [("cache", true), ("cache", false), ("d/cache", true)];
            let fits = fits.map(|(path, is_directory)| set.fit(path, is_directory));
            assert_eq!(fits, [directory, file, deeper], "{pattern}");
        }
    }

    #[test]
    fn a_directory_that_fits_has_all_that_is_in_it() {
        for pattern in ["a", "a/", "/a", "./a/"] {
            let set = one(pattern);
            for path in ["a/x", "a/b/x"] {
                assert!(set.fit_at_or_above(path, false), "{pattern} {path}");
            }
            assert!(!set.fit_at_or_above("b/x", false), "{pattern}");
        }
    }

    #[test]
    fn what_can_fit_nothing_is_refused() {
        for pattern in ["", "/", "./", "a//b", "//a", "a//", "../a", "a/..", "a/./b", ".", "["] {
            assert!(Patterns::parse(&[pattern.to_owned()]).is_err(), "{pattern}");
        }
        for pattern in [".*", "..a", "a/..b", "**/", "a/**"] {
            one(pattern);
        }
    }
}
