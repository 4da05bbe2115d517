//! A session's bytes at its server: blocks that are read ahead, and encoding symbols of them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use wellspring_codec::lt::{Code, Encoder, LtError, MAX_SOURCE_SYMBOLS, RobustSoliton};
use wellspring_transport::lttp::Parameters;

use super::SOLITON;
use crate::payload::ObjectSource;

/// Longest block \[bytes\]: a session holds two.
pub(super) const MAX_BLOCK_LEN: u64 = 8 << 20;

/// Where blocks lie in an object of which a session sends a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Where the part begins in the object \[bytes\].
    pub offset: u64,
    /// How it is cut.
    pub parameters: Parameters,
}

impl Layout {
    /// Whether both ends can work with it: bounded memory, a code that exists.
    pub(super) fn is_possible(&self) -> bool {
        let Parameters { symbol_size, block_symbols, .. } = self.parameters;
        let block = u64::from(symbol_size) * u64::from(block_symbols);
        block_symbols <= MAX_SOURCE_SYMBOLS && block <= MAX_BLOCK_LEN
    }

    /// Where a block begins in the object, and its length \[bytes\]; 0 behind the last.
    pub(super) fn block(&self, sbn: u32) -> (u64, usize) {
        let Parameters { transfer_len, symbol_size, block_symbols } = self.parameters;
        let block = u64::from(symbol_size) * u64::from(block_symbols);
        let begin = block.saturating_mul(sbn.into()).min(transfer_len);
        (self.offset + begin, (transfer_len - begin).min(block) as usize)
    }
}

/// The code of blocks of `k` symbols: both ends make the same of the same seed.
pub(super) fn code(k: u32, seed: u64) -> Result<Arc<Code>, LtError> {
    let (c, delta) = SOLITON;
    Ok(Arc::new(Code::new(RobustSoliton::new(k, c, delta)?, seed)))
}

/// Whom to have a block read by.
pub(super) struct Load {
    pub source: Arc<dyn ObjectSource>,
    pub sbn: u32,
    pub offset: u64,
    pub len: usize,
}

impl Load {
    /// Reads the block; blocks the thread.
    pub(super) fn run(&self) -> io::Result<Vec<u8>> {
        let mut block = vec![0; self.len];
        self.source.read_block(self.offset, &mut block)?;
        Ok(block)
    }
}

/// A block that is there, and what makes symbols of it.
struct Block {
    sbn: u32,
    bytes: Vec<u8>,
    encoder: Encoder,
}

/// The sending side.
pub(super) struct Sending {
    source: Arc<dyn ObjectSource>,
    pub layout: Layout,
    seed: u64,
    symbol: Vec<u8>,
    /// The first block that is not stopped and the next one, as they are read.
    blocks: VecDeque<Block>,
    /// The next block to be read.
    next: u32,
    loading: bool,
}

impl Sending {
    /// Begins with the first block, which has been read: no symbol waits for the disk.
    ///
    /// # Errors
    /// The codec's, if the layout [is not possible](Layout::is_possible).
    pub(super) fn new(
        source: Arc<dyn ObjectSource>,
        layout: Layout,
        seed: u64,
        first: Vec<u8>,
    ) -> Result<Self, LtError> {
        let mut sending = Sending {
            source,
            layout,
            seed,
            symbol: vec![0; usize::from(layout.parameters.symbol_size)],
            blocks: VecDeque::new(),
            next: 0,
            loading: false,
        };
        sending.on_loaded(0, first)?;
        Ok(sending)
    }

    /// A block to be read now, if one is: the one behind the first that is not stopped.
    pub(super) fn poll_load(&mut self) -> Option<Load> {
        let (offset, len) = self.layout.block(self.next);
        if self.loading || self.blocks.len() >= 2 || len == 0 {
            return None;
        }
        self.loading = true;
        Some(Load { source: Arc::clone(&self.source), sbn: self.next, offset, len })
    }

    /// A block has been read.
    ///
    /// # Errors
    /// The codec's, which a possible layout has none of.
    pub(super) fn on_loaded(&mut self, sbn: u32, bytes: Vec<u8>) -> Result<(), LtError> {
        self.loading = false;
        if sbn == self.next {
            let k = self.layout.parameters.symbols_in_block(sbn);
            let before = self.blocks.back().map(|block| block.encoder.code());
            let code = match before.filter(|code| code.source_symbols() == k) {
                Some(code) => Arc::clone(code),
                None => code(k, self.seed)?,
            };
            let encoder = Encoder::new(code, self.symbol.len())?;
            self.blocks.push_back(Block { sbn, bytes, encoder });
            self.next += 1;
        }
        Ok(())
    }

    /// The client has the blocks below `next`: they are let go.
    pub(super) fn on_stop(&mut self, next: u32) {
        while self.blocks.front().is_some_and(|block| block.sbn < next) {
            self.blocks.pop_front();
        }
        if self.blocks.is_empty() && self.next < next {
            // A client that skips blocks: what is being read for it is not wanted any more.
            self.next = next;
        }
    }

    /// The bytes of a symbol; none if its block is not there yet.
    ///
    /// # Errors
    /// The codec's, which a possible layout has none of.
    pub(super) fn symbol(&mut self, sbn: u32, esi: u32) -> Result<Option<&[u8]>, LtError> {
        let Some(block) = self.blocks.iter_mut().find(|block| block.sbn == sbn) else {
            return Ok(None);
        };
        block.encoder.encode(&block.bytes, esi, &mut self.symbol)?;
        Ok(Some(&self.symbol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting;

    impl ObjectSource for Counting {
        fn read_block(&self, offset: u64, block: &mut [u8]) -> io::Result<()> {
            block.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = at as u8);
            Ok(())
        }
    }

    fn layout() -> Layout {
        let parameters = Parameters { transfer_len: 95, symbol_size: 10, block_symbols: 4 };
        Layout { offset: 7, parameters }
    }

    #[test]
    fn blocks_lie_one_behind_the_other_and_the_last_is_short() {
        let blocks: Vec<_> = (0..4).map(|sbn| layout().block(sbn)).collect();
        assert_eq!(blocks, [(7, 40), (47, 40), (87, 15), (102, 0)]);
        assert_eq!(layout().block(u32::MAX), (102, 0));
    }

    #[test]
    fn a_block_is_read_ahead_and_no_more() {
        let first = Load { source: Arc::new(Counting), sbn: 0, offset: 7, len: 40 };
        let first = first.run().expect("read");
        let mut sending = Sending::new(Arc::new(Counting), layout(), 1, first).expect("possible");
        let load = sending.poll_load().expect("the second block");
        assert_eq!((load.sbn, load.offset, load.len), (1, 47, 40));
        assert!(sending.poll_load().is_none(), "one at a time");
        assert!(sending.symbol(0, 5).expect("possible").is_some());
        assert!(sending.symbol(1, 0).expect("possible").is_none(), "not read yet");
        sending.on_loaded(1, load.run().expect("read")).expect("possible");
        assert!(sending.symbol(1, 0).expect("possible").is_some());
        assert!(sending.symbol(0, 6).expect("possible").is_some(), "not stopped yet");
        assert!(sending.poll_load().is_none(), "two are there");
        sending.on_stop(1);
        assert!(sending.symbol(0, 7).expect("possible").is_none(), "let go");
        let load = sending.poll_load().expect("the last block");
        assert_eq!((load.sbn, load.len), (2, 15));
        sending.on_loaded(2, load.run().expect("read")).expect("possible");
        assert!(sending.symbol(1, 1).expect("possible").is_some());
        assert_eq!(sending.symbol(2, 9).expect("possible").map(<[u8]>::len), Some(10));
        sending.on_stop(2);
        assert!(sending.poll_load().is_none(), "there are no more");
    }

    #[test]
    fn who_skips_blocks_gets_the_one_he_wants() {
        let mut sending =
            Sending::new(Arc::new(Counting), layout(), 1, vec![0; 40]).expect("possible");
        let load = sending.poll_load().expect("the second block");
        sending.on_stop(2);
        assert!(sending.symbol(2, 0).expect("possible").is_none());
        sending.on_loaded(1, load.run().expect("read")).expect("possible");
        let load = sending.poll_load().expect("the block that is wanted");
        assert_eq!(load.sbn, 2);
        sending.on_loaded(2, load.run().expect("read")).expect("possible");
        assert!(sending.symbol(2, 0).expect("possible").is_some());
    }
}
