//! Memory as the target of a fetch: its own, or lent by Python.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use wellspring_net::store;

use crate::buffer::{Lent, prefer_huge_pages};

/// Most that is reserved at once for an object whose length a host says \[bytes\].
const MAX_RESERVED: u64 = 1 << 30;

/// Where a fetch writes. Shared by the transfer, which may close it, and what writes.
#[derive(Clone)]
pub enum Memory {
    /// For an object whose length only hosts know: grows as its bytes come.
    Own(OwnMemory),
    /// Of a length that the caller gave.
    Lent(LentMemory),
}

impl Memory {
    /// Takes no more, and gives back what was lent.
    pub fn close(&self) {
        match self {
            Memory::Own(own) => *own.lock() = None,
            Memory::Lent(lent) => drop(lent.take()),
        }
    }

    /// Gives back what was lent.
    pub fn give_back(&self) {
        if let Memory::Lent(lent) = self {
            drop(lent.take());
        }
    }
}

fn cancelled() -> io::Error {
    io::Error::other("the transfer was cancelled")
}

/// Memory of its own; none once it takes no more.
#[derive(Clone, Debug)]
pub struct OwnMemory(Arc<Mutex<Option<Vec<u8>>>>);

impl OwnMemory {
    /// Empty.
    pub fn new() -> Self {
        OwnMemory(Arc::new(Mutex::new(Some(Vec::new()))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares for an object of so many bytes.
    pub fn expect(&self, size: u64) {
        if let Some(bytes) = &mut *self.lock() {
            // Without it the memory grows as the bytes come.
            if bytes.try_reserve_exact(size.min(MAX_RESERVED) as usize).is_ok() {
                prefer_huge_pages(bytes);
            }
        }
    }

    /// What was written to it, once.
    pub fn take(&self) -> Vec<u8> {
        self.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl store::Place for OwnMemory {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut own = self.lock();
        let own = own.as_mut().ok_or_else(cancelled)?;
        let place = place(at, bytes.len())?;
        if own.len() < place.end {
            own.try_reserve(place.end - own.len()).map_err(io::Error::other)?;
            // A block that lies before it is still to come.
            own.resize(place.start.max(own.len()), 0);
        }
        let over = bytes.len().min(own.len() - place.start);
        own[place.start..place.start + over].copy_from_slice(&bytes[..over]);
        own.extend_from_slice(&bytes[over..]);
        Ok(())
    }

    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let own = self.lock();
        let own = own.as_ref().ok_or_else(cancelled)?;
        let there = own.get(place(at, bytes.len())?).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(there);
        Ok(())
    }
}

/// So many bytes from there on.
fn place(at: u64, len: usize) -> io::Result<Range<usize>> {
    let start = usize::try_from(at).map_err(io::Error::other)?;
    let end = start.checked_add(len).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(start..end)
}

/// Memory of the caller, which several threads write to at once; none once it is given back.
#[derive(Clone)]
pub struct LentMemory(Arc<RwLock<Option<Lent>>>);

impl LentMemory {
    /// As lent.
    pub fn new(lent: Lent) -> Self {
        LentMemory(Arc::new(RwLock::new(Some(lent))))
    }

    /// Waits for what is being written, and ends it.
    fn take(&self) -> Option<Lent> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn with(&self, copy: impl FnOnce(&Lent) -> io::Result<()>) -> io::Result<()> {
        copy(self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().ok_or_else(cancelled)?)
    }
}

impl std::fmt::Debug for LentMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LentMemory")
    }
}

impl store::Place for LentMemory {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(|lent| lent.put(at, bytes))
    }

    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.with(|lent| lent.copy_to(at, bytes))
    }
}
