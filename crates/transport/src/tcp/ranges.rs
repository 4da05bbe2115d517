//! Ranges of a transfer's bytes that have arrived.

use alloc::vec::Vec;

/// What became of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inserted {
    /// All of them were there.
    Duplicate,
    /// They would be one range too many.
    TooMany,
    /// So many are new.
    New(u64),
}

/// A set of bytes that fills from below: what lies beyond a hole is kept as ranges, in order, none
/// touching another.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// All bytes before this are there.
    next: u64,
    beyond: Vec<(u64, u64)>,
}

impl Ranges {
    /// The first byte that is missing.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether something lies beyond a hole.
    pub fn has_hole(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// Adds the bytes from `start` to `end`; at most `limit` ranges are kept.
    pub fn insert(&mut self, start: u64, end: u64, limit: usize) -> Inserted {
        let start = start.max(self.next);
        if start >= end {
            return Inserted::Duplicate;
        }
        let first = self.beyond.partition_point(|range| range.1 < start);
        let last = self.beyond.partition_point(|range| range.0 <= end);
        let touched = &self.beyond[first..last];
        let had: u64 = touched
            .iter()
            .map(|range| range.1.min(end) - range.0.max(start).min(range.1.min(end)))
            .sum();
        if had == end - start {
            return Inserted::Duplicate;
        }
        let merged = match (touched.first(), touched.last()) {
            (Some(low), Some(high)) => (low.0.min(start), high.1.max(end)),
            _ => (start, end),
        };
        if merged.0 == self.next {
            self.next = merged.1;
            self.beyond.drain(first..last);
        } else if first == last {
            if self.beyond.len() >= limit {
                return Inserted::TooMany;
            }
            self.beyond.insert(first, merged);
        } else {
            self.beyond[first] = merged;
            self.beyond.drain(first + 1..last);
        }
        Inserted::New(end - start - had)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in prop::collection::vec((0_u64..120, 1_u64..20), 0..80)) {
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for (start, len) in steps {
                let before = model.len();
                model.extend(start..start + len);
                let new = (model.len() - before) as u64;
                let expected = if new == 0 { Inserted::Duplicate } else { Inserted::New(new) };
                prop_assert_eq!(ranges.insert(start, start + len, 100), expected);
                let next = (0..).find(|byte| !model.contains(byte)).unwrap();
                prop_assert_eq!(ranges.next(), next);
                prop_assert_eq!(ranges.has_hole(), model.len() as u64 > next);
                prop_assert!(ranges.beyond.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }

    #[test]
    fn no_more_than_the_limit_is_kept() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.insert(10, 20, 2), Inserted::New(10));
        assert_eq!(ranges.insert(30, 40, 2), Inserted::New(10));
        assert_eq!(ranges.insert(50, 60, 2), Inserted::TooMany);
        assert_eq!(ranges.insert(20, 25, 2), Inserted::New(5), "it widens one that is there");
        assert_eq!(ranges.insert(0, 12, 2), Inserted::New(10));
        assert_eq!(ranges.next(), 25);
        assert_eq!(ranges.insert(50, 60, 2), Inserted::New(10));
    }
}
