//! Writer into memory.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::tree::listing::MAX_LISTING_LEN;

/// Takes bytes into memory that someone else has a hold of.
pub(super) struct Gather(Arc<Mutex<Vec<u8>>>);

impl Gather {
    pub(super) fn new() -> (Self, Arc<Mutex<Vec<u8>>>) {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        (Gather(Arc::clone(&bytes)), bytes)
    }
}

/// What was taken in.
pub(super) fn collected(bytes: &Mutex<Vec<u8>>) -> Vec<u8> {
    std::mem::take(&mut *bytes.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Write for Gather {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() + bytes.len() > MAX_LISTING_LEN {
            return Err(io::Error::other("a listing that is too long"));
        }
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
