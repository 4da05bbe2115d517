//! The progress of a session, for progress bars: counters that any thread reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How far a session is. Clones share the counters; they outlive the session.
#[derive(Clone, Debug)]
pub struct SessionProgress {
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Counters {
    transfer_len: u64,
    bytes_done: AtomicU64,
    blocks_done: AtomicU64,
    symbols: AtomicU64,
    duplicates: AtomicU64,
}

impl SessionProgress {
    /// Counters of a session that is yet to begin, over so many bytes.
    pub fn new(transfer_len: u64) -> Self {
        SessionProgress {
            counters: Arc::new(Counters {
                transfer_len,
                bytes_done: AtomicU64::new(0),
                blocks_done: AtomicU64::new(0),
                symbols: AtomicU64::new(0),
                duplicates: AtomicU64::new(0),
            }),
        }
    }

    /// The object's length \[bytes\].
    pub fn transfer_len(&self) -> u64 {
        self.counters.transfer_len
    }
    /// Bytes written to the sink; at a sender, 0 throughout \[bytes\].
    pub fn bytes_done(&self) -> u64 {
        self.counters.bytes_done.load(Relaxed)
    }
    /// Blocks written to the sink; at a sender, 0 throughout.
    pub fn blocks_done(&self) -> u64 {
        self.counters.blocks_done.load(Relaxed)
    }
    /// Symbols kept at a receiver, or symbols sent by a sender (a multicast symbol counts once).
    pub fn symbols(&self) -> u64 {
        self.counters.symbols.load(Relaxed)
    }

    /// Symbols that came to a receiver, also those that it had already, as from a group of which others lack more.
    pub fn arrived(&self) -> u64 {
        self.symbols() + self.counters.duplicates.load(Relaxed)
    }

    pub(crate) fn add_blocks(&self, blocks: u64, bytes: u64) {
        self.counters.bytes_done.fetch_add(bytes, Relaxed);
        self.counters.blocks_done.fetch_add(blocks, Relaxed);
    }
    pub(crate) fn add_symbols(&self, symbols: u64) {
        self.counters.symbols.fetch_add(symbols, Relaxed);
    }
    pub(crate) fn add_duplicates(&self, symbols: u64) {
        self.counters.duplicates.fetch_add(symbols, Relaxed);
    }
}
