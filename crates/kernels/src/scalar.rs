//! The portable kernels: eight bytes a word, no instruction set assumed.

use crate::gf256;
use crate::vector::Vector;

/// Eight bytes in a machine word.
#[derive(Clone, Copy)]
pub(crate) struct Word(u64);

const LOW_SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;
const LOW_ONE: u64 = 0x0101_0101_0101_0101;

// SAFETY: every pointer access below covers exactly the bytes the trait names; nothing needs an
// instruction set.
unsafe impl Vector for Word {
    const BYTES: usize = 8;
    const JOINS: bool = false;
    type Shape = crate::vector::Single;
    type Coefficient = [u64; 8];
    type Factor = u64;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(0)
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 8 readable bytes.
        Self(u64::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read_unaligned() }))
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const u8, len: usize) -> Self {
        let mut bytes = [0; 8];
        // SAFETY: the caller vouches for `len < 8` readable bytes.
        unsafe { core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
        Self(u64::from_le_bytes(bytes))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for 8 writable bytes.
        unsafe { to.cast::<[u8; 8]>().write_unaligned(self.0.to_le_bytes()) };
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, len: usize) {
        let bytes = self.0.to_le_bytes();
        // SAFETY: the caller vouches for `len < 8` writable bytes.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    #[inline(always)]
    unsafe fn coefficient(value: u8) -> Self::Coefficient {
        // Products with 1, 2, 4 .. 128: multiplying is then eight masked sums, the same work for
        // every coefficient.
        let mut powers = [0; 8];
        let mut product = value;
        for power in &mut powers {
            *power = u64::from(product);
            product = gf256::double(product);
        }
        powers
    }

    #[inline(always)]
    unsafe fn factor(self) -> u64 {
        self.0
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: u64, coefficient: Self::Coefficient) -> Self {
        let mut sum = self.0;
        for (bit, power) in coefficient.into_iter().enumerate() {
            // One in every byte whose bit is set, times a byte: no carry crosses a byte.
            sum ^= ((factor >> bit) & LOW_ONE) * power;
        }
        Self(sum)
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        Self(((self.0 & LOW_SEVEN) << 1) ^ (((self.0 >> 7) & LOW_ONE) * 0x1d))
    }

    #[inline(always)]
    unsafe fn spread(bits: u64) -> Self {
        // Byte i keeps bit i of `bits`; adding 0x7f carries any bit into the top one.
        let copies = (bits & 0xff) * LOW_ONE;
        let picked = copies & 0x8040_2010_0804_0201;
        Self(((picked + LOW_SEVEN) >> 7) & LOW_ONE)
    }
}

crate::generic::instantiate!(Word);
