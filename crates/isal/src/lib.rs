//! Reed-Solomon of Intel's Intelligent Storage Acceleration Library (ISA-L), found at run time.
//!
//! Storage systems code blocks with it, so our codec is measured beside it. Nothing is linked and nothing
//! installed: where the library is missing, [`Library::open`] says so and the measurement goes
//! without. A code has at most 255 symbols, source and repair together.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

use core::ffi::c_int;
use core::fmt;

/// Most symbols of a code, source and repair together.
pub const MAX_SYMBOLS: usize = 255;
/// Bytes of prepared table for each coefficient.
const TABLE: usize = 32;
/// The library's name, with the version of its interface.
const NAME: &str = "libisal.so.2";

type InitTables = unsafe extern "C" fn(c_int, c_int, *mut u8, *mut u8);
type EncodeData = unsafe extern "C" fn(c_int, c_int, c_int, *mut u8, *mut *mut u8, *mut *mut u8);
type CauchyMatrix = unsafe extern "C" fn(*mut u8, c_int, c_int);
type InvertMatrix = unsafe extern "C" fn(*mut u8, *mut u8, c_int) -> c_int;

/// The library, loaded.
pub struct Library {
    init_tables: InitTables,
    encode_data: EncodeData,
    cauchy_matrix: CauchyMatrix,
    invert_matrix: InvertMatrix,
    /// Keeps the functions above in memory.
    _library: libloading::Library,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

/// The version in the name of the library's file, by a list of what is mapped into memory.
fn version_in(maps: &str) -> Option<&str> {
    maps.lines().find_map(|line| Some(line.trim_end().rsplit_once("/libisal.so.")?.1))
}

/// A matrix of coefficients prepared for products: `rows` outputs of `columns` inputs.
#[derive(Clone, Debug)]
pub struct Matrix {
    tables: Vec<u8>,
    rows: usize,
    columns: usize,
}

impl Library {
    /// The version that the library's file has in its name, such as 2.0.30; of the interface alone
    /// where the system does not say from which file it is.
    #[must_use]
    pub fn version(&self) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        version_in(&maps).unwrap_or("2").to_owned()
    }

    /// Loads the library; `None` if it is not installed, or is another one by that name.
    #[must_use]
    pub fn open() -> Option<Self> {
        // SAFETY: ISA-L's initialisers only look at the processor.
        let library = unsafe { libloading::Library::new(NAME) }.ok()?;
        // SAFETY: the types are those of the functions in `erasure_code.h` of interface version 2,
        // and the pointers do not outlive `_library`.
        unsafe {
            Some(Self {
                init_tables: *library.get::<InitTables>(b"ec_init_tables\0").ok()?,
                encode_data: *library.get::<EncodeData>(b"ec_encode_data\0").ok()?,
                cauchy_matrix: *library.get::<CauchyMatrix>(b"gf_gen_cauchy1_matrix\0").ok()?,
                invert_matrix: *library.get::<InvertMatrix>(b"gf_invert_matrix\0").ok()?,
                _library: library,
            })
        }
    }

    /// The coefficients of `repair` symbols on `source` symbols, row after row: any square part of
    /// them can be inverted (a Cauchy matrix).
    ///
    /// # Panics
    ///
    /// If there is no source symbol, or there are more than [`MAX_SYMBOLS`] in all.
    #[must_use]
    pub fn repair_coefficients(&self, source: usize, repair: usize) -> Vec<u8> {
        let all = source.checked_add(repair).filter(|all| source > 0 && *all <= MAX_SYMBOLS);
        let all = all.expect("1 to MAX_SYMBOLS symbols for one code");
        let mut coefficients = vec![0; all * source];
        // SAFETY: the function writes `all` rows of `source` bytes; both are below 256.
        unsafe {
            (self.cauchy_matrix)(coefficients.as_mut_ptr(), all as c_int, source as c_int);
        }
        coefficients.split_off(source * source)
    }

    /// The inverse of a square matrix of `n` rows; `None` if there is none.
    ///
    /// # Panics
    ///
    /// If `matrix` does not have `n` times `n` entries, or `n` is beyond [`MAX_SYMBOLS`].
    #[must_use]
    pub fn invert(&self, mut matrix: Vec<u8>, n: usize) -> Option<Vec<u8>> {
        assert!(n <= MAX_SYMBOLS && matrix.len() == n * n, "not a square matrix");
        let mut inverse = vec![0; n * n];
        // SAFETY: both matrices have `n` times `n` bytes; the first is scratch afterwards.
        let failed =
            unsafe { (self.invert_matrix)(matrix.as_mut_ptr(), inverse.as_mut_ptr(), n as c_int) };
        (failed == 0).then_some(inverse)
    }

    /// Prepares coefficients for products.
    ///
    /// # Panics
    ///
    /// If there is not at least one row of `columns` coefficients and each row whole, or a side is
    /// beyond [`MAX_SYMBOLS`].
    #[must_use]
    pub fn prepare(&self, coefficients: &[u8], columns: usize) -> Matrix {
        assert!((1..=MAX_SYMBOLS).contains(&columns), "no columns, or too many");
        let rows = coefficients.len() / columns;
        assert!((1..=MAX_SYMBOLS).contains(&rows), "no rows, or too many");
        assert!(coefficients.len() == rows * columns, "the last row is not whole");
        let mut tables = vec![0; TABLE * coefficients.len()];
        // SAFETY: the function reads `rows` times `columns` bytes of coefficients, which it does
        // not write (its interface predates `const`), and writes 32 bytes of table for each.
        unsafe {
            let coefficients = coefficients.as_ptr().cast_mut();
            (self.init_tables)(columns as c_int, rows as c_int, coefficients, tables.as_mut_ptr());
        }
        Matrix { tables, rows, columns }
    }

    /// Each output becomes the sum of its row's coefficients times the inputs.
    ///
    /// # Panics
    ///
    /// If there are not as many outputs and inputs as the matrix has rows and columns, or not all of
    /// one length, or they are 2 GiB long.
    pub fn product(&self, matrix: &Matrix, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        assert_eq!(inputs.len(), matrix.columns, "inputs");
        assert_eq!(outputs.len(), matrix.rows, "outputs");
        let len = inputs[0].len();
        assert!(inputs.iter().all(|input| input.len() == len), "inputs differ in length");
        assert!(outputs.iter().all(|output| output.len() == len), "outputs differ in length");
        let bytes = c_int::try_from(len).expect("symbols of 2 GiB");
        let mut from: Vec<*mut u8> = inputs.iter().map(|input| input.as_ptr().cast_mut()).collect();
        let mut to: Vec<*mut u8> = outputs.iter_mut().map(|output| output.as_mut_ptr()).collect();
        // SAFETY: every pointer is to `len` bytes; inputs and tables are only read, outputs are
        // exclusive by their type; the tables were made for this many rows and columns.
        unsafe {
            (self.encode_data)(
                bytes,
                matrix.columns as c_int,
                matrix.rows as c_int,
                matrix.tables.as_ptr().cast_mut(),
                from.as_mut_ptr(),
                to.as_mut_ptr(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_that_of_the_file_that_is_loaded() {
        let maps = "7f00-7f01 r--p 00000000 08:01 7 /usr/lib/libc.so.6\n\
                    7f02-7f03 r-xp 00000000 08:01 9 /usr/lib/x86_64-linux-gnu/libisal.so.2.0.30\n";
        assert_eq!(super::version_in(maps), Some("2.0.30"));
        assert_eq!(super::version_in("7f00-7f01 r--p 00000000 08:01 7 /usr/lib/libc.so.6"), None);
    }
}
