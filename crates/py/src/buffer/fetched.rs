//! Memory that a fetch writes to, a block at a time: of the caller, or of new bytes.

use std::io;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{Lent, register, unregister};

/// A page that the system reports \[bytes\].
const PAGE: usize = 4 << 10;
/// Memory for which large pages pay \[bytes\].
const LONG: usize = 4 << 20;

impl Lent {
    /// New bytes of that length, which hold whatever the memory held: nobody may have them before all are written.
    ///
    /// # Errors
    /// `MemoryError` if there is not that much.
    pub fn fresh(py: Python<'_>, len: usize) -> PyResult<(Py<PyBytes>, Self)> {
        let len = isize::try_from(len)
            .map_err(|_| PyMemoryError::new_err(format!("{len} bytes do not fit in memory")))?;
        // SAFETY: null stands for bytes that are not written yet. What comes is new bytes, or null with an exception.
        let bytes = unsafe {
            let made = ffi::PyBytes_FromStringAndSize(std::ptr::null(), len);
            Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked::<PyBytes>()
        };
        let buffer = PyUntypedBuffer::get(&bytes)?;
        advise_huge_pages(buffer.buf_ptr() as usize, buffer.len_bytes());
        Ok((bytes.unbind(), Lent { buffer, what: "new bytes", may_write: true }))
    }

    /// New bytes with this content.
    ///
    /// # Errors
    /// As for [`fresh`](Self::fresh).
    pub fn copied(py: Python<'_>, content: &[u8]) -> PyResult<Py<PyBytes>> {
        let (bytes, lent) = Self::fresh(py, content.len())?;
        py.detach(|| lent.put(0, content))?;
        Ok(bytes)
    }

    /// Copies bytes to its place `at`: threads may do so at once for different places.
    ///
    /// # Errors
    /// It has no such place, or another call is using it.
    pub fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(self.may_write, "asked for as writable");
        self.at(at, bytes.len(), true, |place| {
            // SAFETY: the bytes of this place lie in the buffer (`at` checked it), which is writable or of bytes that
            // nobody has seen yet, and no other call uses them. They may be unwritten, so no reference to them is made.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) }
        })
    }

    /// Copies bytes that were [put](Self::put) at that place.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn copy_to(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.at(at, bytes.len(), false, |place| {
            // SAFETY: as for `put`.
            unsafe { std::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) }
        })
    }

    /// Has `copy` use so many bytes at a place, while they are registered.
    fn at(&self, at: u64, len: usize, writes: bool, copy: impl FnOnce(*mut u8)) -> io::Result<()> {
        let (first, end) = self.range();
        let place = usize::try_from(at).ok().and_then(|at| first.checked_add(at));
        let Some(place) = place.filter(|place| *place <= end && len <= end - place) else {
            let len = self.len();
            let text = format!("the object is longer than the {len} bytes lent for it");
            return Err(io::Error::other(text));
        };
        // The exception's own words would need the interpreter, which may wait for this call.
        register(place, place + len, writes, self.what)
            .map_err(|_| io::Error::other("another call is using the memory lent"))?;
        let start: *mut u8 = self.buffer.buf_ptr().cast();
        copy(start.wrapping_add(place - first));
        unregister((place, place + len), writes);
        Ok(())
    }
}

/// Has the memory that a vector has reserved come in large pages, if it is long.
pub fn prefer_huge_pages(reserved: &mut Vec<u8>) {
    advise_huge_pages(reserved.as_mut_ptr() as usize, reserved.capacity());
}

/// Has long memory that is new come in large pages: each page costs an interruption when it is first written.
fn advise_huge_pages(first: usize, len: usize) {
    if len >= LONG {
        let start = first.next_multiple_of(PAGE);
        let len = (first + len - start) / PAGE * PAGE;
        // SAFETY: the advice changes how these bytes are kept, not what they are; they lie in memory that is ours.
        let advised =
            unsafe { rustix::mm::madvise(start as *mut _, len, rustix::mm::Advice::LinuxHugepage) };
        // Without it the memory is as good, and slower.
        let _ = advised;
    }
}
