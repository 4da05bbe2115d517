//! AVX2 with GFNI: 32 bytes a vector, multiplication by one affine transform, on CPUs that have it
//! but not AVX-512.

use core::arch::x86_64::*;

use crate::avx2::{Multiply, Ymm};
use crate::gf256::AFFINE;

/// By an affine transform: GFNI and AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Affine;

/// Whether this CPU runs these kernels.
pub(crate) fn detect() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni")
}

// SAFETY: the instructions are AVX2 and GFNI in their 256-bit form, which needs AVX.
unsafe impl Multiply for Affine {
    type Shape = crate::vector::Medium;
    type Coefficient = __m256i;
    type Factor = __m256i;

    #[inline(always)]
    unsafe fn coefficient(value: u8) -> __m256i {
        // SAFETY: features as above. The cast only reinterprets bits.
        unsafe { _mm256_set1_epi64x(AFFINE[usize::from(value)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn factor(vector: __m256i) -> __m256i {
        vector
    }

    #[inline(always)]
    unsafe fn multiply(factor: __m256i, coefficient: __m256i) -> __m256i {
        // SAFETY: features as above.
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(factor, coefficient) }
    }
}

crate::generic::instantiate!(Ymm<Affine>, "avx2,gfni");
