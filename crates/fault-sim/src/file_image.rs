//! Contents of a file on a disk: what is there for good, and what a power cut may take away.

use std::ops::Range;

use wellspring_core::RandomStream;

/// What a disk writes in one step \[bytes\].
const SECTOR: u64 = 512;

/// A change of a file.
#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Hole(Range<u64>),
    Len(u64),
    Mode(u32),
}

/// Bytes and permissions.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub bytes: Vec<u8>,
    pub mode: u32,
}

impl State {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(offset, bytes) => {
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                self.bytes.resize(self.bytes.len().max(end), 0);
                self.bytes[start..end].copy_from_slice(bytes);
            }
            Change::Hole(range) => {
                let len = self.bytes.len();
                self.bytes[(range.start as usize).min(len)..(range.end as usize).min(len)].fill(0);
            }
            Change::Len(len) => self.bytes.resize(*len as usize, 0),
            Change::Mode(mode) => self.mode = *mode,
        }
    }
}

/// A file as the disk has it, and the changes that it has not yet.
#[derive(Debug)]
pub(crate) struct FileImage {
    durable: State,
    pending: Vec<Change>,
}

impl FileImage {
    /// A new file, none of which is on the disk.
    pub(crate) fn new(mode: u32) -> Self {
        FileImage { durable: State::default(), pending: vec![Change::Mode(mode)] }
    }

    /// A file that is on the disk.
    pub(crate) fn durable(state: State) -> Self {
        FileImage { durable: state, pending: Vec::new() }
    }

    pub(crate) fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let in_sector = (SECTOR - offset % SECTOR).min(bytes.len() as u64);
            let (sector, rest) = bytes.split_at(in_sector as usize);
            self.pending.push(Change::Write(offset, sector.to_vec()));
            (offset, bytes) = (offset + in_sector, rest);
        }
    }

    pub(crate) fn punch_hole(&mut self, range: Range<u64>) {
        self.pending.push(Change::Hole(range));
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        self.pending.push(Change::Len(len));
    }

    pub(crate) fn set_mode(&mut self, mode: u32) {
        self.pending.push(Change::Mode(mode));
    }

    /// Brings all changes onto the disk.
    pub(crate) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            self.durable.apply(&change);
        }
    }

    /// A sync that failed: the system forgets that the changes are to be written, and they stay readable. Some of
    /// them have reached the disk.
    pub(crate) fn fail_sync(&mut self, rng: &mut RandomStream) {
        self.durable = self.after_power_cut(rng);
        self.pending.clear();
    }

    /// What is read once the system's memory has only what is still to be written.
    pub(crate) fn without_cache(&self) -> Vec<u8> {
        let mut state = self.durable.clone();
        for change in &self.pending {
            state.apply(change);
        }
        state.bytes
    }

    /// What is left of the file: each change reached the disk, or did not.
    pub(crate) fn after_power_cut(&self, rng: &mut RandomStream) -> State {
        let mut state = self.durable.clone();
        let likely = [0.0, 0.5, 0.9, 1.0][rng.below(4) as usize];
        for change in &self.pending {
            if rng.chance(likely) {
                state.apply(change);
            }
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wellspring_core::Seed;

    #[test]
    fn a_power_cut_takes_nothing_that_was_synced_and_may_take_any_sector_that_was_not() {
        let mut rng = Seed(1).stream("test");
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut file = FileImage::new(0o600);
            file.write(0, &[1; 1_000]);
            file.sync();
            file.write(256, &[2; 512]);
            let State { bytes, mode } = file.after_power_cut(&mut rng);
            assert_eq!((bytes.len(), mode), (1_000, 0o600));
            assert!(bytes[..256].iter().chain(&bytes[768..]).all(|byte| *byte == 1));
            assert!(bytes[256..512].iter().all(|byte| *byte == bytes[256]));
            seen.insert((bytes[256], bytes[512]));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(1, 1), (1, 2), (2, 1), (2, 2)]);
    }

    #[test]
    fn after_a_failed_sync_a_later_one_brings_nothing_of_it_onto_the_disk() {
        let mut rng = Seed(1).stream("test");
        let mut kept = 0;
        for _ in 0..200 {
            let mut file = FileImage::new(0o600);
            file.write(0, &[1; 100]);
            file.fail_sync(&mut rng);
            file.sync();
            kept += usize::from(file.after_power_cut(&mut rng).bytes.len() == 100);
        }
        assert!((20..180).contains(&kept), "{kept}");
    }
}
