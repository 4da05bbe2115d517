//! Selection of the entries of a tree by their paths.

use std::fmt;
use std::sync::Arc;

use wellspring_tree::{Content, Entry, SkipReason};

use crate::objects::check_plain;

/// Says whether what has a path in a tree belongs to what is moved. Of a directory that does not,
/// nothing does.
#[derive(Clone, Default)]
pub struct TreeFilter {
    /// Absent: everything.
    chosen: Option<Arc<Belongs>>,
    leaves_odd: bool,
    leaves_hidden: bool,
}

type Belongs = dyn Fn(&str, bool) -> bool + Send + Sync;

impl TreeFilter {
    /// By a function of the path, and whether that is of a directory.
    pub fn by(belongs: impl Fn(&str, bool) -> bool + Send + Sync + 'static) -> Self {
        TreeFilter { chosen: Some(Arc::new(belongs)), ..TreeFilter::default() }
    }

    /// Without names that are made to deceive people or programs.
    #[must_use]
    pub fn without_odd(self) -> Self {
        TreeFilter { leaves_odd: true, ..self }
    }

    /// Without names that begin with a dot.
    #[must_use]
    pub fn without_hidden(self) -> Self {
        TreeFilter { leaves_hidden: true, ..self }
    }

    /// Why something is left out that was chosen, if it is for its name.
    pub(super) fn refuses(&self, path: &str, is_directory: bool) -> Option<SkipReason> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let reason = if self.leaves_odd && check_plain(name).is_err() {
            SkipReason::Odd
        } else if self.leaves_hidden && name.starts_with('.') {
            SkipReason::Hidden
        } else {
            return None;
        };
        self.is_chosen(path, is_directory).then_some(reason)
    }

    fn is_chosen(&self, path: &str, is_directory: bool) -> bool {
        self.chosen.as_ref().is_none_or(|belongs| belongs(path, is_directory))
    }

    /// Whether what has that path belongs, where its directory does.
    pub fn belongs(&self, path: &str, is_directory: bool) -> bool {
        self.is_chosen(path, is_directory) && self.refuses(path, is_directory).is_none()
    }

    /// Whether something that is skipped, and may be a directory that cannot be looked into, may have been asked for.
    pub fn may_want(&self, path: &str, reason: SkipReason) -> bool {
        let may_be_directory = matches!(reason, SkipReason::Unreadable | SkipReason::Name);
        self.belongs(path, false) || may_be_directory && self.belongs(path, true)
    }

    /// Whether everything belongs, but for odd names: what has one here is nobody's either.
    pub fn is_everything(&self) -> bool {
        self.chosen.is_none() && !self.leaves_hidden
    }

    /// Entries are asked for from the first one on.
    pub fn walk(&self) -> FilterWalk {
        FilterWalk { filter: self.clone(), outside: None }
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
    /// Why the entry, which does not pass, is left out, if it is for its name alone and not for that of its directory.
    pub(super) fn refuses(&self, entry: &Entry<'_>) -> Option<SkipReason> {
        let is_uppermost = self.outside.as_deref() == Some(entry.path);
        let is_directory = entry.content == Content::Directory;
        self.filter.refuses(entry.path, is_directory).filter(|_| is_uppermost)
    }

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
