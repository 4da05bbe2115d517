//! Instructions over one strip of columns: sums, folds, tables.

use crate::fold::pair_number;
use crate::instruction::{EXTERNAL, HEAD, TABLE_ROWS};
use crate::strip::Strip;
use crate::vector::Vector;

/// One sum of a block.
struct Sum<'a> {
    /// Where to: a work row, or an external one.
    to: u32,
    /// What is added, of which the first may be an external row.
    sources: &'a [u32],
    /// Where the next sum starts.
    end: usize,
}

impl<'a> Sum<'a> {
    /// The sum whose words start at `at`.
    ///
    /// # Safety
    ///
    /// A sum does start there.
    #[inline(always)]
    unsafe fn at(block: &'a [u32], at: usize) -> Self {
        // SAFETY: the builder writes whole sums only.
        unsafe {
            let start = at + HEAD;
            let end = start + *block.get_unchecked(at + 1) as usize;
            let sources = block.get_unchecked(start..end);
            Self { to: *block.get_unchecked(at), sources, end }
        }
    }
}

/// A block of sums.
///
/// # Safety
///
/// As [`run`](crate::Program::run).
#[inline(always)]
pub(crate) unsafe fn sums<V: Vector>(strip: &Strip<'_>, block: &[u32]) {
    // SAFETY: as the caller vouches; each arm is for full strips of that length.
    unsafe {
        match (strip.stride, strip.width == strip.stride) {
            (64, true) => full_sums::<V, 64>(strip, block),
            (128, true) => full_sums::<V, 128>(strip, block),
            (256, true) => full_sums::<V, 256>(strip, block),
            // Only vectors of that length hold so wide a strip in eight registers.
            (512, true) if const { V::BYTES == 64 } => full_sums::<V, 512>(strip, block),
            _ => any_sums::<V>(strip, block),
        }
    }
}

/// How many sums ahead external rows of `bytes` are fetched: far enough for memory, near enough for
/// the first cache, where symbols whose length is a power of two share a few sets.
const fn ahead(bytes: usize) -> usize {
    1024 / bytes
}

/// All sums over a strip of `BYTES` bytes: with a constant, the distance of rows is a shift, and
/// there are no loops over columns.
#[inline(always)]
unsafe fn full_sums<V: Vector, const BYTES: usize>(strip: &Strip<'_>, block: &[u32]) {
    let (mut at, mut fetched) = (0, 0);
    // SAFETY: as the caller vouches; both cursors go from sum to sum.
    unsafe {
        for _ in 0..ahead(BYTES) {
            if fetched < block.len() {
                fetched = fetch::<V, BYTES>(strip, &Sum::at(block, fetched));
            }
        }
        while at < block.len() {
            if fetched < block.len() {
                fetched = fetch::<V, BYTES>(strip, &Sum::at(block, fetched));
            }
            let sum = Sum::at(block, at);
            full_sum::<V, BYTES>(strip, &sum);
            at = sum.end;
        }
    }
}

/// Asks for the external rows of a sum, and returns where the next sum starts.
#[inline(always)]
unsafe fn fetch<V: Vector, const BYTES: usize>(strip: &Strip<'_>, sum: &Sum<'_>) -> usize {
    // SAFETY: operands were checked when the sum was recorded.
    unsafe {
        if let Some(&from) = sum.sources.first()
            && from & EXTERNAL != 0
        {
            let from = strip.external(from & !EXTERNAL);
            for at in (0..BYTES).step_by(64) {
                V::prefetch(from.add(at));
            }
        }
        if sum.to & EXTERNAL != 0 {
            let to = strip.external(sum.to & !EXTERNAL);
            for at in (0..BYTES).step_by(64) {
                V::prefetch_write(to.add(at));
            }
        }
    }
    sum.end
}

/// One sum over `BYTES` bytes. All sources are added in registers, at most eight vectors at a time:
/// a branch mispredicted where they end costs less than loading and storing the sum again.
#[inline(always)]
unsafe fn full_sum<V: Vector, const BYTES: usize>(strip: &Strip<'_>, sum: &Sum<'_>) {
    let group = const { if BYTES < 8 * V::BYTES { BYTES / V::BYTES } else { 8 } };
    // SAFETY: operands were checked when the sum was recorded; all rows are as long as the strip.
    unsafe {
        let row = |word: u32| {
            if word & EXTERNAL != 0 {
                strip.external(word & !EXTERNAL)
            } else {
                strip.workspace.add(word as usize * BYTES)
            }
        };
        let to = row(sum.to);
        let split = sum.sources.split_first();
        for start in (0..BYTES).step_by(group * V::BYTES) {
            let mut total = [V::zero(); 8];
            if let Some((&first, rest)) = split {
                let first = row(first).add(start);
                for (i, total) in total.iter_mut().enumerate().take(group) {
                    *total = V::load(first.add(i * V::BYTES));
                }
                for &source in rest {
                    let source = strip.workspace.add(source as usize * BYTES + start);
                    for (i, total) in total.iter_mut().enumerate().take(group) {
                        *total = total.xor(V::load(source.add(i * V::BYTES)));
                    }
                }
            }
            for (i, total) in total.iter().enumerate().take(group) {
                total.store(to.add(start + i * V::BYTES));
            }
        }
    }
}

/// All sums over a strip of any width, a vector at a time. Work rows are whole vectors; external
/// ones are read and written to the end of the strip only.
#[inline(always)]
unsafe fn any_sums<V: Vector>(strip: &Strip<'_>, block: &[u32]) {
    let whole = strip.width / V::BYTES * V::BYTES;
    let tail = strip.width - whole;
    let mut at = 0;
    while at < block.len() {
        // SAFETY: operands were checked when the sum was recorded; see above for the lengths.
        unsafe {
            let sum = Sum::at(block, at);
            let to = strip.row(sum.to);
            for column in (0..whole).step_by(V::BYTES) {
                let mut total = V::zero();
                for &source in sum.sources {
                    total = total.xor(V::load(strip.row(source).add(column)));
                }
                total.store(to.add(column));
            }
            if tail != 0 {
                let mut total = V::zero();
                for &source in sum.sources {
                    let from = strip.row(source).add(whole);
                    let last = if source & EXTERNAL != 0 {
                        V::load_partial(from, tail)
                    } else {
                        V::load(from)
                    };
                    total = total.xor(last);
                }
                if sum.to & EXTERNAL != 0 {
                    total.store_partial(to.add(whole), tail);
                } else {
                    total.store(to.add(whole));
                }
            }
            at = sum.end;
        }
    }
}

/// The HDPC fold over the work rows `columns` into the sums from row `rows.0` on, with a row for each pair of
/// sums from `rows.1` on to work in.
///
/// # Safety
///
/// As [`run`](crate::Program::run).
#[inline(always)]
pub(crate) unsafe fn fold<V: Vector>(strip: &Strip<'_>, columns: &[u32], rows: (u32, u32)) {
    let vectors = strip.stride / V::BYTES;
    let mut at = 0;
    // SAFETY: work rows are as long as the stride, which holds `vectors` whole vectors.
    unsafe {
        while vectors - at >= 8 {
            fold_vectors::<V, 8>(strip, columns, rows, at * V::BYTES);
            at += 8;
        }
        while vectors - at >= 4 {
            fold_vectors::<V, 4>(strip, columns, rows, at * V::BYTES);
            at += 4;
        }
        if vectors - at >= 2 {
            fold_vectors::<V, 2>(strip, columns, rows, at * V::BYTES);
            at += 2;
        }
        if vectors > at {
            fold_vectors::<V, 1>(strip, columns, rows, at * V::BYTES);
        }
    }
}

/// A column goes to two sums: added to a row for the two of them first, it is stored once instead of twice.
#[inline(always)]
unsafe fn fold_vectors<V: Vector, const N: usize>(
    strip: &Strip<'_>,
    columns: &[u32],
    (first, scratch): (u32, u32),
    offset: usize,
) {
    // SAFETY: the columns, the sums from `first` on and the rows of pairs were checked when the fold was
    // recorded, for as many columns and sums as `Program::run` saw to be in `pairs`, whose entries
    // were made from checked pairs of these sums.
    unsafe {
        let pairs = strip.work(scratch).add(offset);
        for pair in 0..strip.sums * (strip.sums - 1) / 2 {
            for i in 0..N {
                V::zero().store(pairs.add(pair * strip.stride + i * V::BYTES));
            }
        }
        let mut z = [V::zero(); N];
        let last = strip.pairs.len() - 1;
        for (&pair, &column) in strip.pairs[..last].iter().zip(columns) {
            let from = strip.work(column).add(offset);
            let pair = pairs.add(usize::from(pair) * strip.stride);
            for (i, z) in z.iter_mut().enumerate() {
                let at = i * V::BYTES;
                *z = z.double().xor(V::load(from.add(at)));
                V::load(pair.add(at)).xor(*z).store(pair.add(at));
            }
        }
        let from = strip.work(columns[last]).add(offset);
        for (i, z) in z.iter_mut().enumerate() {
            *z = z.double().xor(V::load(from.add(i * V::BYTES)));
        }
        let sums = strip.work(first).add(offset);
        for sum in 0..strip.sums {
            let mut total = z;
            for other in (0..strip.sums).filter(|&other| other != sum) {
                let pair = pairs.add(pair_number(sum, other) * strip.stride);
                for (i, total) in total.iter_mut().enumerate() {
                    *total = total.xor(V::load(pair.add(i * V::BYTES)));
                }
            }
            for (i, (total, z)) in total.iter().zip(&mut z).enumerate() {
                total.store(sums.add(sum * strip.stride + i * V::BYTES));
                *z = z.double();
            }
        }
    }
}

/// Tables of the sums of the `count` work rows from `first` on, into the work rows from `to` on.
///
/// # Safety
///
/// As [`run`](crate::Program::run).
#[inline(always)]
pub(crate) unsafe fn tables<V: Vector>(strip: &Strip<'_>, (first, count): (u32, usize), to: u32) {
    let stride = strip.stride;
    // SAFETY: rows and tables were checked when the instruction was recorded; work rows are as long as
    // the stride, a whole number of vectors.
    unsafe {
        let (mut rows, mut table) = (strip.work(first), strip.work(to));
        let mut left = count;
        while left > 0 {
            let height = left.min(TABLE_ROWS as usize);
            let mut at = 0;
            while at + 8 * V::BYTES <= stride {
                table_columns::<V, 8>((rows.add(at), height), table.add(at), stride);
                at += 8 * V::BYTES;
            }
            while at < stride {
                table_columns::<V, 1>((rows.add(at), height), table.add(at), stride);
                at += V::BYTES;
            }
            rows = rows.add(height * stride);
            table = table.add(stride << TABLE_ROWS);
            left -= height;
        }
    }
}

/// `N` vectors of the table of `height` rows, in the order of a Gray code: each sum is the one before
/// and one row.
#[inline(always)]
unsafe fn table_columns<V: Vector, const N: usize>(
    (rows, height): (*const u8, usize),
    table: *mut u8,
    stride: usize,
) {
    // SAFETY: as the caller vouches: there are `height` rows, and 2^`height` of the table.
    unsafe {
        let mut total = [V::zero(); N];
        for step in 1..1_usize << height {
            let row = rows.add(step.trailing_zeros() as usize * stride);
            let to = table.add((step ^ step >> 1) * stride);
            for (i, total) in total.iter_mut().enumerate() {
                *total = total.xor(V::load(row.add(i * V::BYTES)));
                total.store(to.add(i * V::BYTES));
            }
        }
    }
}
