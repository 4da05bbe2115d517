//! Dividing an object among servers.

use std::ops::Range;

/// A contiguous part of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// Where it begins \[bytes\].
    pub offset: u64,
    /// How long it is \[bytes\], 1 or more.
    pub len: u64,
}

impl Span {
    /// What is left of it behind its first `len` bytes.
    pub(super) fn behind(self, len: u64) -> Span {
        let len = len.min(self.len);
        Span { offset: self.offset + len, len: self.len - len }
    }

    /// It further on in the object.
    pub(super) fn moved_by(self, bytes: u64) -> Span {
        Span { offset: self.offset + bytes, ..self }
    }
}

/// Divides `size` bytes in at most `servers` spans that differ by a unit at most: whole units but at the end. There are fewer spans than servers where there are
/// fewer units.
pub(super) fn divide(size: u64, servers: usize, unit: u64) -> Vec<Span> {
    let unit = unit.max(1);
    let units = size.div_ceil(unit);
    let count = (servers as u64).min(units);
    let mut spans = Vec::with_capacity(count as usize);
    let mut offset = 0;
    for index in 0..count {
        let in_span = units / count + u64::from(index < units % count);
        let len = in_span.saturating_mul(unit).min(size - offset);
        spans.push(Span { offset, len });
        offset += len;
    }
    spans
}

/// Divides what is missing of an object, which are whole units but at its end, among servers: a share each, or more where
/// what is missing is in pieces.
pub(super) fn deal(missing: &[Range<u64>], servers: usize, unit: u64) -> Vec<Span> {
    let total = missing.iter().map(|range| range.end - range.start).sum::<u64>().max(1);
    let spans_of = |range: &Range<u64>| {
        let len = range.end - range.start;
        let spans = (u128::from(len) * servers as u128).div_ceil(total.into()) as usize;
        let start = range.start;
        divide(len, spans, unit).into_iter().map(move |span| span.moved_by(start))
    };
    missing.iter().flat_map(spans_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_are_whole_units_but_at_the_end() {
        let span = |offset, len| Span { offset, len };
        assert_eq!(divide(25, 2, 10), [span(0, 20), span(20, 5)]);
        assert_eq!(divide(25, 9, 10), [span(0, 10), span(10, 10), span(20, 5)]);
        assert_eq!(divide(1, 3, 10), [span(0, 1)]);
        assert_eq!(divide(0, 3, 10), []);
        assert_eq!(divide(30, 0, 10), []);
    }

    #[test]
    fn what_is_left_of_a_span_lies_behind_what_is_there() {
        let span = Span { offset: 40, len: 25 };
        assert_eq!(span.behind(10), Span { offset: 50, len: 15 });
        assert_eq!(span.behind(25), Span { offset: 65, len: 0 });
        assert_eq!(span.behind(99), Span { offset: 65, len: 0 });
        assert_eq!(span.moved_by(2), Span { offset: 42, len: 25 });
    }

    #[test]
    fn what_is_missing_is_dealt_in_proportion() {
        let span = |offset, len| Span { offset, len };
        let whole = 0..25;
        assert_eq!(deal(std::slice::from_ref(&whole), 2, 10), divide(25, 2, 10));
        assert_eq!(deal(&[0..40, 100..110], 2, 10), [span(0, 20), span(20, 20), span(100, 10)]);
        assert_eq!(deal(&[], 3, 10), []);
    }

    proptest! {
        #[test]
        fn spans_cover_the_object_once(size: u64, servers in 1_usize..300, unit in 0_u64..1 << 24) {
            let spans = divide(size, servers, unit);
            let mut end = 0;
            for span in &spans {
                prop_assert_eq!(span.offset, end);
                prop_assert!(span.len > 0);
                end += span.len;
            }
            prop_assert_eq!(end, size);
            prop_assert!(spans.len() <= servers);
            let unit = unit.max(1);
            let longest = spans.iter().map(|part| part.len.div_ceil(unit)).max();
            let shortest = spans.iter().map(|part| part.len.div_ceil(unit)).min();
            prop_assert!(longest.unwrap_or(0) - shortest.unwrap_or(0) <= 1);
        }
    }
}
