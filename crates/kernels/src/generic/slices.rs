//! Whole slices and rows of a matrix: sums, multiples, combinations.

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

/// `sum ^= src` for each of the sums, reading `src` once.
///
/// # Safety
///
/// `src` and every sum are valid for `len` bytes, and the CPU has `V`'s instruction set.
#[inline(always)]
pub(crate) unsafe fn xor_each<V: Vector>(sums: &mut [&mut [u8]], src: *const u8, len: usize) {
    let mut at = 0;
    // SAFETY: `at + 4 * V::BYTES <= len` in the first loop, `at < len` in the second.
    unsafe {
        while at + 4 * V::BYTES <= len {
            let from = V::load_run::<4>(src.add(at));
            for sum in sums.iter_mut() {
                let sum = sum.as_mut_ptr().add(at);
                for (n, from) in from.iter().enumerate() {
                    let to = sum.add(n * V::BYTES);
                    V::load(to).xor(*from).store(to);
                }
            }
            at += 4 * V::BYTES;
        }
        for sum in sums.iter_mut() {
            xor::<V>(sum.as_mut_ptr().add(at), src.add(at), len - at);
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
