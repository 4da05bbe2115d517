//! Matrix products held in registers.

use crate::instruction::MANY_INPUTS;
use crate::strip::Strip;
#[cfg(target_arch = "x86_64")]
use crate::vector::{Medium, Wide};
use crate::vector::{Narrow, Shape, Single, Vector};

/// One matrix product of rows that hold a vector. `rows` names outputs, then the rows each output starts from (as many, or
/// none), then inputs.
///
/// # Safety
///
/// As [`run`](crate::Program::run).
#[inline(always)]
pub(crate) unsafe fn product<V: Vector<Shape: ProductShape>>(
    strip: &mut Strip<'_>,
    (outputs, bases, inputs): (&[u32], &[u32], &[u32]),
    coefficients: usize,
) {
    let mut pointers = core::mem::take(strip.pointers);
    pointers.clear();
    // SAFETY: operands were checked by `Program::run_all`.
    pointers.extend(inputs.iter().map(|&row| unsafe { strip.row(row) }.cast_const()));
    let n = inputs.len();
    let (at_a_time, height) = match few::<V>(outputs.len(), n, strip.width) {
        Some(few) => (few, FEW_OUTPUTS),
        None => (n, V::Shape::HEIGHT),
    };
    let mut first = 0;
    while first < outputs.len() {
        let left = outputs.len() - first;
        // Blocks of equal height where a whole number of full ones does not fit: a lone last row
        // would cost as much loading as a full block.
        let rows = left.div_ceil(left.div_ceil(height));
        // SAFETY: operands were checked by `Program::run`, and the builder stored
        // `outputs * inputs` coefficients from there on.
        unsafe {
            let matrix = coefficients + first * n..coefficients + (first + rows) * n;
            let mut block = Product {
                coefficients: strip.coefficients.get_unchecked(matrix),
                distance: n,
                inputs: &pointers,
                at_a_time,
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

/// As [`product`], of rows shorter than a vector. Reading part of a vector takes longer than the arithmetic, so
/// that there are two heights only, in a function that leaves the other one its registers.
///
/// # Safety
///
/// As [`run`](crate::Program::run).
#[inline(always)]
pub(crate) unsafe fn short_product<V: Vector>(
    strip: &Strip<'_>,
    (outputs, bases, inputs): (&[u32], &[u32], &[u32]),
    coefficients: usize,
) {
    let n = inputs.len();
    let height = if outputs.len() == 1 { 1 } else { V::Shape::HEIGHT };
    for first in (0..outputs.len()).step_by(height) {
        let end = outputs.len().min(first + height);
        // SAFETY: operands were checked by `Program::run`, and the builder stored `outputs * inputs`
        // coefficients from there on.
        unsafe {
            let matrix = strip.coefficients.get_unchecked(coefficients + first * n..);
            let bases = if bases.is_empty() { bases } else { bases.get_unchecked(first..end) };
            let rows = (outputs.get_unchecked(first..end), bases, inputs);
            if end - first == 1 {
                short_rows::<V, 1>(strip, rows, matrix);
            } else {
                short_rows::<V, 8>(strip, rows, matrix);
            }
        }
    }
}

/// At most `R` outputs, or as many as the shape has, of rows shorter than a vector. Where there are fewer, the
/// first is computed again.
#[inline(always)]
unsafe fn short_rows<V: Vector, const R: usize>(
    strip: &Strip<'_>,
    (outputs, bases, inputs): (&[u32], &[u32], &[u32]),
    coefficients: &[u8],
) {
    let height = if R < V::Shape::HEIGHT { R } else { V::Shape::HEIGHT };
    let (n, len) = (inputs.len(), strip.width);
    // SAFETY: as the caller vouches; there is a first output, and coefficients for every input and output.
    unsafe {
        let (mut starts, mut sums) = ([0; R], [V::zero(); R]);
        for row in 0..height {
            let row_or_first = if row < outputs.len() { row } else { 0 };
            starts[row] = row_or_first * n;
            if let Some(&base) = bases.get(row_or_first) {
                sums[row] = V::load_partial(strip.row(base), len);
            }
        }
        for (i, &input) in inputs.iter().enumerate() {
            let factor = V::load_partial(strip.row(input), len).factor();
            for row in 0..height {
                let value = *coefficients.get_unchecked(starts[row] + i);
                sums[row] = sums[row].mul_add(factor, V::coefficient(value));
            }
        }
        for (sum, &to) in sums.iter().zip(outputs) {
            sum.store_partial(strip.row(to), len);
        }
    }
}

/// Outputs at a time beside a few inputs: rows of a power of two stand in one set of the first cache, which has
/// eight ways.
const FEW_OUTPUTS: usize = 4;

/// How many inputs at a time a product of `outputs` by `inputs` rows of `len` bytes goes through from end to
/// end, if not all of them column by column.
fn few<V: Vector>(outputs: usize, inputs: usize, len: usize) -> Option<usize> {
    const PAGE: usize = 4096;
    /// Inputs that the first cache is far too small for: enough, where outputs are as many at a time either way.
    const SOME_INPUTS: usize = 160 << 10;
    let few = if len < PAGE { 6 } else { 4 };
    let least = if outputs <= FEW_OUTPUTS { SOME_INPUTS } else { MANY_INPUTS };
    (V::Shape::STREAMS && inputs > few && inputs.saturating_mul(len) >= least).then_some(few)
}

/// Rows of a matrix product handled together.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    /// Coefficients, one row an output.
    coefficients: &'a [u8],
    /// From the coefficients of one output to those of the next.
    distance: usize,
    inputs: &'a [*const u8],
    /// How many inputs are gone through from end to end before the next: at most all, and then column by column.
    at_a_time: usize,
    /// What is added to each output; all null if nothing is.
    bases: [*const u8; 8],
    outputs: [*mut u8; 8],
}

/// The matrix product of a [`Shape`].
pub(crate) trait ProductShape: Shape {
    /// Computes `rows` outputs of `len` bytes, at least a vector.
    ///
    /// # Safety
    ///
    /// All rows are valid for `len` bytes, inputs and bases do not overlap outputs, and the CPU
    /// has `V`'s instruction set.
    unsafe fn product<V: Vector>(block: &Product<'_>, rows: usize, len: usize);
}

#[cfg(target_arch = "x86_64")]
impl ProductShape for Wide {
    #[inline(always)]
    unsafe fn product<V: Vector>(block: &Product<'_>, rows: usize, len: usize) {
        // SAFETY: as the caller vouches.
        unsafe {
            match rows {
                1 => columns::<V, 1, 12, 4>(block, len),
                2 => columns::<V, 2, 6, 2>(block, len),
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

#[cfg(target_arch = "x86_64")]
impl ProductShape for Medium {
    #[inline(always)]
    unsafe fn product<V: Vector>(block: &Product<'_>, rows: usize, len: usize) {
        // SAFETY: as the caller vouches.
        unsafe {
            match rows {
                1 => columns::<V, 1, 8, 4>(block, len),
                2 => columns::<V, 2, 4, 2>(block, len),
                3 => columns::<V, 3, 3, 1>(block, len),
                4 => columns::<V, 4, 2, 1>(block, len),
                5 => columns::<V, 5, 2, 1>(block, len),
                _ => columns::<V, 6, 2, 1>(block, len),
            }
        }
    }
}

impl ProductShape for Single {
    #[inline(always)]
    unsafe fn product<V: Vector>(block: &Product<'_>, _rows: usize, len: usize) {
        // SAFETY: as the caller vouches, for one row.
        unsafe { columns::<V, 1, 4, 2>(block, len) }
    }
}

impl ProductShape for Narrow {
    #[inline(always)]
    unsafe fn product<V: Vector>(block: &Product<'_>, rows: usize, len: usize) {
        // SAFETY: as the caller vouches.
        unsafe {
            match rows {
                1 => columns::<V, 1, 4, 2>(block, len),
                2 => columns::<V, 2, 2, 1>(block, len),
                3 => columns::<V, 3, 2, 1>(block, len),
                4 => columns::<V, 4, 2, 1>(block, len),
                _ => columns::<V, 5, 2, 1>(block, len),
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
        } else {
            spread_columns::<V, R, 1>(block, len);
        }
    }
}

/// `R` outputs over rows of at least `C` vectors, from all inputs column by column, or from a few after the
/// other, each from end to end, while outputs grow where they stand.
///
/// Column by column, every load of rows that no cache holds would be of another page, whose translation no
/// buffer holds, and of a line that nothing foretold.
#[inline(always)]
unsafe fn spread_columns<V: Vector, const R: usize, const C: usize>(
    block: &Product<'_>,
    len: usize,
) {
    let width = C * V::BYTES;
    let count = block.inputs.len();
    let streams = V::Shape::STREAMS && block.at_a_time < count;
    let whole = if streams { len / width * width } else { 0 };
    let (mut part, mut done) = (*block, 0);
    // One loop for both: what it holds is unrolled once for each `R`, `C` and instruction set.
    loop {
        let streaming = streams && done < count;
        // SAFETY: as the caller vouches; there are coefficients for every input, only whole blocks of columns
        // are streamed, and the last block ends at the end of the rows.
        unsafe {
            let (from, to) = if streaming {
                let next = (done + block.at_a_time).min(count);
                part.inputs = block.inputs.get_unchecked(done..next);
                part.coefficients = block.coefficients.get_unchecked(done..);
                if done > 0 {
                    part.bases = block.outputs.map(<*mut u8>::cast_const);
                }
                done = next;
                (0, whole)
            } else {
                part = *block;
                (whole, len)
            };
            for at in (from..to).step_by(width) {
                product_registers::<V, R, C>(&part, at.min(len - width));
            }
        }
        if !streaming {
            break;
        }
    }
}

/// `C` vectors.
#[inline(always)]
unsafe fn load_vectors<V: Vector, const C: usize>(from: *const u8) -> [V; C] {
    // SAFETY: the caller vouches for `C * V::BYTES` readable bytes.
    unsafe {
        let mut vectors = [V::zero(); C];
        for (c, vector) in vectors.iter_mut().enumerate() {
            *vector = V::load(from.add(c * V::BYTES));
        }
        vectors
    }
}

/// `C` vectors of an input, prepared to be multiplied.
///
/// A loop and no closure: a closure that is not inlined would be compiled without the instruction
/// set, and every operation in it become a call.
#[inline(always)]
unsafe fn load_factors<V: Vector, const C: usize>(
    block: &Product<'_>,
    input: usize,
    at: usize,
    shifts: bool,
) -> [V::Factor; C] {
    // SAFETY: as the caller vouches for `product_registers`.
    unsafe {
        let from = block.inputs.get_unchecked(input).add(at);
        let vectors = if shifts { V::load_run::<C>(from) } else { load_vectors::<V, C>(from) };
        let mut factors = [vectors[0].factor(); C];
        for (factor, vector) in factors.iter_mut().zip(vectors) {
            *factor = vector.factor();
        }
        factors
    }
}

/// `R` outputs times `C` vectors held in registers while all inputs stream by. Two at a time where
/// there is a three-way XOR: two products and the sum before them then join in one instruction.
/// Elsewhere a second input would only take registers.
#[inline(always)]
unsafe fn product_registers<V: Vector, const R: usize, const C: usize>(
    block: &Product<'_>,
    at: usize,
) {
    let (n, distance) = (block.inputs.len(), block.distance);
    // One output or two wait for loads, more of them for arithmetic, which shares its ports with shifts.
    let shifts = const { R <= 2 && C > 1 };
    // One output's only sum has nothing to join.
    let joins = const { V::JOINS && R > 1 };
    // SAFETY: the caller vouches for `C * V::BYTES` bytes at `at` of every row; there
    // are `n` coefficients at each of `R` multiples of `distance`.
    unsafe {
        let mut sums = [[V::zero(); C]; R];
        if !block.bases[0].is_null() {
            for (sums, base) in sums.iter_mut().zip(block.bases) {
                *sums = load_vectors::<V, C>(base.add(at));
            }
        }
        let mut i = 0;
        while joins && i + 2 <= n {
            let first = load_factors::<V, C>(block, i, at, shifts);
            let second = load_factors::<V, C>(block, i + 1, at, shifts);
            for (r, sums) in sums.iter_mut().enumerate() {
                let a = V::coefficient(*block.coefficients.get_unchecked(r * distance + i));
                let b = V::coefficient(*block.coefficients.get_unchecked(r * distance + i + 1));
                for (c, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.mul_add(first[c], a).mul_add(second[c], b);
                }
            }
            i += 2;
        }
        while i < n {
            let only = load_factors::<V, C>(block, i, at, shifts);
            for (r, sums) in sums.iter_mut().enumerate() {
                let a = V::coefficient(*block.coefficients.get_unchecked(r * distance + i));
                V::mul_add_run(sums, &only, a);
            }
            i += 1;
        }
        for (sums, to) in sums.iter().zip(block.outputs) {
            for (c, sum) in sums.iter().enumerate() {
                sum.store(to.add(at + c * V::BYTES));
            }
        }
    }
}
