//! SSSE3: 16 bytes a vector, multiplication by two byte shuffles.

use core::arch::x86_64::*;

use crate::gf256::NIBBLES;
use crate::vector::Vector;

/// Sixteen bytes.
#[derive(Clone, Copy)]
pub(crate) struct Xmm(__m128i);

/// Whether this CPU runs these kernels.
pub(crate) fn detect() -> bool {
    is_x86_feature_detected!("ssse3")
}

// SAFETY: loads and stores cover 16 bytes; the partial forms go through a local array and copy
// `len` bytes only. The instructions are SSSE3, which callers know to be present.
unsafe impl Vector for Xmm {
    const BYTES: usize = 16;
    const JOINS: bool = false;
    type Shape = crate::vector::Narrow;
    type Coefficient = (__m128i, __m128i);
    type Factor = (__m128i, __m128i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: features as above.
        Self(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 readable bytes.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const u8, len: usize) -> Self {
        let mut bytes = [0u8; 16];
        // SAFETY: the caller vouches for `len < 16` readable bytes; the array has 16.
        unsafe {
            core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len);
            Self::load(bytes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for 16 writable bytes.
        unsafe { _mm_storeu_si128(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, len: usize) {
        let mut bytes = [0u8; 16];
        // SAFETY: the array has 16 bytes; the caller vouches for `len < 16` writable ones.
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
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn coefficient(value: u8) -> Self::Coefficient {
        let table = &NIBBLES[usize::from(value)];
        // SAFETY: both halves of the table have 16 bytes; features as above.
        unsafe {
            (
                _mm_loadu_si128(table.low.as_ptr().cast()),
                _mm_loadu_si128(table.high.as_ptr().cast()),
            )
        }
    }

    #[inline(always)]
    unsafe fn factor(self) -> Self::Factor {
        // SAFETY: features as above.
        unsafe {
            let nibble = _mm_set1_epi8(0x0f);
            (_mm_and_si128(self.0, nibble), _mm_and_si128(_mm_srli_epi64::<4>(self.0), nibble))
        }
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self::Factor, coefficient: Self::Coefficient) -> Self {
        // SAFETY: features as above.
        unsafe {
            let low = _mm_shuffle_epi8(coefficient.0, factor.0);
            let high = _mm_shuffle_epi8(coefficient.1, factor.1);
            Self(_mm_xor_si128(self.0, _mm_xor_si128(low, high)))
        }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: features as above.
        unsafe {
            let overflow = _mm_cmpgt_epi8(_mm_setzero_si128(), self.0);
            let reduction = _mm_and_si128(overflow, _mm_set1_epi8(0x1d));
            Self(_mm_xor_si128(_mm_add_epi8(self.0, self.0), reduction))
        }
    }

    #[inline(always)]
    unsafe fn spread(bits: u64) -> Self {
        // SAFETY: features as above.
        unsafe {
            // Byte i gets the byte of `bits` that holds bit i, then that bit alone is kept.
            let all = _mm_set1_epi32(bits as u32 as i32);
            let bytes = _mm_shuffle_epi8(all, _mm_set_epi64x(0x0101_0101_0101_0101, 0));
            let single = _mm_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
            let set = _mm_cmpeq_epi8(_mm_and_si128(bytes, single), single);
            Self(_mm_and_si128(set, _mm_set1_epi8(1)))
        }
    }
}

crate::generic::instantiate!(Xmm, "ssse3");
