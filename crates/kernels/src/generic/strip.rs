//! Programs over one strip of columns.

use super::product::product;
use crate::program::{EXTERNAL, Opcode, STEP, Strip};
use crate::vector::Vector;

/// Runs a program over one strip of columns.
///
/// # Safety
///
/// The strip was made by [`Program::run`](crate::Program::run), which checks that every row the
/// program names exists and every written external row is exclusive; the CPU has `V`'s
/// instruction set.
#[inline(always)]
pub(crate) unsafe fn run<V: Vector>(strip: &mut Strip<'_>) {
    let code = strip.code;
    let mut at = 0;
    while at < code.len() {
        // SAFETY: the builder writes whole instructions only, and checked every operand.
        unsafe {
            let opcode = Opcode::from_word(*code.get_unchecked(at));
            let first = *code.get_unchecked(at + 1) as usize;
            let block = at + 2..at + 2 + first;
            match opcode {
                Opcode::Steps => {
                    sums::<V>(strip, code.get_unchecked(block));
                    at += 2 + first;
                }
                Opcode::Product => {
                    let bases = *code.get_unchecked(at + 2) as usize;
                    let inputs = *code.get_unchecked(at + 3) as usize;
                    let coefficients = *code.get_unchecked(at + 4) as usize;
                    let end = at + 5 + first + bases + inputs;
                    let (outputs, rest) = code.get_unchecked(at + 5..end).split_at_unchecked(first);
                    let (bases, inputs) = rest.split_at_unchecked(bases);
                    product::<V>(strip, (outputs, bases, inputs), coefficients);
                    at = end;
                }
                Opcode::Fold => {
                    let sums = *code.get_unchecked(at + 2);
                    fold::<V>(strip, code.get_unchecked(at + 3..at + 3 + first), sums);
                    at += 3 + first;
                }
            }
        }
    }
}

/// Sums of four rows each, the first of which may be external, into work rows or `OUT` into external ones.
#[inline(always)]
unsafe fn sums<V: Vector>(strip: &Strip<'_>, sums: &[u32]) {
    let sums = sums.as_chunks::<STEP>().0;
    // SAFETY: as the caller vouches; each arm is for full strips of that length.
    unsafe {
        match (strip.stride, strip.width == strip.stride) {
            (64, true) => full_sums::<V, 64>(strip, sums),
            (128, true) => full_sums::<V, 128>(strip, sums),
            (256, true) => full_sums::<V, 256>(strip, sums),
            (512, true) => full_sums::<V, 512>(strip, sums),
            _ => any_sums::<V>(strip, sums),
        }
    }
}

/// How many steps ahead external rows of `bytes` are fetched: far enough for memory, near enough for
/// the first cache, where symbols whose length is a power of two share a few sets.
const fn ahead(bytes: usize) -> usize {
    if bytes >= 512 { 4 } else { 8 }
}

/// All sums over a strip of `BYTES` bytes: with a constant, the distance of rows is a shift, and
/// there are no loops within a sum.
#[inline(always)]
unsafe fn full_sums<V: Vector, const BYTES: usize>(strip: &Strip<'_>, sums: &[[u32; STEP]]) {
    // At most eight vectors at a time: they are in registers then.
    let group = const { if BYTES < 8 * V::BYTES { BYTES / V::BYTES } else { 8 } };
    for (i, sum) in sums.iter().enumerate() {
        // SAFETY: operands were checked when the sum was recorded; all rows are as long as the
        // strip.
        unsafe {
            if let Some(&[to, from, ..]) = sums.get(i + const { ahead(BYTES) }) {
                if from & EXTERNAL != 0 {
                    let from = strip.external(from & !EXTERNAL);
                    for at in (0..BYTES).step_by(64) {
                        V::prefetch(from.add(at));
                    }
                }
                if to & EXTERNAL != 0 {
                    let to = strip.external(to & !EXTERNAL);
                    for at in (0..BYTES).step_by(64) {
                        V::prefetch_write(to.add(at));
                    }
                }
            }
            let rows = strip.workspace;
            let [to, a, b, c, d] = *sum;
            let a = if a & EXTERNAL != 0 {
                strip.external(a & !EXTERNAL)
            } else {
                rows.add(a as usize * BYTES)
            };
            let to = if to & EXTERNAL != 0 {
                strip.external(to & !EXTERNAL)
            } else {
                rows.add(to as usize * BYTES)
            };
            let b = rows.add(b as usize * BYTES);
            let (c, d) = (rows.add(c as usize * BYTES), rows.add(d as usize * BYTES));
            for start in (0..BYTES).step_by(group * V::BYTES) {
                let mut sums = [V::zero(); 8];
                for (i, sum) in sums.iter_mut().enumerate().take(group) {
                    let at = start + i * V::BYTES;
                    let first = V::load(a.add(at)).xor(V::load(b.add(at)));
                    *sum = first.xor(V::load(c.add(at)).xor(V::load(d.add(at))));
                }
                for (i, sum) in sums.iter().enumerate().take(group) {
                    sum.store(to.add(start + i * V::BYTES));
                }
            }
        }
    }
}

/// All sums over a strip of any width, a vector at a time. Work rows are whole vectors; external
/// ones are read and written to the end of the strip only.
#[inline(always)]
unsafe fn any_sums<V: Vector>(strip: &Strip<'_>, sums: &[[u32; STEP]]) {
    let whole = strip.width / V::BYTES * V::BYTES;
    let tail = strip.width - whole;
    for &[to, a, b, c, d] in sums {
        // SAFETY: operands were checked when the sum was recorded; see above for the lengths.
        unsafe {
            let first = strip.row(a);
            let end = strip.row(to);
            let (b, c, d) = (strip.work(b), strip.work(c), strip.work(d));
            for at in (0..whole).step_by(V::BYTES) {
                let sum = V::load(first.add(at)).xor(V::load(b.add(at)));
                sum.xor(V::load(c.add(at)).xor(V::load(d.add(at)))).store(end.add(at));
            }
            if tail != 0 {
                let first = if a & EXTERNAL != 0 {
                    V::load_partial(first.add(whole), tail)
                } else {
                    V::load(first.add(whole))
                };
                let sum = first.xor(V::load(b.add(whole)));
                let sum = sum.xor(V::load(c.add(whole)).xor(V::load(d.add(whole))));
                if to & EXTERNAL != 0 {
                    sum.store_partial(end.add(whole), tail);
                } else {
                    sum.store(end.add(whole));
                }
            }
        }
    }
}

/// The HDPC fold over the work rows `columns` into the sums from row `first` on.
#[inline(always)]
unsafe fn fold<V: Vector>(strip: &Strip<'_>, columns: &[u32], first: u32) {
    let vectors = strip.stride / V::BYTES;
    let mut at = 0;
    // SAFETY: work rows are as long as the stride, which holds `vectors` whole vectors.
    unsafe {
        while vectors - at >= 8 {
            fold_vectors::<V, 8>(strip, columns, first, at * V::BYTES);
            at += 8;
        }
        while vectors - at >= 4 {
            fold_vectors::<V, 4>(strip, columns, first, at * V::BYTES);
            at += 4;
        }
        if vectors - at >= 2 {
            fold_vectors::<V, 2>(strip, columns, first, at * V::BYTES);
            at += 2;
        }
        if vectors > at {
            fold_vectors::<V, 1>(strip, columns, first, at * V::BYTES);
        }
    }
}

#[inline(always)]
unsafe fn fold_vectors<V: Vector, const N: usize>(
    strip: &Strip<'_>,
    columns: &[u32],
    first: u32,
    offset: usize,
) {
    // SAFETY: the columns and the sums from `first` on were checked when the fold was recorded,
    // for as many columns and sums as `Program::run` saw to be in `pairs`, whose entries were
    // checked against the number of sums when they were made.
    unsafe {
        let sums = strip.work(first).add(offset);
        for sum in 0..strip.sums {
            for i in 0..N {
                V::zero().store(sums.add(sum * strip.stride + i * V::BYTES));
            }
        }
        let mut z = [V::zero(); N];
        let last = strip.pairs.len() - 1;
        for (pair, &column) in strip.pairs[..last].iter().zip(columns) {
            let from = strip.work(column).add(offset);
            let first = sums.add(usize::from(pair[0]) * strip.stride);
            let second = sums.add(usize::from(pair[1]) * strip.stride);
            for (i, z) in z.iter_mut().enumerate() {
                let at = i * V::BYTES;
                *z = z.double().xor(V::load(from.add(at)));
                V::load(first.add(at)).xor(*z).store(first.add(at));
                V::load(second.add(at)).xor(*z).store(second.add(at));
            }
        }
        let from = strip.work(columns[last]).add(offset);
        for (i, z) in z.iter_mut().enumerate() {
            *z = z.double().xor(V::load(from.add(i * V::BYTES)));
        }
        for sum in 0..strip.sums {
            let sum = sums.add(sum * strip.stride);
            for (i, z) in z.iter_mut().enumerate() {
                let at = i * V::BYTES;
                V::load(sum.add(at)).xor(*z).store(sum.add(at));
                *z = z.double();
            }
        }
    }
}
