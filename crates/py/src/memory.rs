//! Memory as the target of a fetch: its own, or lent by Python.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffer::Lent;

/// Most that is reserved at once for an object whose length a host says \[bytes\].
const MAX_RESERVED: u64 = 1 << 30;

enum Place {
    Own(Vec<u8>),
    Lent { memory: Lent, filled: usize },
    Closed,
}

/// Where a fetch writes. Shared by the transfer, which may close it, and its writer.
#[derive(Clone)]
pub struct Memory(Arc<Mutex<Place>>);

impl Memory {
    /// Memory of its own.
    pub fn own() -> Self {
        Memory(Arc::new(Mutex::new(Place::Own(Vec::new()))))
    }

    /// Memory of the caller.
    pub fn lent(memory: Lent) -> Self {
        Memory(Arc::new(Mutex::new(Place::Lent { memory, filled: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares for an object of so many bytes.
    pub fn expect(&self, size: u64) {
        if let Place::Own(bytes) = &mut *self.lock() {
            // Without it the memory grows as the bytes come.
            let _ = bytes.try_reserve_exact(size.min(MAX_RESERVED) as usize);
        }
    }

    /// Takes no more.
    pub fn close(&self) {
        *self.lock() = Place::Closed;
    }

    /// Whether it takes no more.
    pub fn is_closed(&self) -> bool {
        matches!(*self.lock(), Place::Closed)
    }

    /// Gives back what was lent.
    pub fn give_back(&self) {
        let mut place = self.lock();
        if matches!(*place, Place::Lent { .. }) {
            *place = Place::Closed;
        }
    }

    /// What was written to its own memory.
    pub fn take(&self) -> Vec<u8> {
        match &mut *self.lock() {
            Place::Own(bytes) => std::mem::take(bytes),
            _ => Vec::new(),
        }
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.lock() {
            Place::Own(own) => {
                own.try_reserve(bytes.len()).map_err(io::Error::other)?;
                own.extend_from_slice(bytes);
            }
            Place::Lent { memory, filled } => {
                let len = memory.len();
                // The exception's own words would need the interpreter, which may wait for this lock.
                let in_use = |_| io::Error::other("another call is using the memory lent");
                let mut place = memory.write().map_err(in_use)?;
                let Some(part) = place.get_mut(*filled..*filled + bytes.len()) else {
                    let text = format!("the object is longer than the {len} bytes lent for it");
                    return Err(io::Error::other(text));
                };
                part.copy_from_slice(bytes);
                *filled += bytes.len();
            }
            Place::Closed => return Err(io::Error::other("the transfer was cancelled")),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
