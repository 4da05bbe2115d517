//! The length of what is written of a part, from its beginning on without a gap.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::{Check, ObjectSink};

/// A sink that knows how much is written. Workers write several blocks at once, and a later one may be done first.
pub(super) struct Contiguous {
    to: Arc<dyn ObjectSink>,
    written: Mutex<Written>,
}

struct Written {
    /// All bytes of the part below are written.
    through: u64,
    /// Ends of blocks that are written beyond a gap, by their beginnings.
    ahead: BTreeMap<u64, u64>,
}

impl Contiguous {
    /// Nothing has come yet of a part that begins there.
    pub(super) fn new(to: Arc<dyn ObjectSink>, offset: u64) -> Self {
        let written = Written { through: offset, ahead: BTreeMap::new() };
        Contiguous { to, written: Mutex::new(written) }
    }

    /// Where the first byte is that is not written.
    pub(super) fn end(&self) -> u64 {
        self.written().through
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectSink for Contiguous {
    fn check(&self, offset: u64, block: &[u8]) -> Check {
        self.to.check(offset, block)
    }

    fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
        self.to.write_block(offset, block)?;
        let mut written = self.written();
        written.ahead.insert(offset, offset + block.len() as u64);
        let mut through = written.through;
        while let Some(end) = written.ahead.remove(&through) {
            through = end;
        }
        written.through = through;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const LEN: usize = 10;

    /// Begins to write a block, and is done with the first one, which begins there, when the test says so.
    struct Slow {
        first: u64,
        hold: Mutex<Receiver<io::Result<()>>>,
    }

    impl ObjectSink for Slow {
        fn write_block(&self, offset: u64, _: &[u8]) -> io::Result<()> {
            if offset != self.first {
                return Ok(());
            }
            self.hold.lock().expect("no panic").recv().expect("the test goes on")
        }
    }

    #[test]
    fn blocks_that_are_written_behind_a_gap_count_when_it_is_closed() {
        for first_is_kept in [true, false] {
            let (done, hold) = channel();
            let sink = Slow { first: 500, hold: Mutex::new(hold) };
            let part = Contiguous::new(Arc::new(sink), 500);
            std::thread::scope(|scope| {
                let first = scope.spawn(|| part.write_block(500, &[1; LEN]));
                for offset in [510, 530] {
                    part.write_block(offset, &[1; LEN]).expect("written");
                    assert_eq!(part.end(), 500, "the first block is not written");
                }
                let outcome = if first_is_kept { Ok(()) } else { Err(io::Error::other("full")) };
                done.send(outcome).expect("held");
                assert_eq!(first.join().expect("no panic").is_ok(), first_is_kept);
            });
            assert_eq!(part.end(), if first_is_kept { 520 } else { 500 });
            part.write_block(520, &[1; 5]).expect("written");
            assert_eq!(part.end(), if first_is_kept { 525 } else { 500 });
            part.write_block(525, &[1; 5]).expect("written");
            assert_eq!(part.end(), if first_is_kept { 540 } else { 500 });
        }
    }
}
