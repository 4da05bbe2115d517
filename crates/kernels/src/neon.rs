//! NEON (AArch64 Advanced SIMD): 16 bytes a vector, multiplication by two table look-ups.

use core::arch::aarch64::*;

use crate::gf256::NIBBLES;
use crate::vector::Vector;

/// Sixteen bytes.
#[derive(Clone, Copy)]
pub(crate) struct Quad(uint8x16_t);

/// Whether this CPU runs these kernels.
pub(crate) fn detect() -> bool {
    std::arch::is_aarch64_feature_detected!("neon")
}

// SAFETY: loads and stores cover 16 bytes; the partial forms go through a local array and copy
// `len` bytes only. The instructions are NEON, which callers know to be present.
unsafe impl Vector for Quad {
    const BYTES: usize = 16;
    const JOINS: bool = false;
    // Thirty-two registers, but two tables a coefficient and two nibble vectors a factor: the
    // shapes of the narrow kernels fit, those of the wide ones spill.
    type Shape = crate::vector::Narrow;
    type Coefficient = (uint8x16_t, uint8x16_t);
    type Factor = (uint8x16_t, uint8x16_t);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: features as above.
        Self(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 readable bytes.
        Self(unsafe { vld1q_u8(from) })
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
        unsafe { vst1q_u8(to, self.0) };
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
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: features as above.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn coefficient(value: u8) -> Self::Coefficient {
        let table = &NIBBLES[usize::from(value)];
        // SAFETY: both halves of the table have 16 bytes; features as above.
        unsafe { (vld1q_u8(table.low.as_ptr()), vld1q_u8(table.high.as_ptr())) }
    }

    #[inline(always)]
    unsafe fn factor(self) -> Self::Factor {
        // SAFETY: features as above.
        unsafe { (vandq_u8(self.0, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(self.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self::Factor, coefficient: Self::Coefficient) -> Self {
        // SAFETY: features as above.
        unsafe {
            let low = vqtbl1q_u8(coefficient.0, factor.0);
            let high = vqtbl1q_u8(coefficient.1, factor.1);
            Self(veorq_u8(self.0, veorq_u8(low, high)))
        }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: features as above.
        unsafe {
            let overflow = vcltzq_s8(vreinterpretq_s8_u8(self.0));
            let reduction = vandq_u8(overflow, vdupq_n_u8(0x1d));
            Self(veorq_u8(vshlq_n_u8::<1>(self.0), reduction))
        }
    }

    #[inline(always)]
    unsafe fn spread(bits: u64) -> Self {
        const SINGLE: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        // SAFETY: features as above; the constant has 16 bytes.
        unsafe {
            // Byte i gets the byte of `bits` that holds bit i, then that bit alone is tested.
            let bytes = vcombine_u8(vdup_n_u8(bits as u8), vdup_n_u8((bits >> 8) as u8));
            let set = vtstq_u8(bytes, vld1q_u8(SINGLE.as_ptr()));
            Self(vandq_u8(set, vdupq_n_u8(1)))
        }
    }
}

crate::generic::instantiate!(Quad, "neon");
