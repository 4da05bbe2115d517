//! AVX-512 with GFNI: 64 bytes a vector, multiplication by one affine transform.

use core::arch::x86_64::*;

use crate::gf256::AFFINE;
use crate::vector::Vector;

/// Sixty-four bytes.
#[derive(Clone, Copy)]
pub(crate) struct Zmm(__m512i);

/// Whether this CPU runs these kernels.
pub(crate) fn detect() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("gfni")
}

/// A mask of the `len` lowest lanes, `len < 64`.
#[inline(always)]
fn lanes(len: usize) -> __mmask64 {
    (1 << len) - 1
}

// SAFETY: loads and stores cover 64 bytes, or under a mask of `len` lanes only those bytes:
// masked-off lanes are neither read nor written. The instructions are AVX-512F, AVX-512BW and GFNI,
// which callers know to be present.
unsafe impl Vector for Zmm {
    const BYTES: usize = 64;
    const JOINS: bool = true;
    type Shape = crate::vector::Wide;
    type Coefficient = __m512i;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: features as above.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 64 readable bytes.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    /// Whole lines, shifted into place: a load across two lines costs as much as loading both, and
    /// so every line would be loaded twice. Only for alignments that are multiples of four.
    #[inline(always)]
    unsafe fn load_run<const C: usize>(from: *const u8) -> [Self; C] {
        let ahead = from as usize % 64;
        // SAFETY: the caller vouches for `64 * C` bytes from `from` on. Of the first line only
        // those bytes are read that do not lie before, of the last only those that do not lie
        // behind them; the lines between are wholly among them.
        unsafe {
            let mut run = [Self::zero(); C];
            if ahead == 0 || !ahead.is_multiple_of(4) {
                for (c, vector) in run.iter_mut().enumerate() {
                    *vector = Self::load(from.add(c * 64));
                }
                return run;
            }
            let line = from.wrapping_sub(ahead);
            let shift = _mm512_add_epi32(
                _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                _mm512_set1_epi32((ahead / 4) as i32),
            );
            let mut low = _mm512_maskz_loadu_epi8(!lanes(ahead), line.cast());
            for (c, vector) in run.iter_mut().enumerate() {
                let next = line.wrapping_add((c + 1) * 64);
                let high = if c + 1 == C {
                    _mm512_maskz_loadu_epi8(lanes(ahead), next.cast())
                } else {
                    _mm512_load_si512(next.cast())
                };
                *vector = Self(_mm512_permutex2var_epi32(low, shift, high));
                low = high;
            }
            run
        }
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const u8, len: usize) -> Self {
        // SAFETY: the caller vouches for `len` readable bytes; the mask hides the others.
        Self(unsafe { _mm512_maskz_loadu_epi8(lanes(len), from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for 64 writable bytes.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, len: usize) {
        // SAFETY: the caller vouches for `len` writable bytes; the mask hides the others.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), lanes(len), self.0) };
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
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn coefficient(value: u8) -> __m512i {
        // SAFETY: features as above. The cast only reinterprets bits.
        unsafe { _mm512_set1_epi64(AFFINE[usize::from(value)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn factor(self) -> __m512i {
        self.0
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: __m512i, coefficient: __m512i) -> Self {
        // SAFETY: features as above.
        unsafe {
            let product = _mm512_gf2p8affine_epi64_epi8::<0>(factor, coefficient);
            Self(_mm512_xor_si512(self.0, product))
        }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: features as above.
        unsafe {
            Self(_mm512_gf2p8affine_epi64_epi8::<0>(
                self.0,
                _mm512_set1_epi64(AFFINE[2].cast_signed()),
            ))
        }
    }

    #[inline(always)]
    unsafe fn spread(bits: u64) -> Self {
        // SAFETY: features as above.
        Self(unsafe { _mm512_maskz_set1_epi8(bits, 1) })
    }
}

crate::generic::instantiate!(Zmm, "avx512f,avx512bw,gfni");
