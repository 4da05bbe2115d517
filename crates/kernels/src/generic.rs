//! Every kernel, written once over [`Vector`].
//!
//! Nothing here is called directly: `instantiate!` wraps each body in a function that enables the
//! instruction set, into which the body and the vector operations are inlined.

use crate::program::{Opcode, STEP, Strip};
use crate::vector::Vector;

/// `dst ^= src`.
///
/// # Safety
///
/// `dst` and `src` are valid for `len` bytes, and the CPU has `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn xor<V: Vector>(dst: *mut u8, src: *const u8, len: usize) {
    let mut at = 0;
    // SAFETY: `at + V::BYTES <= len` in the loop, and the tail covers `len - at` bytes.
    unsafe {
        while at + V::BYTES <= len {
            V::load(dst.add(at)).xor(V::load(src.add(at))).store(dst.add(at));
            at += V::BYTES;
        }
        if at < len {
            let tail = len - at;
            V::load_partial(dst.add(at), tail)
                .xor(V::load_partial(src.add(at), tail))
                .store_partial(dst.add(at), tail);
        }
    }
}

/// `dst ^= coefficient * src`.
///
/// # Safety
///
/// `dst` and `src` are valid for `len` bytes, and the CPU has `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn mul_add<V: Vector>(dst: *mut u8, src: *const u8, len: usize, value: u8) {
    let mut at = 0;
    // SAFETY: `at + V::BYTES <= len` in the loop, and the tail covers `len - at` bytes.
    unsafe {
        let coefficient = V::coefficient(value);
        while at + V::BYTES <= len {
            let factor = V::load(src.add(at)).factor();
            V::load(dst.add(at)).mul_add(factor, coefficient).store(dst.add(at));
            at += V::BYTES;
        }
        if at < len {
            let tail = len - at;
            let factor = V::load_partial(src.add(at), tail).factor();
            V::load_partial(dst.add(at), tail)
                .mul_add(factor, coefficient)
                .store_partial(dst.add(at), tail);
        }
    }
}

/// `dst = coefficient * dst`.
///
/// # Safety
///
/// `dst` is valid for `len` bytes, and the CPU has `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn scale<V: Vector>(dst: *mut u8, len: usize, value: u8) {
    let mut at = 0;
    // SAFETY: `at + V::BYTES <= len` in the loop, and the tail covers `len - at` bytes.
    unsafe {
        let coefficient = V::coefficient(value);
        while at + V::BYTES <= len {
            let factor = V::load(dst.add(at)).factor();
            V::zero().mul_add(factor, coefficient).store(dst.add(at));
            at += V::BYTES;
        }
        if at < len {
            let tail = len - at;
            let factor = V::load_partial(dst.add(at), tail).factor();
            V::zero().mul_add(factor, coefficient).store_partial(dst.add(at), tail);
        }
    }
}

/// `rows[i] ^= factors[i] * row` for rows of `len` bytes at distance `stride`.
///
/// # Safety
///
/// `row` is valid for `len` bytes and `rows` for `(factors.len() - 1) * stride + len`, they do not
/// overlap, and the CPU has `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn rank_one<V: Vector>(
    rows: *mut u8,
    stride: usize,
    factors: &[u8],
    row: *const u8,
    len: usize,
) {
    for (i, &factor) in factors.iter().enumerate() {
        if factor != 0 {
            // SAFETY: row `i` lies within the matrix.
            unsafe { mul_add::<V>(rows.add(i * stride), row, len, factor) };
        }
    }
}

/// `dst ^= sum of factors[i] * rows[i]` for rows of `len` bytes at distance `stride`.
///
/// # Safety
///
/// `dst` is valid for `len` bytes and `rows` for `(factors.len() - 1) * stride + len`, they do not
/// overlap, and the CPU has `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn combine<V: Vector>(
    dst: *mut u8,
    rows: *const u8,
    stride: usize,
    factors: &[u8],
    len: usize,
) {
    let mut at = 0;
    // SAFETY: the blocks cover bytes `0..len` of each row.
    unsafe {
        while at + 2 * V::BYTES <= len {
            let mut sums = [V::load(dst.add(at)), V::load(dst.add(at + V::BYTES))];
            for (i, &factor) in factors.iter().enumerate() {
                let coefficient = V::coefficient(factor);
                let from = rows.add(i * stride + at);
                sums[0] = sums[0].mul_add(V::load(from).factor(), coefficient);
                sums[1] = sums[1].mul_add(V::load(from.add(V::BYTES)).factor(), coefficient);
            }
            sums[0].store(dst.add(at));
            sums[1].store(dst.add(at + V::BYTES));
            at += 2 * V::BYTES;
        }
        while at < len {
            let left = len - at;
            let whole = left >= V::BYTES;
            let read = |from: *const u8| {
                if whole { V::load(from) } else { V::load_partial(from, left) }
            };
            let mut sum = read(dst.add(at));
            for (i, &factor) in factors.iter().enumerate() {
                let from = read(rows.add(i * stride + at));
                sum = sum.mul_add(from.factor(), V::coefficient(factor));
            }
            if whole {
                sum.store(dst.add(at));
            } else {
                sum.store_partial(dst.add(at), left);
            }
            at += V::BYTES;
        }
    }
}

/// `dst = sum of rows` of a slab with rows at distance `stride`.
///
/// # Safety
///
/// `dst` is valid for `len` bytes, every named row of the slab is, and the CPU has `V`'s
/// instruction set.
#[inline(always)]
pub(crate) unsafe fn gather<V: Vector>(
    dst: *mut u8,
    len: usize,
    slab: *const u8,
    stride: usize,
    rows: &[u32],
) {
    let mut at = 0;
    // SAFETY: the chunks cover bytes `0..len` of each row.
    unsafe {
        while at + 8 * V::BYTES <= len {
            let mut sum = [V::zero(); 8];
            for &row in rows {
                let from = slab.add(row as usize * stride + at);
                for (i, sum) in sum.iter_mut().enumerate() {
                    *sum = sum.xor(V::load(from.add(i * V::BYTES)));
                }
            }
            for (i, sum) in sum.iter().enumerate() {
                sum.store(dst.add(at + i * V::BYTES));
            }
            at += 8 * V::BYTES;
        }
        while at < len {
            let tail = len - at;
            let mut sum = V::zero();
            for &row in rows {
                let from = slab.add(row as usize * stride + at);
                sum = sum.xor(if tail < V::BYTES {
                    V::load_partial(from, tail)
                } else {
                    V::load(from)
                });
            }
            if tail < V::BYTES {
                sum.store_partial(dst.add(at), tail);
            } else {
                sum.store(dst.add(at));
            }
            at += V::BYTES;
        }
    }
}

/// The HDPC rows of RFC 6330 §5.3.3.3 applied to bit rows: for each word of 64 columns,
/// `z_j = α z_{j-1} + bits_j` is added to the two sums `pairs[j]` names, and at the last `j`
/// α^i z to every sum `i`.
///
/// # Safety
///
/// `bits` holds `pairs.len()` rows of `words` words, `out` is valid for `sums` rows of
/// `64 * words` bytes and zeroed, every pair is below `sums`, and the CPU has `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn fold_bits<V: Vector>(
    bits: &[u64],
    words: usize,
    pairs: &[[u8; 2]],
    out: *mut u8,
    sums: usize,
) {
    let stride = 64 * words;
    for word in 0..words {
        for lane in (0..64).step_by(V::BYTES) {
            // SAFETY: `word * 64 + lane + V::BYTES <= stride`, and the pairs name rows of `out`.
            unsafe {
                let base = out.add(word * 64 + lane);
                let add = |sum: usize, value: V| {
                    let at = base.add(sum * stride);
                    V::load(at).xor(value).store(at);
                };
                let mut z = V::zero();
                for (j, pair) in pairs.iter().enumerate() {
                    z = z.double().xor(V::spread(*bits.get_unchecked(j * words + word) >> lane));
                    if j + 1 < pairs.len() {
                        add(usize::from(pair[0]), z);
                        add(usize::from(pair[1]), z);
                    }
                }
                for sum in 0..sums {
                    add(sum, z);
                    z = z.double();
                }
            }
        }
    }
}

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
                    steps::<V>(strip, code.get_unchecked(block));
                    at += 2 + first;
                }
                Opcode::Load => {
                    load::<V>(strip, code.get_unchecked(block));
                    at += 2 + first;
                }
                Opcode::Store => {
                    store::<V>(strip, code.get_unchecked(block));
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

/// Work rows from external rows. What lies beyond the end of the strip becomes zero up to a whole
/// vector, so that all other instructions work on whole vectors.
#[inline(always)]
unsafe fn load<V: Vector>(strip: &Strip<'_>, rows: &[u32]) {
    let whole = strip.width / V::BYTES;
    let tail = strip.width % V::BYTES;
    for pair in rows.as_chunks::<2>().0 {
        // SAFETY: operands were checked by `Program::run`; the external row is read to the end of
        // the strip only, and a work row holds whole vectors.
        unsafe {
            let (to, from) = (strip.work(pair[0]), strip.external(pair[1]));
            for i in 0..whole {
                V::load(from.add(i * V::BYTES)).store(to.add(i * V::BYTES));
            }
            if tail != 0 {
                let at = whole * V::BYTES;
                V::load_partial(from.add(at), tail).store(to.add(at));
            }
        }
    }
}

/// External rows from work rows.
#[inline(always)]
unsafe fn store<V: Vector>(strip: &Strip<'_>, rows: &[u32]) {
    let whole = strip.width / V::BYTES;
    let tail = strip.width % V::BYTES;
    for pair in rows.as_chunks::<2>().0 {
        // SAFETY: operands were checked by `Program::run`; the external row is written to the end
        // of the strip only.
        unsafe {
            let (to, from) = (strip.external(pair[0]), strip.work(pair[1]));
            for i in 0..whole {
                V::load(from.add(i * V::BYTES)).store(to.add(i * V::BYTES));
            }
            if tail != 0 {
                let at = whole * V::BYTES;
                V::load(from.add(at)).store_partial(to.add(at), tail);
            }
        }
    }
}

/// Sums of four work rows each.
#[inline(always)]
unsafe fn steps<V: Vector>(strip: &Strip<'_>, steps: &[u32]) {
    let vectors = strip.width.div_ceil(V::BYTES);
    // SAFETY: each call covers whole vectors within the stride.
    unsafe {
        match vectors {
            1 => steps_of::<V, 1>(strip, steps, 0),
            2 => steps_of::<V, 2>(strip, steps, 0),
            3 => steps_of::<V, 3>(strip, steps, 0),
            4 => steps_of::<V, 4>(strip, steps, 0),
            _ => {
                let mut first = 0;
                // One pass for every eight vectors would reload the steps, which are short; a pass
                // over the rows of a few columns keeps them in cache.
                while vectors - first >= 8 {
                    steps_of::<V, 8>(strip, steps, first * V::BYTES);
                    first += 8;
                }
                while vectors - first >= 4 {
                    steps_of::<V, 4>(strip, steps, first * V::BYTES);
                    first += 4;
                }
                while first < vectors {
                    steps_of::<V, 1>(strip, steps, first * V::BYTES);
                    first += 1;
                }
            }
        }
    }
}

/// All steps over `N` vectors from byte `offset` of the strip on.
#[inline(always)]
unsafe fn steps_of<V: Vector, const N: usize>(strip: &Strip<'_>, steps: &[u32], offset: usize) {
    for step in steps.as_chunks::<STEP>().0 {
        // SAFETY: operands were checked when the step was recorded; work rows are as long as the
        // stride, which holds the vectors at `offset`.
        unsafe {
            let [to, a, b, c, d] = step.map(|row| strip.work(row).add(offset));
            let mut sums = [V::zero(); N];
            for (i, sum) in sums.iter_mut().enumerate() {
                let at = i * V::BYTES;
                let first = V::load(a.add(at)).xor(V::load(b.add(at)));
                *sum = first.xor(V::load(c.add(at)).xor(V::load(d.add(at))));
            }
            for (i, sum) in sums.iter().enumerate() {
                sum.store(to.add(i * V::BYTES));
            }
        }
    }
}

/// The HDPC fold over the work rows `columns` into the sums from row `first` on.
#[inline(always)]
unsafe fn fold<V: Vector>(strip: &Strip<'_>, columns: &[u32], first: u32) {
    let vectors = strip.width.div_ceil(V::BYTES);
    let mut at = 0;
    // SAFETY: work rows are as long as the stride, which holds `vectors` whole vectors.
    unsafe {
        while vectors - at >= 4 {
            fold_chunk::<V, 4>(strip, columns, first, at * V::BYTES);
            at += 4;
        }
        while at < vectors {
            fold_chunk::<V, 1>(strip, columns, first, at * V::BYTES);
            at += 1;
        }
    }
}

#[inline(always)]
unsafe fn fold_chunk<V: Vector, const N: usize>(
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
        let add = |sum: usize, values: &[V; N]| {
            let at = sums.add(sum * strip.stride);
            for (i, value) in values.iter().enumerate() {
                V::load(at.add(i * V::BYTES)).xor(*value).store(at.add(i * V::BYTES));
            }
        };
        let mut z = [V::zero(); N];
        for (j, (pair, &column)) in strip.pairs.iter().zip(columns).enumerate() {
            let from = strip.work(column).add(offset);
            for (i, z) in z.iter_mut().enumerate() {
                *z = z.double().xor(V::load(from.add(i * V::BYTES)));
            }
            if j + 1 < strip.pairs.len() {
                add(usize::from(pair[0]), &z);
                add(usize::from(pair[1]), &z);
            }
        }
        for sum in 0..strip.sums {
            add(sum, &z);
            for z in &mut z {
                *z = z.double();
            }
        }
    }
}

/// One matrix product. `rows` names outputs, then the rows each output starts from (as many, or
/// none), then inputs.
#[inline(always)]
unsafe fn product<V: Vector>(
    strip: &mut Strip<'_>,
    (outputs, bases, inputs): (&[u32], &[u32], &[u32]),
    coefficients: usize,
) {
    let mut pointers = core::mem::take(strip.pointers);
    pointers.clear();
    // SAFETY: operands were checked by `Program::run`.
    pointers.extend(inputs.iter().map(|&row| unsafe { strip.row(row) }.cast_const()));
    let n = inputs.len();
    let mut first = 0;
    while first < outputs.len() {
        let left = outputs.len() - first;
        // Blocks of equal height where a whole number of full ones does not fit: a lone last row
        // would cost as much loading as a full block.
        let rows = left.div_ceil(left.div_ceil(V::Shape::HEIGHT));
        // SAFETY: operands were checked by `Program::run`, and the builder stored
        // `outputs * inputs` coefficients from there on.
        unsafe {
            let matrix = coefficients + first * n..coefficients + (first + rows) * n;
            let mut block = Product {
                coefficients: strip.coefficients.get_unchecked(matrix),
                inputs: &pointers,
                bases: [core::ptr::null(); 8],
                outputs: [core::ptr::null_mut(); 8],
            };
            for (i, &row) in outputs[first..first + rows].iter().enumerate() {
                block.outputs[i] = strip.row(row);
                if let Some(&base) = bases.get(first + i) {
                    block.bases[i] = strip.row(base);
                }
            }
            V::Shape::product::<V>(&block, rows, strip.width);
        }
        first += rows;
    }
    *strip.pointers = pointers;
}

/// Rows of a matrix product handled together.
pub(crate) struct Product<'a> {
    /// Row-major coefficients, one row an output.
    coefficients: &'a [u8],
    inputs: &'a [*const u8],
    /// What is added to each output; all null if nothing is.
    bases: [*const u8; 8],
    outputs: [*mut u8; 8],
}

/// How many outputs and vectors a matrix product holds in registers.
pub(crate) trait Shape {
    /// Most outputs at a time.
    const HEIGHT: usize;

    /// Computes `rows` outputs of `len` bytes.
    ///
    /// # Safety
    ///
    /// All rows are valid for `len` bytes, inputs and bases do not overlap outputs, and the CPU
    /// has `V`'s instruction set.
    unsafe fn product<V: Vector>(block: &Product<'_>, rows: usize, len: usize);
}

/// Thirty-two registers, and one for a prepared coefficient.
pub(crate) struct Wide;

impl Shape for Wide {
    const HEIGHT: usize = 8;

    #[inline(always)]
    unsafe fn product<V: Vector>(block: &Product<'_>, rows: usize, len: usize) {
        // SAFETY: as the caller vouches.
        unsafe {
            match rows {
                1 => columns::<V, 1, 12, 4>(block, len),
                2 => columns::<V, 2, 8, 4>(block, len),
                3 => columns::<V, 3, 6, 2>(block, len),
                4 => columns::<V, 4, 4, 2>(block, len),
                5 => columns::<V, 5, 4, 2>(block, len),
                6 => columns::<V, 6, 3, 1>(block, len),
                7 => columns::<V, 7, 3, 1>(block, len),
                _ => columns::<V, 8, 2, 1>(block, len),
            }
        }
    }
}

/// Sixteen registers, or two for each prepared coefficient and vector.
pub(crate) struct Narrow;

impl Shape for Narrow {
    const HEIGHT: usize = 4;

    #[inline(always)]
    unsafe fn product<V: Vector>(block: &Product<'_>, rows: usize, len: usize) {
        // SAFETY: as the caller vouches.
        unsafe {
            match rows {
                1 => columns::<V, 1, 4, 2>(block, len),
                2 => columns::<V, 2, 2, 1>(block, len),
                3 => columns::<V, 3, 2, 1>(block, len),
                _ => columns::<V, 4, 2, 1>(block, len),
            }
        }
    }
}

/// `R` outputs over all columns, `C` vectors at a time; `D` of them, or one, where rows are shorter.
///
/// The last vectors are taken from the end of the rows: some columns are computed twice, to the
/// same result, and no vector is partial unless the whole row is.
#[inline(always)]
unsafe fn columns<V: Vector, const R: usize, const C: usize, const D: usize>(
    block: &Product<'_>,
    len: usize,
) {
    // SAFETY: as the caller vouches; each arm takes vectors that fit into the rows.
    unsafe {
        if len >= C * V::BYTES {
            spread_columns::<V, R, C>(block, len);
        } else if D > 1 && len >= D * V::BYTES {
            spread_columns::<V, R, D>(block, len);
        } else if len >= V::BYTES {
            spread_columns::<V, R, 1>(block, len);
        } else {
            product_registers::<V, R, 1, true>(block, 0, len);
        }
    }
}

/// `R` outputs over rows of at least `C` vectors.
#[inline(always)]
unsafe fn spread_columns<V: Vector, const R: usize, const C: usize>(
    block: &Product<'_>,
    len: usize,
) {
    let width = C * V::BYTES;
    for at in (0..len).step_by(width) {
        // SAFETY: the block ends at the end of the rows at the latest.
        unsafe { product_registers::<V, R, C, false>(block, at.min(len - width), V::BYTES) };
    }
}

/// `C` vectors, the last of which has only `last` bytes if `PARTIAL`.
#[inline(always)]
unsafe fn load_vectors<V: Vector, const C: usize, const PARTIAL: bool>(
    from: *const u8,
    last: usize,
) -> [V; C] {
    // SAFETY: the caller vouches for `(C - 1) * V::BYTES + last` readable bytes.
    unsafe {
        let mut vectors = [V::zero(); C];
        for (c, vector) in vectors.iter_mut().enumerate() {
            let from = from.add(c * V::BYTES);
            *vector =
                if PARTIAL && c + 1 == C { V::load_partial(from, last) } else { V::load(from) };
        }
        vectors
    }
}

/// `C` vectors of an input, prepared to be multiplied.
///
/// A loop and no closure: a closure that is not inlined would be compiled without the instruction
/// set, and every operation in it become a call.
#[inline(always)]
unsafe fn load_factors<V: Vector, const C: usize, const PARTIAL: bool>(
    block: &Product<'_>,
    input: usize,
    at: usize,
    last: usize,
) -> [V::Factor; C] {
    // SAFETY: as the caller vouches for `product_registers`.
    unsafe {
        let from = block.inputs.get_unchecked(input).add(at);
        let vectors = load_vectors::<V, C, PARTIAL>(from, last);
        let mut factors = [vectors[0].factor(); C];
        for (factor, vector) in factors.iter_mut().zip(vectors) {
            *factor = vector.factor();
        }
        factors
    }
}

/// `R` outputs times `C` vectors held in registers while all inputs stream by, two at a time:
/// two products and the sum before them then join in one instruction where there is a
/// three-way XOR.
#[inline(always)]
unsafe fn product_registers<V: Vector, const R: usize, const C: usize, const PARTIAL: bool>(
    block: &Product<'_>,
    at: usize,
    last: usize,
) {
    let n = block.inputs.len();
    // SAFETY: the caller vouches for `(C - 1) * V::BYTES + last` bytes at `at` of every row; there
    // are `R * n` coefficients.
    unsafe {
        let mut sums = [[V::zero(); C]; R];
        if !block.bases[0].is_null() {
            for (sums, base) in sums.iter_mut().zip(block.bases) {
                *sums = load_vectors::<V, C, PARTIAL>(base.add(at), last);
            }
        }
        let mut i = 0;
        while i + 2 <= n {
            let first = load_factors::<V, C, PARTIAL>(block, i, at, last);
            let second = load_factors::<V, C, PARTIAL>(block, i + 1, at, last);
            for (r, sums) in sums.iter_mut().enumerate() {
                let a = V::coefficient(*block.coefficients.get_unchecked(r * n + i));
                let b = V::coefficient(*block.coefficients.get_unchecked(r * n + i + 1));
                for (c, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.mul_add(first[c], a).mul_add(second[c], b);
                }
            }
            i += 2;
        }
        if i < n {
            let only = load_factors::<V, C, PARTIAL>(block, i, at, last);
            for (r, sums) in sums.iter_mut().enumerate() {
                let a = V::coefficient(*block.coefficients.get_unchecked(r * n + i));
                for (c, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.mul_add(only[c], a);
                }
            }
        }
        for (sums, to) in sums.iter().zip(block.outputs) {
            for (c, sum) in sums.iter().enumerate() {
                let to = to.add(at + c * V::BYTES);
                if PARTIAL && c + 1 == C {
                    sum.store_partial(to, last);
                } else {
                    sum.store(to);
                }
            }
        }
    }
}

/// See [`fold_bits`].
type FoldBits = unsafe fn(&[u64], usize, &[[u8; 2]], *mut u8, usize);

/// The entry points of one instruction set.
pub(crate) struct Table {
    pub(crate) xor: unsafe fn(*mut u8, *const u8, usize),
    pub(crate) mul_add: unsafe fn(*mut u8, *const u8, usize, u8),
    pub(crate) scale: unsafe fn(*mut u8, usize, u8),
    pub(crate) rank_one: unsafe fn(*mut u8, usize, &[u8], *const u8, usize),
    pub(crate) combine: unsafe fn(*mut u8, *const u8, usize, &[u8], usize),
    pub(crate) gather: unsafe fn(*mut u8, usize, *const u8, usize, &[u32]),
    pub(crate) fold_bits: FoldBits,
    pub(crate) run: unsafe fn(&mut Strip<'_>),
}

/// Defines `TABLE`: every kernel over one vector type, compiled with its features enabled.
macro_rules! instantiate {
    ($vector:ty $(, $features:literal)?) => {
        /// The kernels of this instruction set.
        pub(crate) static TABLE: crate::generic::Table = {
            use crate::generic;

            // SAFETY (all eight): forwarded from the generic bodies; whoever holds this table's
            // `Kernels` token knows that the CPU has the features.
            $(#[target_feature(enable = $features)])?
            unsafe fn xor(dst: *mut u8, src: *const u8, len: usize) {
                // SAFETY: as above.
                unsafe { generic::xor::<$vector>(dst, src, len) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn mul_add(dst: *mut u8, src: *const u8, len: usize, value: u8) {
                // SAFETY: as above.
                unsafe { generic::mul_add::<$vector>(dst, src, len, value) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn scale(dst: *mut u8, len: usize, value: u8) {
                // SAFETY: as above.
                unsafe { generic::scale::<$vector>(dst, len, value) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn rank_one(
                rows: *mut u8,
                stride: usize,
                factors: &[u8],
                row: *const u8,
                len: usize,
            ) {
                // SAFETY: as above.
                unsafe { generic::rank_one::<$vector>(rows, stride, factors, row, len) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn combine(
                dst: *mut u8,
                rows: *const u8,
                stride: usize,
                factors: &[u8],
                len: usize,
            ) {
                // SAFETY: as above.
                unsafe { generic::combine::<$vector>(dst, rows, stride, factors, len) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn gather(
                dst: *mut u8,
                len: usize,
                slab: *const u8,
                stride: usize,
                rows: &[u32],
            ) {
                // SAFETY: as above.
                unsafe { generic::gather::<$vector>(dst, len, slab, stride, rows) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn fold_bits(
                bits: &[u64],
                words: usize,
                pairs: &[[u8; 2]],
                out: *mut u8,
                sums: usize,
            ) {
                // SAFETY: as above.
                unsafe { generic::fold_bits::<$vector>(bits, words, pairs, out, sums) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn run(strip: &mut crate::program::Strip<'_>) {
                // SAFETY: as above.
                unsafe { generic::run::<$vector>(strip) }
            }
            generic::Table { xor, mul_add, scale, rank_one, combine, gather, fold_bits, run }
        };
    };
}
pub(crate) use instantiate;
