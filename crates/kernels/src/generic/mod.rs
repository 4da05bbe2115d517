//! Every kernel, written once over [`Vector`](crate::vector::Vector).
//!
//! Nothing here is called directly: `instantiate!` wraps each body in a function that enables the
//! instruction set, into which the body and the vector operations are inlined. No body holds a
//! closure that uses vectors: one that is not inlined would be compiled without the instruction set.

mod product;
mod slices;
mod strip;

use crate::strip::Strip;

pub(crate) use product::{product, short_product};
pub(crate) use slices::{combine, fold_bits, gather, mul_add, rank_one, scale, xor, xor_each};
pub(crate) use strip::{fold, sums, tables};

/// See [`fold_bits`].
type FoldBits = unsafe fn(&[u64], usize, &[[u8; 2]], *mut u8, usize);
/// See [`product`].
type MatrixProduct = unsafe fn(&mut Strip<'_>, (&[u32], &[u32], &[u32]), usize);
/// See [`short_product`].
type ShortProduct = unsafe fn(&Strip<'_>, (&[u32], &[u32], &[u32]), usize);

/// The entry points of one instruction set.
pub(crate) struct Table {
    pub(crate) xor: unsafe fn(*mut u8, *const u8, usize),
    pub(crate) xor_each: unsafe fn(&mut [&mut [u8]], *const u8, usize),
    pub(crate) mul_add: unsafe fn(*mut u8, *const u8, usize, u8),
    pub(crate) scale: unsafe fn(*mut u8, usize, u8),
    pub(crate) rank_one: unsafe fn(*mut u8, usize, &[u8], *const u8, usize),
    pub(crate) combine: unsafe fn(*mut u8, *const u8, usize, &[u8], usize),
    pub(crate) gather: unsafe fn(*mut u8, usize, *const u8, usize, &[u32]),
    pub(crate) fold_bits: FoldBits,
    pub(crate) sums: unsafe fn(&Strip<'_>, &[u32]),
    pub(crate) product: MatrixProduct,
    pub(crate) short_product: ShortProduct,
    pub(crate) fold: unsafe fn(&Strip<'_>, &[u32], (u32, u32)),
    pub(crate) tables: unsafe fn(&Strip<'_>, (u32, usize), u32),
    /// See [`Shape::STREAMS`](crate::vector::Shape::STREAMS).
    pub(crate) streams: bool,
    /// Bytes in a vector.
    pub(crate) vector: usize,
}

/// Defines `TABLE`: every kernel over one vector type, compiled with its features enabled.
macro_rules! instantiate {
    ($vector:ty $(, $features:literal)?) => {
        /// The kernels of this instruction set.
        pub(crate) static TABLE: crate::generic::Table = {
            use crate::generic;

            // SAFETY (all of them): forwarded from the generic bodies; whoever holds this table's
            // `Kernels` token knows that the CPU has the features.
            $(#[target_feature(enable = $features)])?
            unsafe fn xor(dst: *mut u8, src: *const u8, len: usize) {
                // SAFETY: as above.
                unsafe { generic::xor::<$vector>(dst, src, len) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn xor_each(sums: &mut [&mut [u8]], src: *const u8, len: usize) {
                // SAFETY: as above.
                unsafe { generic::xor_each::<$vector>(sums, src, len) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn mul_add(dst: *mut u8, src: *const u8, len: usize, value: u8) {
                // SAFETY: as above.
                unsafe { generic::mul_add::<$vector>(dst, src, len, value) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn scale(dst: *mut u8, len: usize, value: u8) {
                // SAFETY: as above.
                unsafe { generic::scale::<$vector>(dst, len, value) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn rank_one(
                rows: *mut u8,
                stride: usize,
                factors: &[u8],
                row: *const u8,
                len: usize,
            ) {
                // SAFETY: as above.
                unsafe { generic::rank_one::<$vector>(rows, stride, factors, row, len) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn combine(
                dst: *mut u8,
                rows: *const u8,
                stride: usize,
                factors: &[u8],
                len: usize,
            ) {
                // SAFETY: as above.
                unsafe { generic::combine::<$vector>(dst, rows, stride, factors, len) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn gather(
                dst: *mut u8,
                len: usize,
                slab: *const u8,
                stride: usize,
                rows: &[u32],
            ) {
                // SAFETY: as above.
                unsafe { generic::gather::<$vector>(dst, len, slab, stride, rows) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn fold_bits(
                bits: &[u64],
                words: usize,
                pairs: &[[u8; 2]],
                out: *mut u8,
                sums: usize,
            ) {
                // SAFETY: as above.
                unsafe { generic::fold_bits::<$vector>(bits, words, pairs, out, sums) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn sums(strip: &crate::strip::Strip<'_>, block: &[u32]) {
                // SAFETY: as above.
                unsafe { generic::sums::<$vector>(strip, block) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn product(
                strip: &mut crate::strip::Strip<'_>,
                rows: (&[u32], &[u32], &[u32]),
                coefficients: usize,
            ) {
                // SAFETY: as above.
                unsafe { generic::product::<$vector>(strip, rows, coefficients) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn short_product(
                strip: &crate::strip::Strip<'_>,
                rows: (&[u32], &[u32], &[u32]),
                coefficients: usize,
            ) {
                // SAFETY: as above.
                unsafe { generic::short_product::<$vector>(strip, rows, coefficients) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn fold(
                strip: &crate::strip::Strip<'_>,
                columns: &[u32],
                rows: (u32, u32),
            ) {
                // SAFETY: as above.
                unsafe { generic::fold::<$vector>(strip, columns, rows) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn tables(
                strip: &crate::strip::Strip<'_>,
                rows: (u32, usize),
                to: u32,
            ) {
                // SAFETY: as above.
                unsafe { generic::tables::<$vector>(strip, rows, to) }
            }
            generic::Table {
                xor,
                xor_each,
                mul_add,
                scale,
                rank_one,
                combine,
                gather,
                fold_bits,
                sums,
                product,
                short_product,
                fold,
                tables,
                streams: <<$vector as crate::vector::Vector>::Shape as crate::vector::Shape>::STREAMS,
                vector: <$vector as crate::vector::Vector>::BYTES,
            }
        };
    };
}
pub(crate) use instantiate;
