//! Selection of the entries of a tree by their paths.

use std::fmt;
use std::sync::Arc;

use wellspring_tree::{Content, Entry, SkipReason};

/// Says whether what has a path in a tree belongs to what is moved. Of a directory that does not,
/// nothing does.
#[derive(Clone)]
pub struct TreeFilter(Option<Arc<Belongs>>);

type Belongs = dyn Fn(&str, bool) -> bool + Send + Sync;

impl TreeFilter {
    /// By a function of the path, and whether that is of a directory.
    pub fn by(belongs: impl Fn(&str, bool) -> bool + Send + Sync + 'static) -> Self {
        TreeFilter(Some(Arc::new(belongs)))
    }

    /// Whether what has that path belongs, where its directory does.
    pub fn belongs(&self, path: &str, is_directory: bool) -> bool {
        self.0.as_ref().is_none_or(|belongs| belongs(path, is_directory))
    }

    /// Whether something that is skipped, and may be a directory that cannot be looked into, may have been asked for.
    pub fn may_want(&self, path: &str, reason: SkipReason) -> bool {
        let may_be_directory = matches!(reason, SkipReason::Unreadable | SkipReason::Name);
        self.belongs(path, false) || may_be_directory && self.belongs(path, true)
    }

    /// Whether everything belongs.
    pub fn is_everything(&self) -> bool {
        self.0.is_none()
    }

    /// Entries are asked for from the first one on.
    pub fn walk(&self) -> FilterWalk {
        FilterWalk { filter: self.clone(), outside: None }
    }
}

impl Default for TreeFilter {
    /// Everything.
    fn default() -> Self {
        TreeFilter(None)
    }
}

impl fmt::Debug for TreeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TreeFilter")
    }
}

/// Entries that belong to what is moved, asked for in the order of their paths.
#[derive(Debug)]
pub struct FilterWalk {
    filter: TreeFilter,
    /// What does not belong to it, and so nothing below it: a directory, or what has the place of one in another tree.
    outside: Option<String>,
}

impl FilterWalk {
    /// Whether the entry belongs to it. What is skipped does if a file or a directory of that name would: nothing below
    /// it may be taken for missing.
    pub fn passes(&mut self, entry: &Entry<'_>) -> bool {
        if self.outside.as_deref().is_some_and(|outside| is_below(entry.path, outside)) {
            return false;
        }
        let belongs = |is_directory| self.filter.belongs(entry.path, is_directory);
        let passes = match entry.content {
            Content::Directory => belongs(true),
            Content::Skipped(_) => belongs(false) || belongs(true),
            Content::File { .. } | Content::Link { .. } => belongs(false),
        };
        if !passes {
            self.outside = Some(entry.path.to_owned());
        }
        passes
    }

    /// The next entry is the first one.
    pub(super) fn begin_again(&mut self) {
        self.outside = None;
    }
}

/// Whether a path leads into that directory.
pub(super) fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}
