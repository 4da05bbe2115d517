//! AVX2: 32 bytes a vector, multiplication by two byte shuffles.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use crate::gf256::NIBBLES;
use crate::vector::Vector;

/// How vectors of 32 bytes are multiplied.
///
/// # Safety
///
/// The instructions are those the implementor names, which callers know to be present.
pub(crate) unsafe trait Multiply: Copy {
    /// See [`Vector::Shape`].
    type Shape: crate::vector::Shape;
    /// See [`Vector::Coefficient`].
    type Coefficient: Copy;
    /// See [`Vector::Factor`].
    type Factor: Copy;

    /// See [`Vector::coefficient`].
    unsafe fn coefficient(value: u8) -> Self::Coefficient;
    /// See [`Vector::factor`].
    unsafe fn factor(vector: __m256i) -> Self::Factor;
    /// The product.
    unsafe fn multiply(factor: Self::Factor, coefficient: Self::Coefficient) -> __m256i;
    /// Adds `coefficient * factors` to `sums`.
    #[inline(always)]
    unsafe fn mul_add_run<const C: usize>(
        sums: &mut [Ymm<Self>; C],
        factors: &[Self::Factor; C],
        coefficient: Self::Coefficient,
    ) {
        for (sum, factor) in sums.iter_mut().zip(factors) {
            // SAFETY: no memory is touched; features as callers know.
            *sum =
                Ymm::of(unsafe { _mm256_xor_si256(sum.0, Self::multiply(*factor, coefficient)) });
        }
    }
}

/// By two byte shuffles: AVX2 alone.
#[derive(Clone, Copy)]
pub(crate) struct Shuffles;

// SAFETY: the instructions are AVX2.
unsafe impl Multiply for Shuffles {
    type Shape = crate::vector::Narrow;
    type Coefficient = (__m256i, __m256i);
    type Factor = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn coefficient(value: u8) -> Self::Coefficient {
        let table = &NIBBLES[usize::from(value)];
        // SAFETY: both halves of the table have 16 bytes; features as above.
        unsafe {
            (
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.low.as_ptr().cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.high.as_ptr().cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn factor(vector: __m256i) -> Self::Factor {
        // SAFETY: features as above.
        unsafe {
            let nibble = _mm256_set1_epi8(0x0f);
            (
                _mm256_and_si256(vector, nibble),
                _mm256_and_si256(_mm256_srli_epi64::<4>(vector), nibble),
            )
        }
    }

    #[inline(always)]
    unsafe fn multiply(factor: Self::Factor, coefficient: Self::Coefficient) -> __m256i {
        // SAFETY: features as above.
        unsafe {
            let low = _mm256_shuffle_epi8(coefficient.0, factor.0);
            let high = _mm256_shuffle_epi8(coefficient.1, factor.1);
            _mm256_xor_si256(low, high)
        }
    }

    #[inline(always)]
    unsafe fn mul_add_run<const C: usize>(
        sums: &mut [Ymm<Self>; C],
        factors: &[Self::Factor; C],
        coefficient: Self::Coefficient,
    ) {
        // SAFETY: features as above.
        unsafe {
            for (sum, factor) in sums.iter_mut().zip(factors) {
                let low = _mm256_shuffle_epi8(coefficient.0, factor.0);
                *sum = Ymm::of(_mm256_xor_si256(sum.0, low));
            }
            for (sum, factor) in sums.iter_mut().zip(factors) {
                let high = _mm256_shuffle_epi8(coefficient.1, factor.1);
                *sum = Ymm::of(_mm256_xor_si256(sum.0, high));
            }
        }
    }
}

/// Thirty-two bytes, multiplied as `M` does.
#[derive(Clone, Copy)]
pub(crate) struct Ymm<M>(__m256i, PhantomData<M>);

impl<M> Ymm<M> {
    #[inline(always)]
    fn of(bytes: __m256i) -> Self {
        Self(bytes, PhantomData)
    }
}

/// Whether this CPU runs these kernels.
pub(crate) fn detect() -> bool {
    is_x86_feature_detected!("avx2")
}

// SAFETY: loads and stores cover 32 bytes; the partial forms go through a local array and copy
// `len` bytes only. The instructions are AVX2, which callers know to be present, and those of `M`.
unsafe impl<M: Multiply> Vector for Ymm<M> {
    const BYTES: usize = 32;
    const JOINS: bool = false;
    type Shape = M::Shape;
    type Coefficient = M::Coefficient;
    type Factor = M::Factor;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: features as above.
        Self::of(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 32 readable bytes.
        Self::of(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const u8, len: usize) -> Self {
        let mut bytes = [0u8; 32];
        // SAFETY: the caller vouches for `len < 32` readable bytes; the array has 32.
        unsafe {
            core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len);
            Self::load(bytes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for 32 writable bytes.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, len: usize) {
        let mut bytes = [0u8; 32];
        // SAFETY: the array has 32 bytes; the caller vouches for `len < 32` writable ones.
        unsafe {
            self.store(bytes.as_mut_ptr());
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len);
        }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }

    #[inline(always)]
    unsafe fn prefetch_write(at: *mut u8) {
        // SAFETY: a prefetch never faults, and CPUs without this one take it for nothing.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.cast_const().cast()) };
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: features as above.
        Self::of(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn coefficient(value: u8) -> M::Coefficient {
        // SAFETY: features as above.
        unsafe { M::coefficient(value) }
    }

    #[inline(always)]
    unsafe fn factor(self) -> M::Factor {
        // SAFETY: features as above.
        unsafe { M::factor(self.0) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: M::Factor, coefficient: M::Coefficient) -> Self {
        // SAFETY: features as above.
        Self::of(unsafe { _mm256_xor_si256(self.0, M::multiply(factor, coefficient)) })
    }

    #[inline(always)]
    unsafe fn mul_add_run<const C: usize>(
        sums: &mut [Self; C],
        factors: &[M::Factor; C],
        coefficient: M::Coefficient,
    ) {
        // SAFETY: features as above.
        unsafe { M::mul_add_run(sums, factors, coefficient) };
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: features as above.
        unsafe {
            let overflow = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduction = _mm256_and_si256(overflow, _mm256_set1_epi8(0x1d));
            Self::of(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduction))
        }
    }

    #[inline(always)]
    unsafe fn spread(bits: u64) -> Self {
        // SAFETY: features as above.
        unsafe {
            // Byte i gets the byte of `bits` that holds bit i, then that bit alone is kept.
            let all = _mm256_set1_epi32(bits as u32 as i32);
            let bytes = _mm256_shuffle_epi8(
                all,
                _mm256_setr_epi64x(
                    0,
                    0x0101_0101_0101_0101,
                    0x0202_0202_0202_0202,
                    0x0303_0303_0303_0303,
                ),
            );
            let single = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, single), single);
            Self::of(_mm256_and_si256(set, _mm256_set1_epi8(1)))
        }
    }
}

crate::generic::instantiate!(crate::avx2::Ymm<crate::avx2::Shuffles>, "avx2");
