//! A session's bytes at its client: a decoder for the block under way, and blocks being written.

use std::io;
use std::sync::Arc;

use wellspring_codec::lt::{Added, Code, Decoded, Decoder, LtError, Method};

use super::handle::Ending;
use super::sending::{Layout, code};
use crate::payload::ObjectSink;

/// Blocks of a session that are summed up and written at one time: the next one waits, and so its
/// server is not told to stop, which slows it down.
const MAX_WRITING: usize = 2;
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

/// The receiving side.
pub(super) struct Receiving {
    sink: Arc<dyn ObjectSink>,
    pub layout: Layout,
    seed: u64,
    method: Method,
    sbn: u32,
    code: Arc<Code>,
    decoder: Box<Decoder>,
    #[expect(clippy::vec_box, reason = "they come and go as boxes: messages are to be small")]
    spare: Vec<Box<Decoder>>,
    neighbours: Vec<u32>,
    writing: usize,
    /// The block under way is determined and waits to be written.
    pub waiting: bool,
}

impl Receiving {
    /// Before the first symbol.
    ///
    /// # Errors
    /// The codec's, if the layout [is not possible](Layout::is_possible).
    pub(super) fn new(
        sink: Arc<dyn ObjectSink>,
        layout: Layout,
        seed: u64,
        method: Method,
    ) -> Result<Self, LtError> {
        let k = layout.parameters.symbols_in_block(0);
        let size = usize::from(layout.parameters.symbol_size);
        Ok(Receiving {
            sink,
            layout,
            seed,
            method,
            sbn: 0,
            code: code(k, seed)?,
            decoder: roomy_decoder(k, size, method)?,
            spare: Vec::new(),
            neighbours: Vec::new(),
            writing: 0,
            waiting: false,
        })
    }

    /// Takes in a symbol of the block under way.
    ///
    /// # Errors
    /// [`Ending::Exhausted`] if there is no room for what is still needed: no honest server's
    /// symbols come to that.
    pub(super) fn add(&mut self, esi: u32, symbol: &[u8]) -> Result<(), Ending> {
        self.code.neighbours(esi, &mut self.neighbours);
        match self.decoder.add(&self.neighbours, symbol) {
            Ok(Added::Full) if !self.decoder.is_complete() => Err(Ending::Exhausted),
            Ok(_) => Ok(()),
            Err(error) => Err(Ending::Write(io::Error::other(error))),
        }
    }

    /// Finishes the block under way if that can be done now.
    ///
    /// # Errors
    /// The codec's, which a possible layout has none of.
    pub(super) fn finish(&mut self) -> Result<Finish, LtError> {
        if !self.decoder.is_complete() {
            return Ok(Finish::NeedMore);
        }
        if self.writing >= MAX_WRITING {
            self.waiting = true;
            return Ok(Finish::Wait);
        }
        self.waiting = false;
        self.writing += 1;
        let (offset, len) = self.layout.block(self.sbn);
        self.sbn += 1;
        let next = self.next_decoder()?;
        let decoder = std::mem::replace(&mut self.decoder, next);
        Ok(Finish::Write(Write { decoder, sink: Arc::clone(&self.sink), offset, len }))
    }

    /// A decoder for the block under way.
    fn next_decoder(&mut self) -> Result<Box<Decoder>, LtError> {
        // Behind the last block nothing comes; any decoder will do.
        let k = self.layout.parameters.symbols_in_block(self.sbn).max(1);
        let size = usize::from(self.layout.parameters.symbol_size);
        if self.code.source_symbols() != k {
            self.code = code(k, self.seed)?;
        }
        match self.spare.pop() {
            Some(mut decoder) => {
                decoder.reset(k, size, self.method)?;
                decoder.set_max_symbols(room(k));
                Ok(decoder)
            }
            None => roomy_decoder(k, size, self.method),
        }
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
