//! Memory that Python lends: contiguous bytes by the buffer protocol, read or written without a copy.
//!
//! The only module with `unsafe`, beside what is below it. A [`Lent`] keeps its object's memory in place, as long as it lives. A
//! [`Reading`] or [`Writing`] of it is registered while it exists, so that no two calls of this module use
//! overlapping bytes of which one writes. Python code that changes lent memory during a call is not
//! registered; as for `hashlib` or `socket.recv_into`, that is the caller's mistake and damages bytes.
#![expect(
    unsafe_code,
    reason = "memory of other objects, whose place and length CPython vouches for"
)]

#[cfg(target_os = "linux")]
mod fetched;

use std::hint::black_box;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

#[cfg(target_os = "linux")]
pub use fetched::prefer_huge_pages;

/// Bytes in use by calls, each with the first, one past the last, and whether the call writes them.
type InUse = Mutex<Vec<(usize, usize, bool)>>;

/// Those of this process. Tables are never freed: after `fork` the child has one of its own.
static IN_USE: AtomicPtr<InUse> = AtomicPtr::new(std::ptr::null_mut());

fn in_use() -> MutexGuard<'static, Vec<(usize, usize, bool)>> {
    let mut table = IN_USE.load(Ordering::Acquire);
    if table.is_null() {
        let made = Box::into_raw(Box::default());
        let null = std::ptr::null_mut();
        // Who comes second leaves a few bytes behind, once.
        table = match IN_USE.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(others) => others,
        };
    }
    // SAFETY: it is not null, and what it points to came from a `Box` that is never freed.
    unsafe { &*table }.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the calls of other threads, in a child of `fork`, which does not have these threads. One of them may
/// hold the lock of the table, so that it is not unlocked but replaced.
#[pyfunction]
pub fn after_fork_in_child() {
    IN_USE.store(Box::into_raw(Box::default()), Ordering::Release);
}

/// Bytes that a core has near, beside what a code needs.
const CACHE: usize = 512 << 10;
/// Bytes that come together from memory.
const LINE: usize = 64;

/// Reads a block once in the order of memory, if it fits in a core's cache. Codes go through it by columns, across all
/// symbols: in that order processors fetch nothing ahead, and a block that comes from memory takes three times as long.
pub fn into_cache(block: &[u8]) {
    if block.len() <= CACHE {
        // Each step waits for the last: loads in a rush miss before what fetches ahead has seen where they go.
        let step = |all: u64, byte: &u8| all.wrapping_mul(0x9E37_79B9) ^ u64::from(*byte);
        black_box(block.iter().step_by(LINE).fold(0, step));
    }
}

/// Contiguous bytes of a Python object.
pub struct Lent {
    buffer: PyUntypedBuffer,
    what: &'static str,
    may_write: bool,
}

impl Lent {
    /// The bytes of `object`, named `what` in errors.
    ///
    /// # Errors
    /// `TypeError` if it has no buffer or its elements are no bytes, `BufferError` if it has gaps, `ValueError` if it
    /// is closed.
    pub fn new(object: &Bound<'_, PyAny>, what: &'static str) -> PyResult<Self> {
        let buffer = match PyUntypedBuffer::get(object) {
            Ok(buffer) => buffer,
            // A view that was released, a mapping that was closed.
            Err(error) if error.is_instance_of::<PyValueError>(object.py()) => {
                return Err(PyValueError::new_err(format!(
                    "{what} cannot be lent, {}: give bytes, a bytearray, an open memoryview or an array of uint8",
                    error.value(object.py())
                )));
            }
            Err(_) => {
                let kind = object.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "{what} is of type {kind}: give bytes, a bytearray, a memoryview or a NumPy array of uint8"
                )));
            }
        };
        if buffer.item_size() != 1 {
            return Err(PyTypeError::new_err(format!(
                "{what} has elements of {} bytes (format {}): give bytes, or `array.view(numpy.uint8)`",
                buffer.item_size(),
                buffer.format().to_string_lossy(),
            )));
        }
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err(format!(
                "{what} has gaps between its bytes (strides {:?}): numpy.ascontiguousarray() makes a copy without",
                buffer.strides(),
            )));
        }
        let may_write = !buffer.readonly();
        Ok(Lent { buffer, what, may_write })
    }

    /// As [`new`](Self::new), for memory to be written.
    ///
    /// # Errors
    /// As [`new`](Self::new), and `BufferError` if it is read-only.
    pub fn writable(object: &Bound<'_, PyAny>, what: &'static str) -> PyResult<Self> {
        let lent = Self::new(object, what)?;
        if !lent.may_write {
            return Err(PyBufferError::new_err(format!(
                "{what} is read-only: give a bytearray or a writable NumPy array"
            )));
        }
        Ok(lent)
    }

    /// Its length \[bytes\].
    pub fn len(&self) -> usize {
        self.buffer.len_bytes()
    }

    fn range(&self) -> (usize, usize) {
        let first = self.buffer.buf_ptr() as usize;
        (first, first + self.len())
    }

    /// Its bytes, to be read.
    ///
    /// # Errors
    /// `RuntimeError` if another call is writing some of them.
    pub fn read(&self) -> PyResult<Reading<'_>> {
        let (first, end) = self.range();
        register(first, end, false, self.what)?;
        Ok(Reading(self))
    }

    /// Its bytes, to be written.
    ///
    /// # Errors
    /// `RuntimeError` if another call is using some of them.
    pub fn write(&self) -> PyResult<Writing<'_>> {
        debug_assert!(self.may_write, "asked for as writable");
        let (first, end) = self.range();
        register(first, end, true, self.what)?;
        Ok(Writing(self))
    }
}

fn register(first: usize, end: usize, writes: bool, what: &str) -> PyResult<()> {
    let mut in_use = in_use();
    let overlaps = |&(other, others_end, other_writes): &(usize, usize, bool)| {
        first < others_end && other < end && (writes || other_writes)
    };
    if first < end && in_use.iter().any(overlaps) {
        return Err(PyRuntimeError::new_err(format!(
            "{what} shares memory with another argument, or another thread is working in it: give each its own"
        )));
    }
    in_use.push((first, end, writes));
    Ok(())
}

fn unregister(range: (usize, usize), writes: bool) {
    let mut in_use = in_use();
    let entry = (range.0, range.1, writes);
    if let Some(at) = in_use.iter().position(|used| *used == entry) {
        in_use.swap_remove(at);
    }
}

/// Lent bytes that this call reads.
pub struct Reading<'a>(&'a Lent);

impl Deref for Reading<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.0.len() == 0 {
            return &[];
        }
        // SAFETY: `Lent` holds the buffer's export, so CPython keeps its `len` bytes in place, and
        // contiguity was checked. No call of this module writes them: they are registered.
        unsafe { std::slice::from_raw_parts(self.0.buffer.buf_ptr().cast(), self.0.len()) }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        unregister(self.0.range(), false);
    }
}

/// Lent bytes that this call writes.
pub struct Writing<'a>(&'a Lent);

impl Deref for Writing<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.0.len() == 0 {
            return &[];
        }
        // SAFETY: as for `Reading`; and no other call reads or writes them.
        unsafe { std::slice::from_raw_parts(self.0.buffer.buf_ptr().cast(), self.0.len()) }
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        if self.0.len() == 0 {
            return &mut [];
        }
        // SAFETY: as for `Reading`; the buffer is writable, which `Lent::writable` checked; and no other call reads or
        // writes these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.0.buffer.buf_ptr().cast(), self.0.len()) }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        unregister(self.0.range(), true);
    }
}
