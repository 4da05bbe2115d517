//! Choice of an instruction set, and its kernels over byte slices.

use core::fmt;
use core::str::FromStr;
use std::env::VarError;

use crate::fold::FoldColumns;
#[cfg(target_arch = "aarch64")]
use crate::neon;
#[cfg(target_arch = "x86_64")]
use crate::{avx2, avx512, gfni, ssse3};
use crate::{generic, scalar};

/// The environment variable [`Kernels::from_env`] reads.
pub const KERNEL_VARIABLE: &str = "WELLSPRING_KERNEL";

/// An instruction set kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Eight bytes a machine word, on any CPU.
    Scalar,
    /// x86-64 with SSSE3: 16 bytes.
    Ssse3,
    /// x86-64 with AVX2: 32 bytes.
    Avx2,
    /// x86-64 with AVX2 and GFNI: 32 bytes, products by one instruction.
    Gfni,
    /// x86-64 with AVX-512F, AVX-512BW and GFNI: 64 bytes.
    Avx512,
    /// AArch64 with Advanced SIMD: 16 bytes.
    Neon,
}

impl Isa {
    /// All instruction sets, slowest first within an architecture.
    pub const ALL: [Self; 6] =
        [Self::Scalar, Self::Ssse3, Self::Avx2, Self::Gfni, Self::Avx512, Self::Neon];

    /// The name [`FromStr`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Ssse3 => "ssse3",
            Self::Avx2 => "avx2",
            Self::Gfni => "gfni",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = KernelError;

    fn from_str(name: &str) -> Result<Self, KernelError> {
        Self::ALL.into_iter().find(|isa| isa.name() == name).ok_or(KernelError::UnknownName)
    }
}

/// Why a requested instruction set cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelError {
    /// No instruction set has that name.
    UnknownName,
    /// This CPU does not have it.
    Unsupported(Isa),
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName => {
                write!(f, "unknown kernel, expected one of")?;
                Isa::ALL.iter().try_for_each(|isa| write!(f, " {isa}"))
            }
            Self::Unsupported(isa) => write!(f, "this CPU has no {isa} kernels"),
        }
    }
}

impl core::error::Error for KernelError {}

/// The kernels of one instruction set, and the proof that this CPU has it.
#[derive(Clone, Copy)]
pub struct Kernels {
    isa: Isa,
    table: &'static generic::Table,
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernels").field(&self.isa).finish()
    }
}

impl Default for Kernels {
    fn default() -> Self {
        Self::detect()
    }
}

impl Kernels {
    /// The fastest kernels this CPU has.
    #[must_use]
    pub fn detect() -> Self {
        [Isa::Neon, Isa::Avx512, Isa::Gfni, Isa::Avx2, Isa::Ssse3]
            .into_iter()
            .find_map(Self::with_isa)
            .unwrap_or(Self { isa: Isa::Scalar, table: &scalar::TABLE })
    }

    /// The kernels of `isa`, if this CPU has it.
    #[must_use]
    pub fn with_isa(isa: Isa) -> Option<Self> {
        let table = match isa {
            Isa::Scalar => Some(&scalar::TABLE),
            #[cfg(target_arch = "x86_64")]
            Isa::Ssse3 => ssse3::detect().then_some(&ssse3::TABLE),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::detect().then_some(&avx2::TABLE),
            #[cfg(target_arch = "x86_64")]
            Isa::Gfni => gfni::detect().then_some(&gfni::TABLE),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::detect().then_some(&avx512::TABLE),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => neon::detect().then_some(&neon::TABLE),
            #[allow(unreachable_patterns, reason = "which arms exist depends on the target")]
            _ => None,
        };
        table.map(|table| Self { isa, table })
    }

    /// The kernels [`KERNEL_VARIABLE`] names, or the fastest if it is not set.
    ///
    /// # Errors
    ///
    /// If the variable names no instruction set, or one this CPU does not have.
    pub fn from_env() -> Result<Self, KernelError> {
        Self::named(std::env::var(KERNEL_VARIABLE))
    }

    fn named(variable: Result<String, VarError>) -> Result<Self, KernelError> {
        let name = match variable {
            Err(VarError::NotPresent) => return Ok(Self::detect()),
            Err(VarError::NotUnicode(_)) => return Err(KernelError::UnknownName),
            Ok(name) => name,
        };
        let isa = name.parse()?;
        Self::with_isa(isa).ok_or(KernelError::Unsupported(isa))
    }

    /// Every instruction set this CPU has kernels for.
    pub fn available() -> impl Iterator<Item = Self> {
        Isa::ALL.into_iter().filter_map(Self::with_isa)
    }

    /// The instruction set.
    #[must_use]
    pub fn isa(self) -> Isa {
        self.isa
    }

    pub(crate) fn table(self) -> &'static generic::Table {
        self.table
    }

    /// `dst ^= src`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[inline]
    pub fn xor(self, dst: &mut [u8], src: &[u8]) {
        assert_eq!(dst.len(), src.len(), "slices of different lengths");
        // SAFETY: both slices have `dst.len()` bytes; `self` proves the instruction set.
        unsafe { (self.table.xor)(dst.as_mut_ptr(), src.as_ptr(), dst.len()) }
    }

    /// `sum ^= src` for each of the sums, reading `src` once; of longer sums only the first bytes
    /// change.
    ///
    /// # Panics
    ///
    /// If a sum is shorter than `src`.
    #[inline]
    pub fn xor_each(self, sums: &mut [&mut [u8]], src: &[u8]) {
        assert!(sums.iter().all(|sum| sum.len() >= src.len()), "a sum shorter than what is added");
        // SAFETY: every sum has at least `src.len()` bytes; `self` proves the instruction set.
        unsafe { (self.table.xor_each)(sums, src.as_ptr(), src.len()) }
    }

    /// `dst ^= coefficient * src`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[inline]
    pub fn mul_add(self, dst: &mut [u8], src: &[u8], coefficient: u8) {
        assert_eq!(dst.len(), src.len(), "slices of different lengths");
        // SAFETY: both slices have `dst.len()` bytes; `self` proves the instruction set.
        unsafe { (self.table.mul_add)(dst.as_mut_ptr(), src.as_ptr(), dst.len(), coefficient) }
    }

    /// `dst = coefficient * dst`.
    #[inline]
    pub fn scale(self, dst: &mut [u8], coefficient: u8) {
        // SAFETY: the slice has `dst.len()` bytes; `self` proves the instruction set.
        unsafe { (self.table.scale)(dst.as_mut_ptr(), dst.len(), coefficient) }
    }

    /// `rows[i] ^= factors[i] * row` for consecutive rows at distance `stride` bytes: one step of
    /// Gaussian elimination.
    ///
    /// # Panics
    ///
    /// If `rows` does not hold `factors.len()` rows of `row.len()` bytes at that distance, or
    /// they overlap.
    #[inline]
    pub fn rank_one(self, rows: &mut [u8], stride: usize, factors: &[u8], row: &[u8]) {
        if factors.is_empty() {
            return;
        }
        assert!(stride >= row.len(), "rows overlap");
        let needed = (factors.len() - 1).checked_mul(stride).and_then(|n| n.checked_add(row.len()));
        assert!(needed.is_some_and(|n| n <= rows.len()), "rows do not fit into their buffer");
        // SAFETY: checked above; an exclusive and a shared slice do not overlap; `self` proves the
        // instruction set.
        unsafe {
            (self.table.rank_one)(rows.as_mut_ptr(), stride, factors, row.as_ptr(), row.len());
        }
    }

    /// `dst ^= sum of factors[i] * rows[i]` for consecutive rows at distance `stride` bytes.
    ///
    /// # Panics
    ///
    /// If `rows` does not hold `factors.len()` rows of `dst.len()` bytes at that distance.
    #[inline]
    pub fn combine(self, dst: &mut [u8], rows: &[u8], stride: usize, factors: &[u8]) {
        if factors.is_empty() {
            return;
        }
        let needed = (factors.len() - 1).checked_mul(stride).and_then(|n| n.checked_add(dst.len()));
        assert!(needed.is_some_and(|n| n <= rows.len()), "rows do not fit into their buffer");
        // SAFETY: checked above; an exclusive and a shared slice do not overlap; `self` proves the
        // instruction set.
        unsafe {
            (self.table.combine)(dst.as_mut_ptr(), rows.as_ptr(), stride, factors, dst.len());
        }
    }

    /// `dst` = the sum of the named rows of `slab`, which stand at distance `stride` bytes.
    ///
    /// # Panics
    ///
    /// If a row does not lie within the slab.
    pub fn gather(self, dst: &mut [u8], slab: &[u8], stride: usize, rows: &[u32]) {
        let last = rows.iter().copied().max().unwrap_or(0) as usize;
        let end = last.checked_mul(stride).and_then(|start| start.checked_add(dst.len()));
        assert!(rows.is_empty() || end.is_some_and(|end| end <= slab.len()), "no such row");
        // SAFETY: the furthest row ends within the slab; `dst` is exclusive; `self` proves the
        // instruction set.
        unsafe {
            (self.table.gather)(dst.as_mut_ptr(), dst.len(), slab.as_ptr(), stride, rows);
        }
    }

    /// The HDPC matrix applied to rows of bits: the coefficients that `Program::fold` gives its
    /// sums on `64 * words` unknowns when column `j` holds the unknowns set in `bits` row `j`.
    ///
    /// `out` gets [`FoldColumns::sums`] rows of `64 * words` field elements.
    ///
    /// # Panics
    ///
    /// If `bits` or `out` has not the length this needs.
    pub fn fold_bits(self, columns: &FoldColumns, bits: &[u64], words: usize, out: &mut [u8]) {
        let bit_rows = columns.len().checked_mul(words);
        assert_eq!(Some(bits.len()), bit_rows, "bit rows missing");
        let room = (columns.sums() * 64).checked_mul(words);
        assert_eq!(Some(out.len()), room, "no room for the sums");
        out.fill(0);
        // SAFETY: lengths checked above, pairs checked when `columns` was made; `self` proves the
        // instruction set.
        unsafe {
            (self.table.fold_bits)(bits, words, columns.pairs(), out.as_mut_ptr(), columns.sums());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_names_no_kernels_is_an_error() {
        let named = |variable| Kernels::named(variable).map(Kernels::isa);
        assert_eq!(named(Err(VarError::NotPresent)), Ok(Kernels::detect().isa()));
        assert_eq!(named(Ok("scalar".into())), Ok(Isa::Scalar));
        assert_eq!(named(Ok("mmx".into())), Err(KernelError::UnknownName));
        let garbled = VarError::NotUnicode("anything".into());
        assert_eq!(named(Err(garbled)), Err(KernelError::UnknownName));
    }
}
