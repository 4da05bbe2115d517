//! Matrix products held in registers.

use crate::program::{MANY_INPUTS, Strip};
use crate::vector::Vector;

/// One matrix product. `rows` names outputs, then the rows each output starts from (as many, or
/// none), then inputs.
///
/// # Safety
///
/// As [`run`](crate::program::run).
#[inline(always)]
pub(crate) unsafe fn product<V: Vector>(
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

/// How many outputs and vectors a matrix product holds in registers.
pub(crate) trait Shape {
    /// Most outputs at a time.
    const HEIGHT: usize;
    /// Whether what does not fit the second cache is gone through a few inputs at a time.
    const STREAMS: bool;

    /// Computes `rows` outputs of `len` bytes.
    ///
    /// # Safety
    ///
    /// All rows are valid for `len` bytes, inputs and bases do not overlap outputs, and the CPU
    /// has `V`'s instruction set.
    unsafe fn product<V: Vector>(block: &Product<'_>, rows: usize, len: usize);
}

/// Thirty-two registers, and one for a prepared coefficient.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Wide;

#[cfg(target_arch = "x86_64")]
impl Shape for Wide {
    const HEIGHT: usize = 8;
    const STREAMS: bool = false;

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

/// Sixteen registers, and one for a prepared coefficient.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Medium;

#[cfg(target_arch = "x86_64")]
impl Shape for Medium {
    const HEIGHT: usize = 6;
    const STREAMS: bool = false;

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

/// Sixteen registers, or two for each prepared coefficient and vector.
pub(crate) struct Narrow;

impl Shape for Narrow {
    const HEIGHT: usize = 5;
    const STREAMS: bool = true;

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
    let mut start = 0;
    if V::Shape::STREAMS && block.at_a_time < block.inputs.len() {
        start = len / width * width;
        // SAFETY: as the caller vouches, for whole blocks of columns.
        unsafe { stream::<V, R, C>(block, start) };
    }
    for at in (start..len).step_by(width) {
        // SAFETY: the block ends at the end of the rows at the latest.
        unsafe { product_registers::<V, R, C, false>(block, at.min(len - width), V::BYTES) };
    }
}

/// `R` outputs over `len` bytes, a whole number of `C` vectors, from a few inputs after the other, each from
/// end to end; outputs grow where they stand.
///
/// Column by column, every load of rows that no cache holds would be of another page, whose translation no
/// buffer holds, and of a line that nothing foretold.
#[inline(always)]
unsafe fn stream<V: Vector, const R: usize, const C: usize>(block: &Product<'_>, len: usize) {
    let mut part = *block;
    for (i, inputs) in block.inputs.chunks(block.at_a_time).enumerate() {
        part.inputs = inputs;
        // SAFETY: there are coefficients for every input; columns are as the caller vouches.
        unsafe {
            part.coefficients = block.coefficients.get_unchecked(i * block.at_a_time..);
            for at in (0..len).step_by(C * V::BYTES) {
                product_registers::<V, R, C, false>(&part, at, V::BYTES);
            }
        }
        part.bases = block.outputs.map(<*mut u8>::cast_const);
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
    (at, last): (usize, usize),
    shifts: bool,
) -> [V::Factor; C] {
    // SAFETY: as the caller vouches for `product_registers`.
    unsafe {
        let from = block.inputs.get_unchecked(input).add(at);
        let vectors = if PARTIAL || !shifts {
            load_vectors::<V, C, PARTIAL>(from, last)
        } else {
            V::load_run::<C>(from)
        };
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
unsafe fn product_registers<V: Vector, const R: usize, const C: usize, const PARTIAL: bool>(
    block: &Product<'_>,
    at: usize,
    last: usize,
) {
    let (n, distance) = (block.inputs.len(), block.distance);
    // One output or two wait for loads, more of them for arithmetic, which shares its ports with shifts.
    let shifts = const { R <= 2 && C > 1 };
    // One output's only sum has nothing to join.
    let joins = const { V::JOINS && R > 1 };
    // SAFETY: the caller vouches for `(C - 1) * V::BYTES + last` bytes at `at` of every row; there
    // are `n` coefficients at each of `R` multiples of `distance`.
    unsafe {
        let mut sums = [[V::zero(); C]; R];
        if !block.bases[0].is_null() {
            for (sums, base) in sums.iter_mut().zip(block.bases) {
                *sums = load_vectors::<V, C, PARTIAL>(base.add(at), last);
            }
        }
        let mut i = 0;
        while joins && i + 2 <= n {
            let first = load_factors::<V, C, PARTIAL>(block, i, (at, last), shifts);
            let second = load_factors::<V, C, PARTIAL>(block, i + 1, (at, last), shifts);
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
            let only = load_factors::<V, C, PARTIAL>(block, i, (at, last), shifts);
            for (r, sums) in sums.iter_mut().enumerate() {
                let a = V::coefficient(*block.coefficients.get_unchecked(r * distance + i));
                V::mul_add_run(sums, &only, a);
            }
            i += 1;
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
