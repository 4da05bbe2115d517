//! Division of rows into strips of columns.

use crate::rows::Row;

/// The strip lengths programs run in \[bytes\].
pub const STRIPS: [usize; 6] = [64, 128, 256, 512, 1024, 2048];

/// Bytes of a cache line.
const LINE: usize = 64;

/// Rows from this length on are worth a strip that only leads to the next cache line \[bytes\].
const LONG: usize = 4096;

/// The columns of a strip, and the distance of its work rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) start: usize,
    pub(super) width: usize,
    pub(super) stride: usize,
}

/// The strip length, at most `most`, that takes least time for rows of `row_len` bytes: strips are
/// of one length, and each costs as much as a line of symbols beside its own length.
pub(super) fn best_strip(row_len: usize, most: usize) -> usize {
    let strips = STRIPS.into_iter().filter(|&strip| strip <= most.min(row_len.max(LINE)));
    strips.min_by_key(|&strip| row_len.div_ceil(strip) * (strip + LINE)).unwrap_or(STRIPS[0])
}

/// The column at which most of the rows start a cache line, if they are long: what crosses two lines
/// is loaded and stored twice. Zero if there is no such column.
pub(super) fn first_line(rows: &[Row], row_len: usize) -> usize {
    if row_len < LONG {
        return 0;
    }
    let mut counts = [0; LINE];
    for row in rows {
        counts[row.start.addr() % LINE] += 1;
    }
    let most = (0..LINE).max_by_key(|&ahead| counts[ahead]).unwrap_or(0);
    if counts[most] * 2 > rows.len() { (LINE - most) % LINE } else { 0 }
}

/// Strips of `stride` columns from column `first` on, and one of a line before them unless that is
/// zero: then rows are longer than `stride` and a line.
pub(super) fn strips(row_len: usize, stride: usize, first: usize) -> impl Iterator<Item = Columns> {
    let head = (first > 0).then_some(Columns { start: 0, width: LINE, stride: LINE });
    let rest = (first..row_len).step_by(stride).map(move |start| {
        // The last strip reaches back into the one before rather than be a short one.
        let start = start.min(row_len.saturating_sub(stride));
        Columns { start, width: stride.min(row_len - start), stride }
    });
    head.into_iter().chain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlignedBuffer, RowStorage, RowTable};

    #[test]
    fn strips_cover_every_column_and_stay_within_the_rows() {
        for row_len in [1, 63, 64, 65, 700, 1500, 4096, 8192, 9001] {
            for stride in STRIPS {
                for first in [0, 1, 48, 63] {
                    if first > 0 && row_len < LONG {
                        continue;
                    }
                    let mut covered = 0;
                    for strip in strips(row_len, stride, first) {
                        assert!(strip.start <= covered, "a gap before {strip:?} of {row_len}");
                        assert!(strip.width <= strip.stride, "{strip:?}");
                        covered = strip.start + strip.width;
                        assert!(covered <= row_len, "{strip:?} of {row_len}");
                    }
                    assert_eq!(covered, row_len, "strips of {stride} from {first} on");
                }
            }
        }
    }

    #[test]
    fn long_rows_that_stand_alike_are_cut_at_their_cache_lines() {
        let mut buffer = AlignedBuffer::default();
        buffer.resize(3 * LONG + LINE);
        let mut storage = RowStorage::default();
        let mut line = |from: usize, row_len: usize, stride: usize| {
            let mut rows = RowTable::new(&mut storage, row_len);
            rows.push_shared_rows(&buffer[from..], stride, 3);
            first_line(rows.rows(), row_len)
        };
        assert_eq!(line(0, LONG, LONG), 0);
        assert_eq!(line(16, LONG, LONG), 48);
        assert_eq!(line(16, LONG - 1, LONG), 0, "short rows are left as they are");
        assert_eq!(line(16, LONG, LONG - 4), 0, "rows stand differently");
        let mut rows = RowTable::new(&mut storage, LONG);
        rows.push_shared(&buffer[5..]);
        rows.push_shared(&buffer[9..]);
        rows.push_shared(&buffer[9 + LONG..]);
        assert_eq!(first_line(rows.rows(), LONG), 55, "most of them");
    }
}
