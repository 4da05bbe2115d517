//! Ranges of an object's bytes.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use wellspring_transport::scdp::ObjectInfo;

/// Bytes that are wanted of an object, in the sense of RFC 9110 §14.1.2: `A-B` (B is included), `A-` or `-N` (the last N).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteRange {
    /// From the first to the last one, which is included. What would lie beyond the object's end is left out.
    Between {
        /// The first byte.
        first: u64,
        /// The last byte, not below the first.
        last: u64,
    },
    /// From that byte to the object's end.
    From(u64),
    /// So many bytes at the object's end, or all of them if it has fewer.
    Last(u64),
}

impl ByteRange {
    /// The bytes in an object of that size; `None` if it has none of them.
    pub fn within(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            ByteRange::Between { first, last } => first..size.min(last.saturating_add(1)),
            ByteRange::From(first) => first..size,
            ByteRange::Last(count) => size.saturating_sub(count)..size,
        };
        (!range.is_empty()).then_some(range)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ByteRange::Between { first, last } => write!(f, "{first}-{last}"),
            ByteRange::From(first) => write!(f, "{first}-"),
            ByteRange::Last(count) => write!(f, "-{count}"),
        }
    }
}

/// A text names no range of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotARange(String);

impl fmt::Display for NotARange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(f, "`{text}` is no range of bytes: write A-B (with B), A- or -N (the last N)")
    }
}

impl std::error::Error for NotARange {}

impl FromStr for ByteRange {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let wrong = || NotARange(text.to_owned());
        let number = |digits: &str| {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_number).ok_or_else(wrong)
        };
        match text.split_once('-').ok_or_else(wrong)? {
            ("", count) => Ok(ByteRange::Last(number(count)?)),
            (first, "") => Ok(ByteRange::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last { Err(wrong()) } else { Ok(ByteRange::Between { first, last }) }
            }
        }
    }
}

/// What a fetch fetches of an object: bytes, and the blocks that hold them.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The bytes that the caller gets.
    pub(crate) bytes: Range<u64>,
    /// The blocks that they lie in.
    pub(crate) blocks: Range<u32>,
    object: ObjectInfo,
}

impl Wanted {
    /// The blocks of an object that hold these bytes of it, one at least.
    pub(crate) fn of(bytes: Range<u64>, object: ObjectInfo) -> Self {
        let block =
            |at: u64| (at / object.block_len.max(1)).min(object.source_blocks.into()) as u32;
        let blocks = block(bytes.start)..block(bytes.end.saturating_sub(1)) + 1;
        Wanted { bytes, blocks, object }
    }

    /// The object that they are of.
    pub(crate) fn object(&self) -> &ObjectInfo {
        &self.object
    }

    /// Bytes of these blocks.
    pub(crate) fn held(&self) -> Range<u64> {
        self.object.byte_range_of_run(&self.blocks)
    }

    /// The other blocks of the object, ascending.
    pub(crate) fn other_blocks(&self) -> Vec<Range<u32>> {
        let others = [0..self.blocks.start, self.blocks.end..self.object.source_blocks];
        others.into_iter().filter(|run| !run.is_empty()).collect()
    }

    /// How many of its blocks are there, where so many are there with the others.
    pub(crate) fn blocks_done(&self, of_object: u64) -> u64 {
        let others = u64::from(self.object.source_blocks) - self.blocks.len() as u64;
        of_object.saturating_sub(others)
    }

    /// How many of its bytes are there, where so many are there of the object with the other blocks.
    pub(crate) fn done(&self, of_object: u64) -> u64 {
        let held = self.held();
        let others = self.object.transfer_len.saturating_sub(held.end - held.start);
        of_object.saturating_sub(others).min(self.bytes.end - self.bytes.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_fetched_by_the_blocks_that_hold_it() {
        let object = ObjectInfo::in_blocks_of(1_024, 5_000, 100, 0);
        for (bytes, blocks, held, others) in [
            (0..5_000, 0..5, 0..5_000, vec![]),
            (0..1, 0..1, 0..1_024, vec![(1, 5)]),
            (1_023..1_025, 0..2, 0..2_048, vec![(2, 5)]),
            (1_024..2_048, 1..2, 1_024..2_048, vec![(0, 1), (2, 5)]),
            (4_999..5_000, 4..5, 4_096..5_000, vec![(0, 4)]),
        ] {
            let wanted = Wanted::of(bytes.clone(), object);
            assert_eq!((wanted.blocks.clone(), wanted.held()), (blocks, held.clone()), "{bytes:?}");
            let got = wanted.other_blocks().into_iter().map(|run| (run.start, run.end));
            assert_eq!(got.collect::<Vec<_>>(), others, "{bytes:?}");
            assert_eq!(wanted.done(5_000 - (held.end - held.start)), 0);
            assert_eq!(wanted.done(5_000), bytes.end - bytes.start);
        }
    }

    #[test]
    fn ranges_are_those_of_http() {
        let within = |text: &str, size| {
            let range: ByteRange = text.parse().expect("a range");
            assert_eq!(range.to_string(), text);
            range.within(size)
        };
        for (text, expected) in [
            ("0-0", Some(0..1)),
            ("3-9", Some(3..10)),
            ("3-", Some(3..10)),
            ("-3", Some(7..10)),
            ("-30", Some(0..10)),
            ("9-18446744073709551615", Some(9..10)),
            ("10-11", None),
            ("10-", None),
            ("-0", None),
        ] {
            assert_eq!(within(text, 10), expected, "{text}");
        }
        assert_eq!(within("0-", 0), None);
        assert_eq!(within("-5", 0), None);
        for wrong in
            ["", "-", "5", "5-3", "a-b", "+1-2", "1-+2", "--3", "1-2-3", "-18446744073709551616"]
        {
            assert!(wrong.parse::<ByteRange>().is_err(), "{wrong}");
        }
    }
}
