//! A session's bytes at its client: decoders for the block under way and the one behind it, and blocks
//! being written.

use std::io;
use std::sync::Arc;

use wellspring_codec::lt::{Added, Code, Decoded, Decoder, LtError, Method};

use super::handle::Ending;
use super::sending::{Layout, code};
use crate::payload::ObjectSink;

/// Decoders of a session at one time: of the block under way, with overlap of the one behind it, and
/// of blocks that are summed up and written. A block that would need another one waits, and so its
/// server is not told to stop, which slows it down.
const MAX_DECODERS: usize = 3;
/// Symbols a decoder keeps for each source symbol. Belief propagation needs less than twice as
/// many, the standard decoder up to 75 times (see the book's page on LT codes) but keeps only
/// those it can use.
const ROOM_FACTOR: u32 = 8;

/// A block to be summed up and written.
pub(super) struct Write {
    pub decoder: Box<Decoder>,
    pub sink: Arc<dyn ObjectSink>,
    pub offset: u64,
    pub len: usize,
}

impl Write {
    /// Does it; blocks the thread.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut block = vec![0; self.len];
        match self.decoder.try_decode(&mut block) {
            Ok(Decoded::Complete) => self.sink.write_block(self.offset, &block),
            Ok(Decoded::NeedMore(_)) => Err(io::Error::other("a complete block is incomplete")),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

/// What comes of an attempt to finish a block.
pub(super) enum Finish {
    /// More symbols are needed.
    NeedMore,
    /// The block is determined, and is to be written.
    Write(Write),
    /// It is determined, but too many are being written: to be tried again when one is.
    Wait,
}

/// A block that is being received.
struct Block {
    code: Arc<Code>,
    decoder: Box<Decoder>,
}

/// The receiving side.
pub(super) struct Receiving {
    sink: Arc<dyn ObjectSink>,
    pub layout: Layout,
    seed: u64,
    method: Method,
    /// Blocks that may be written at one time.
    max_writing: usize,
    /// The block under way, and the one behind it from its first symbol on.
    sbn: u32,
    block: Block,
    ahead: Option<Block>,
    #[expect(clippy::vec_box, reason = "they come and go as boxes: messages are to be small")]
    spare: Vec<Box<Decoder>>,
    neighbours: Vec<u32>,
    writing: usize,
    /// The block under way is determined and waits to be written.
    pub waiting: bool,
}

impl Receiving {
    /// Before the first symbol. With `overlap` symbols of two blocks are taken in.
    ///
    /// # Errors
    /// The codec's, if the layout [is not possible](Layout::is_possible).
    pub(super) fn new(
        sink: Arc<dyn ObjectSink>,
        layout: Layout,
        seed: u64,
        method: Method,
        overlap: bool,
    ) -> Result<Self, LtError> {
        let k = layout.parameters.symbols_in_block(0);
        let size = usize::from(layout.parameters.symbol_size);
        let block = Block { code: code(k, seed)?, decoder: roomy_decoder(k, size, method)? };
        Ok(Receiving {
            sink,
            layout,
            seed,
            method,
            max_writing: MAX_DECODERS - 1 - usize::from(overlap),
            sbn: 0,
            block,
            ahead: None,
            spare: Vec::new(),
            neighbours: Vec::new(),
            writing: 0,
            waiting: false,
        })
    }

    /// Takes in a symbol of the block under way, or of the one behind it.
    ///
    /// # Errors
    /// [`Ending::Exhausted`] if there is no room for what is still needed: no honest server's
    /// symbols come to that.
    pub(super) fn add(&mut self, sbn: u32, esi: u32, symbol: &[u8]) -> Result<(), Ending> {
        let failed = |error| Ending::Write(io::Error::other(error));
        if sbn != self.sbn && self.ahead.is_none() {
            self.ahead = Some(self.begin(sbn).map_err(failed)?);
        }
        let block = match &mut self.ahead {
            Some(ahead) if sbn != self.sbn => ahead,
            _ => &mut self.block,
        };
        block.code.neighbours(esi, &mut self.neighbours);
        match block.decoder.add(&self.neighbours, symbol) {
            Ok(Added::Full) if !block.decoder.is_complete() => Err(Ending::Exhausted),
            Ok(_) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Finishes the block under way if that can be done now.
    ///
    /// # Errors
    /// The codec's, which a possible layout has none of.
    pub(super) fn finish(&mut self) -> Result<Finish, LtError> {
        if !self.block.decoder.is_complete() {
            return Ok(Finish::NeedMore);
        }
        if self.writing >= self.max_writing {
            self.waiting = true;
            return Ok(Finish::Wait);
        }
        self.waiting = false;
        self.writing += 1;
        let (offset, len) = self.layout.block(self.sbn);
        self.sbn += 1;
        let next = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.begin(self.sbn)?,
        };
        let decoder = std::mem::replace(&mut self.block, next).decoder;
        Ok(Finish::Write(Write { decoder, sink: Arc::clone(&self.sink), offset, len }))
    }

    /// Makes ready for a block.
    fn begin(&mut self, sbn: u32) -> Result<Block, LtError> {
        // Behind the last block nothing comes; any decoder will do.
        let k = self.layout.parameters.symbols_in_block(sbn).max(1);
        let size = usize::from(self.layout.parameters.symbol_size);
        let code = match self.block.code.source_symbols() == k {
            true => Arc::clone(&self.block.code),
            false => code(k, self.seed)?,
        };
        let decoder = match self.spare.pop() {
            Some(mut decoder) => {
                decoder.reset(k, size, self.method)?;
                decoder.set_max_symbols(room(k));
                decoder
            }
            None => roomy_decoder(k, size, self.method)?,
        };
        Ok(Block { code, decoder })
    }

    /// A block has been written.
    pub(super) fn on_written(&mut self, decoder: Box<Decoder>) {
        self.writing -= 1;
        self.spare.push(decoder);
    }

    /// Whether no block is being written.
    pub(super) fn is_idle(&self) -> bool {
        self.writing == 0
    }
}

/// A decoder with room for what its method may need.
fn roomy_decoder(k: u32, size: usize, method: Method) -> Result<Box<Decoder>, LtError> {
    let mut decoder = Box::new(Decoder::new(k, size, method)?);
    decoder.set_max_symbols(room(k));
    Ok(decoder)
}

fn room(k: u32) -> u32 {
    k.saturating_mul(ROOM_FACTOR) + 64
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use wellspring_codec::lt::Encoder;
    use wellspring_transport::lttp::Parameters;

    use super::*;

    const K: u32 = 16;
    const SIZE: usize = 8;

    #[derive(Default)]
    struct Kept(Mutex<Vec<(u64, Vec<u8>)>>);

    impl ObjectSink for Kept {
        fn write_block(&self, offset: u64, block: &[u8]) -> io::Result<()> {
            self.0.lock().expect("not poisoned").push((offset, block.to_vec()));
            Ok(())
        }
    }

    /// A block, and what makes symbols of it.
    type Sent = (Encoder, Vec<u8>);

    /// A receiving side of three blocks, and these.
    fn three_blocks(overlap: bool) -> (Receiving, Vec<Sent>, Arc<Kept>) {
        let block_len = K as usize * SIZE;
        let parameters = Parameters {
            transfer_len: 3 * block_len as u64,
            symbol_size: SIZE as u16,
            block_symbols: K,
        };
        let layout = Layout { offset: 100, parameters };
        let sink = Arc::new(Kept::default());
        let receiving =
            Receiving::new(Arc::clone(&sink) as _, layout, 7, Method::Elimination, overlap)
                .expect("possible");
        let encoder = || Encoder::new(code(K, 7).expect("possible"), SIZE).expect("possible");
        let blocks = (1..=3).map(|byte| (encoder(), vec![byte; block_len])).collect();
        (receiving, blocks, sink)
    }

    fn feed(receiving: &mut Receiving, blocks: &mut [Sent], sbn: u32) {
        let (encoder, block) = &mut blocks[sbn as usize];
        let mut symbol = [0; SIZE];
        for esi in 0..8 * K {
            encoder.encode(block, esi, &mut symbol).expect("possible");
            receiving.add(sbn, esi, &symbol).expect("room");
        }
    }

    fn write(receiving: &mut Receiving) -> Write {
        match receiving.finish().expect("possible") {
            Finish::Write(write) => write,
            Finish::NeedMore | Finish::Wait => panic!("the block is complete"),
        }
    }

    #[test]
    fn two_blocks_are_taken_in_and_a_third_decoder_is_the_last() {
        let (mut receiving, mut blocks, sink) = three_blocks(true);
        feed(&mut receiving, &mut blocks, 1);
        assert!(matches!(receiving.finish(), Ok(Finish::NeedMore)), "the first one is empty");
        feed(&mut receiving, &mut blocks, 0);
        let mut first = write(&mut receiving);
        feed(&mut receiving, &mut blocks, 2);
        assert!(matches!(receiving.finish(), Ok(Finish::Wait)), "three decoders are in use");
        assert!(receiving.waiting && !receiving.is_idle());
        first.run().expect("written");
        receiving.on_written(first.decoder);
        for _ in 1..3 {
            let mut next = write(&mut receiving);
            next.run().expect("written");
            receiving.on_written(next.decoder);
        }
        assert!(receiving.is_idle());
        assert!(receiving.spare.len() < MAX_DECODERS);
        let kept = sink.0.lock().expect("not poisoned");
        let expected: Vec<_> =
            (0..3_u8).map(|sbn| (100 + u64::from(sbn) * 128, vec![sbn + 1; 128])).collect();
        assert_eq!(*kept, expected);
    }

    #[test]
    fn without_overlap_two_blocks_are_written_at_one_time() {
        let (mut receiving, mut blocks, _) = three_blocks(false);
        for sbn in 0..2 {
            feed(&mut receiving, &mut blocks, sbn);
            write(&mut receiving);
        }
        feed(&mut receiving, &mut blocks, 2);
        assert!(matches!(receiving.finish(), Ok(Finish::Wait)));
    }
}
