//! The few vector operations every kernel is written in, one implementation an instruction set.

/// A machine vector of bytes.
///
/// The kernels in [`generic`](crate::generic) are written once over this trait; each instruction
/// set implements it and instantiates them inside functions that enable its features.
///
/// # Safety
///
/// Implementors must touch exactly the bytes each method names. Every method may use the
/// implementor's instruction set: callers must know that the CPU has it.
pub(crate) unsafe trait Vector: Copy {
    /// Bytes in a vector: a power of two, at most 64.
    const BYTES: usize;
    /// Whether the instruction set has a three-way XOR.
    const JOINS: bool;
    /// How many sums a matrix product may hold in registers.
    type Shape: Shape;
    /// A field element prepared for multiplication.
    type Coefficient: Copy;
    /// A vector prepared to be multiplied by many coefficients.
    type Factor: Copy;

    /// All zeros.
    unsafe fn zero() -> Self;
    /// Reads `BYTES` bytes at any alignment.
    unsafe fn load(from: *const u8) -> Self;
    /// Reads `C` vectors that follow each other from any alignment.
    #[inline(always)]
    unsafe fn load_run<const C: usize>(from: *const u8) -> [Self; C] {
        // SAFETY: the caller vouches for `C * BYTES` readable bytes.
        unsafe {
            let mut run = [Self::zero(); C];
            for (c, vector) in run.iter_mut().enumerate() {
                *vector = Self::load(from.add(c * Self::BYTES));
            }
            run
        }
    }
    /// Reads `len < BYTES` bytes and fills up with zeros.
    unsafe fn load_partial(from: *const u8, len: usize) -> Self;
    /// Writes `BYTES` bytes at any alignment.
    unsafe fn store(self, to: *mut u8);
    /// Writes the first `len < BYTES` bytes.
    unsafe fn store_partial(self, to: *mut u8, len: usize);
    /// Asks for a cache line that will be read soon. Any address will do.
    #[inline(always)]
    unsafe fn prefetch(_at: *const u8) {}
    /// Asks for a cache line that will be written soon. Any address will do.
    #[inline(always)]
    unsafe fn prefetch_write(_at: *mut u8) {}
    /// Sum in the field.
    unsafe fn xor(self, other: Self) -> Self;
    /// Prepares a field element.
    unsafe fn coefficient(value: u8) -> Self::Coefficient;
    /// Prepares a vector to be multiplied.
    unsafe fn factor(self) -> Self::Factor;
    /// `self + coefficient * factor`.
    unsafe fn mul_add(self, factor: Self::Factor, coefficient: Self::Coefficient) -> Self;
    /// Adds `coefficient * factors` to `sums`.
    #[inline(always)]
    unsafe fn mul_add_run<const C: usize>(
        sums: &mut [Self; C],
        factors: &[Self::Factor; C],
        coefficient: Self::Coefficient,
    ) {
        for (sum, factor) in sums.iter_mut().zip(factors) {
            // SAFETY: no memory is touched.
            *sum = unsafe { sum.mul_add(*factor, coefficient) };
        }
    }
    /// α times each byte.
    unsafe fn double(self) -> Self;
    /// Spreads the low `BYTES` bits of `bits` into bytes 0 or 1, lowest bit first.
    unsafe fn spread(bits: u64) -> Self;
}

/// How many outputs and vectors a matrix product holds in registers.
pub(crate) trait Shape {
    /// Most outputs at a time.
    const HEIGHT: usize;
    /// Whether what does not fit the second cache is gone through a few inputs at a time.
    const STREAMS: bool;
}

/// Thirty-two registers, and one for a prepared coefficient.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Wide;

#[cfg(target_arch = "x86_64")]
impl Shape for Wide {
    const HEIGHT: usize = 8;
    const STREAMS: bool = false;
}

/// Sixteen registers, and one for a prepared coefficient.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Medium;

#[cfg(target_arch = "x86_64")]
impl Shape for Medium {
    const HEIGHT: usize = 6;
    const STREAMS: bool = false;
}

/// Coefficients that are expensive to prepare: one output at a time, so that each serves several vectors.
pub(crate) struct Single;

impl Shape for Single {
    const HEIGHT: usize = 1;
    const STREAMS: bool = false;
}

/// Sixteen registers, or two for each prepared coefficient and vector.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "the kernels of other processors have other shapes")
)]
pub(crate) struct Narrow;

impl Shape for Narrow {
    const HEIGHT: usize = 5;
    const STREAMS: bool = true;
}
