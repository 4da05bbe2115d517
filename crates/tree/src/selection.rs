//! Selections of a tree's files, by their numbers in its listing.

use std::fmt::{self, Write};
use std::ops::Range;

/// Files in a selection, at most.
pub const MAX_SELECTED: u32 = 1 << 16;

/// Some of a tree's files, ascending by their numbers: what a pack holds, one behind the other.
///
/// As text it is the distance of each run of numbers from the end of the run before, and `x` and the
/// length of the run if that is not one: `0x3,7,1x2` is 0, 1, 2, 10, 12, 13.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    runs: Vec<Range<u32>>,
    count: u32,
}

/// A text is not that of a selection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelectionError;

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no selection of files")
    }
}

impl std::error::Error for SelectionError {}

impl Selection {
    /// Adds a file, whose number is above all others.
    ///
    /// # Panics
    /// In debug builds: it is not.
    pub fn push(&mut self, file: u32) {
        self.count += 1;
        match self.runs.last_mut() {
            Some(run) if run.end == file => run.end += 1,
            last => {
                debug_assert!(last.is_none_or(|run| run.end < file), "ascending");
                self.runs.push(file..file + 1);
            }
        }
    }

    /// How many files there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The runs of numbers, ascending, with gaps between.
    pub fn runs(&self) -> &[Range<u32>] {
        &self.runs
    }

    /// Reads a selection.
    ///
    /// # Errors
    /// The text is not that of one, or it has no file or too many.
    pub fn parse(text: &str) -> Result<Self, SelectionError> {
        let number = |text: &str| -> Result<u32, SelectionError> {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            if digits { text.parse().map_err(|_| SelectionError) } else { Err(SelectionError) }
        };
        let (mut runs, mut count, mut end) = (Vec::<Range<u32>>::new(), 0, 0_u32);
        for run in text.split(',') {
            let (gap, len) = match run.split_once('x') {
                Some((gap, len)) => (number(gap)?, number(len)?),
                None => (number(run)?, 1),
            };
            let start = end.checked_add(gap).ok_or(SelectionError)?;
            end = start.checked_add(len).ok_or(SelectionError)?;
            count += u64::from(len);
            if len == 0 || gap == 0 && !runs.is_empty() || count > MAX_SELECTED.into() {
                return Err(SelectionError);
            }
            runs.push(start..end);
        }
        Ok(Selection { runs, count: count as u32 })
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut end = 0;
        for (index, run) in self.runs.iter().enumerate() {
            if index > 0 {
                f.write_char(',')?;
            }
            write!(f, "{}", run.start - end)?;
            if run.len() > 1 {
                write!(f, "x{}", run.len())?;
            }
            end = run.end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_that_are_no_selection_are_refused() {
        for text in [
            "",
            ",",
            "x",
            "1x",
            "x2",
            "-1",
            "+1",
            "1x0",
            "1,0",
            "0x65537",
            "4294967295",
            "1 ",
            "0x65536,1",
        ] {
            assert_eq!(Selection::parse(text), Err(SelectionError), "{text:?}");
        }
        let most = Selection::parse("7x65536").expect("as many as there may be");
        assert_eq!((most.count(), most.runs().len(), most.runs()[0].end), (65_536, 1, 65_543));
    }

    proptest! {
        #[test]
        fn selections_come_back(files in prop::collection::btree_set(0..500_u32, 1..200)) {
            let mut selection = Selection::default();
            files.iter().for_each(|file| selection.push(*file));
            let parsed = Selection::parse(&selection.to_string());
            prop_assert_eq!(parsed.as_ref(), Ok(&selection));
            let back: Vec<u32> = selection.runs().iter().cloned().flatten().collect();
            prop_assert_eq!(back, files.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn no_text_panics(text in "[0-9x,]{0,30}") {
            if let Ok(selection) = Selection::parse(&text) {
                prop_assert!(!selection.is_empty() && selection.count() <= MAX_SELECTED);
            }
        }
    }
}
