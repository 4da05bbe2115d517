//! The part of an object that has arrived without a gap from its beginning on: hashed while the
//! rest arrives, so that little is left to do at the end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::hash::hash_range;
use super::{Digest, Disk, HashProgress};

/// Which bytes of an object are there, and the digest of those without a gap before them.
#[derive(Debug)]
pub(super) struct Prefix {
    state: Mutex<State>,
    contiguous: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    /// Bytes that are there: disjoint ranges that do not touch, start to end.
    ranges: Ranges,
    /// Those of them that an earlier life of the file has left, and that are still to be verified.
    presumed: Ranges,
    /// Whether it is hashed at all.
    is_hashed: bool,
    hashed: u64,
    /// Absent while some thread hashes without holding the lock, and after a read error.
    hasher: Option<blake3::Hasher>,
}

/// Disjoint ranges that do not touch.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn insert(&mut self, mut start: u64, mut end: u64) {
        while let Some((&s, &e)) = self.0.range(..=end).next_back() {
            if e < start {
                break;
            }
            self.0.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.0.insert(start, end);
    }

    fn remove(&mut self, start: u64, end: u64) {
        while let Some((&s, &e)) = self.0.range(..end).next_back() {
            if e <= start {
                break;
            }
            self.0.remove(&s);
            if end < e {
                self.0.insert(end, e);
            }
            if s < start {
                self.0.insert(s, start);
            }
        }
    }
}

impl State {
    fn contiguous(&self) -> u64 {
        let first = self.ranges.0.first_key_value();
        first.map_or(0, |(start, end)| if *start == 0 { *end } else { 0 })
    }
}

impl Prefix {
    /// What is there, without its digest: each block is verified before it comes.
    pub(super) fn of_verified() -> Self {
        let prefix = Prefix::new();
        prefix.lock().is_hashed = false;
        prefix
    }

    pub(super) fn new() -> Self {
        let state = State {
            ranges: Ranges::default(),
            presumed: Ranges::default(),
            is_hashed: true,
            hashed: 0,
            hasher: Some(blake3::Hasher::new()),
        };
        Prefix { state: Mutex::new(state), contiguous: watch::Sender::new(0) }
    }

    /// Bytes there without a gap from the beginning on; watch it to follow.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.contiguous.subscribe()
    }

    /// Takes note of bytes that are in the file already, and verified.
    pub(super) fn note(&self, start: u64, end: u64) {
        self.change(|state| {
            state.ranges.insert(start, end);
            state.presumed.remove(start, end);
        });
    }

    /// Counts bytes that an earlier life of the file has left as there, though the object is not whole before each of
    /// them is [noted](Self::note) or [refuted](Self::refute).
    pub(super) fn presume(&self, start: u64, end: u64) {
        self.change(|state| {
            state.presumed.insert(start, end);
            state.ranges.insert(start, end);
        });
    }

    /// Bytes that were presumed are not those of the object: they are missing.
    pub(super) fn refute(&self, start: u64, end: u64) {
        self.change(|state| {
            state.presumed.remove(start, end);
            state.ranges.remove(start, end);
        });
    }

    /// Changes what is there, and publishes how far it is contiguous.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.contiguous.send_replace(state.contiguous());
    }

    /// Bytes that are there and not presumed, ascending.
    pub(super) fn verified(&self) -> Vec<Range<u64>> {
        let state = self.lock();
        let mut verified = Ranges(state.ranges.0.clone());
        for (start, end) in &state.presumed.0 {
            verified.remove(*start, *end);
        }
        verified.0.into_iter().map(|(start, end)| start..end).collect()
    }

    /// The end of the last byte there.
    pub(super) fn furthest(&self) -> u64 {
        self.lock().ranges.0.last_key_value().map_or(0, |(_, end)| *end)
    }

    /// How far it is hashed.
    pub(super) fn hashed(&self) -> u64 {
        let state = self.lock();
        if state.is_hashed { state.hashed } else { state.contiguous() }
    }

    /// Takes note of a block that was written to `file`. One of the threads that write hashes for
    /// all, the block from memory if it is the next one, others read back.
    pub(super) fn wrote(
        &self,
        disk: &dyn Disk,
        file: &File,
        offset: u64,
        block: &[u8],
    ) -> io::Result<()> {
        let end = offset + block.len() as u64;
        let mut state = self.lock();
        state.ranges.insert(offset, end);
        state.presumed.remove(offset, end);
        let contiguous = state.contiguous();
        self.contiguous.send_if_modified(|c| std::mem::replace(c, contiguous) != contiguous);
        while state.is_hashed && state.hashed < state.contiguous() {
            let Some(mut hasher) = state.hasher.take() else { break };
            let (from, mut to) = (state.hashed, state.contiguous());
            drop(state);
            if from == offset {
                hasher.update(block);
                to = end;
            } else {
                hash_range(disk, file, from..to, &mut hasher, &HashProgress::default())?;
            }
            state = self.lock();
            state.hashed = to;
            state.hasher = Some(hasher);
        }
        Ok(())
    }

    /// The digest of the first `size` bytes of the file; hashes what is left. `None` where it is not
    /// hashed, since each block was verified. All writes are over.
    pub(super) fn digest(
        &self,
        disk: &dyn Disk,
        file: &File,
        size: u64,
    ) -> io::Result<Option<Digest>> {
        let mut state = self.lock();
        if state.contiguous() != size || state.ranges.0.len() > 1 {
            return Err(io::Error::other("bytes of the object are missing"));
        }
        if !state.presumed.0.is_empty() {
            return Err(io::Error::other("bytes of the object are not verified"));
        }
        if !state.is_hashed {
            return Ok(None);
        }
        let from = state.hashed;
        let hasher = state.hasher.as_mut();
        let hasher = hasher.ok_or_else(|| io::Error::other("the object could not be read back"))?;
        hash_range(disk, file, from..size, hasher, &HashProgress::default())?;
        let digest = Digest(*hasher.finalize().as_bytes());
        state.hashed = size;
        Ok(Some(digest))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SystemDisk;
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::FileExt;

    proptest! {
        #[test]
        fn blocks_in_any_order_give_the_digest_of_the_whole(
            len in 1_usize..5_000, block in 1_usize..700, order in any::<u64>(),
        ) {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
            let file = tempfile::tempfile().expect("temporary file");
            file.set_len(len as u64).expect("length");
            let prefix = Prefix::new();
            let mut blocks: Vec<usize> = (0..len.div_ceil(block)).collect();
            let mut stream = wellspring_core::Seed(order).stream("order");
            for i in (1..blocks.len()).rev() {
                blocks.swap(i, stream.below(i as u64 + 1) as usize);
            }
            let mut there = vec![false; blocks.len()];
            for (i, &b) in blocks.iter().enumerate() {
                prop_assert!(prefix.digest(&SystemDisk, &file, len as u64).is_err(), "{i} blocks are not all");
                let bytes = &bytes[b * block..len.min((b + 1) * block)];
                file.write_all_at(bytes, (b * block) as u64).expect("write");
                prefix.wrote(&SystemDisk, &file, (b * block) as u64, bytes).expect("hash");
                there[b] = true;
                let whole = there.iter().take_while(|t| **t).count();
                prop_assert_eq!(*prefix.watch().borrow(), len.min(whole * block) as u64);
            }
            prop_assert_eq!(prefix.furthest(), len as u64);
            let digest = prefix.digest(&SystemDisk, &file, len as u64).expect("digest").expect("hashed");
            prop_assert_eq!(digest.0, *blake3::hash(&bytes).as_bytes());
        }
    }

    #[test]
    fn an_object_is_not_whole_while_bytes_of_it_are_presumed() {
        let file = tempfile::tempfile().expect("temporary file");
        let prefix = Prefix::of_verified();
        let digest = || prefix.digest(&SystemDisk, &file, 1_000);
        prefix.presume(0, 400);
        prefix.presume(500, 900);
        prefix.wrote(&SystemDisk, &file, 400, &[1; 100]).expect("written");
        prefix.wrote(&SystemDisk, &file, 900, &[1; 100]).expect("written");
        assert_eq!((*prefix.watch().borrow(), prefix.furthest()), (1_000, 1_000));
        assert_eq!(prefix.verified(), [400..500, 900..1_000]);
        assert!(digest().is_err());
        prefix.note(0, 400);
        prefix.note(500, 600);
        prefix.refute(600, 700);
        assert_eq!(*prefix.watch().borrow(), 600);
        assert_eq!(prefix.verified(), [0..600, 900..1_000]);
        prefix.note(700, 900);
        assert!(digest().is_err(), "100 bytes are missing");
        prefix.wrote(&SystemDisk, &file, 600, &[1; 100]).expect("written");
        assert_eq!(digest().expect("whole"), None);
    }

    #[test]
    fn many_threads_hash_every_byte_once() {
        let bytes: Vec<u8> = (0..400_000_usize).map(|i| (i * 31 + i / 257) as u8).collect();
        let file = tempfile::tempfile().expect("temporary file");
        let prefix = Prefix::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (file, prefix, bytes) = (&file, &prefix, &bytes);
                scope.spawn(move || {
                    for b in (thread..400).step_by(4) {
                        let block = &bytes[b * 1_000..(b + 1) * 1_000];
                        file.write_all_at(block, b as u64 * 1_000).expect("write");
                        prefix.wrote(&SystemDisk, file, b as u64 * 1_000, block).expect("hash");
                    }
                });
            }
        });
        let digest = prefix.digest(&SystemDisk, &file, 400_000).expect("digest").expect("hashed");
        assert_eq!(digest.0, *blake3::hash(&bytes).as_bytes());
    }
}
