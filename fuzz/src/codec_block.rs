//! A block's decoder under any sequence of calls: it never panics, keeps its counts true, and right
//! symbols never give a wrong block.

use std::collections::BTreeSet;

use arbitrary::{Arbitrary, Unstructured};
use wellspring_codec::raptorq::{Added, BlockDecoder, BlockEncoder, Code, Decoded};

#[derive(Arbitrary, Debug)]
enum Step {
    /// The encoding symbol of that number, as the encoder makes it.
    Add { esi: u32 },
    /// One of the first symbols: more likely to be of use than any number.
    AddNear { esi: u8 },
    /// A symbol of another length.
    AddOdd { esi: u32, len: u8 },
    /// A source symbol written in its place by the caller.
    Mark { esi: u8 },
    /// Try to decode.
    Decode,
    /// Bound the repair symbols stored.
    Limit { repairs: u8 },
    /// Turn to another block of the same shape.
    Clear,
    /// Turn to a block of another shape.
    Reset { k: u8, symbol_size: u8, short: u8 },
}

/// A block, its encoder, and what its decoder was given.
struct Block {
    k: u32,
    symbol_size: usize,
    source: Vec<u8>,
    encoder: BlockEncoder,
    received: Vec<u8>,
    given: BTreeSet<u32>,
}

impl Block {
    /// A block of K symbols, the last of them `short` bytes short of a whole one.
    fn new(k: u8, symbol_size: u8, short: u8) -> Self {
        let (k, symbol_size) = (u32::from(k % 64) + 1, usize::from(symbol_size % 80) + 1);
        let len = k as usize * symbol_size - usize::from(short) % symbol_size;
        let source: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
        let code = Code::new(k).expect("K is in range");
        let encoder = BlockEncoder::new(code, k, symbol_size).expect("the code is for K");
        let received = vec![0; len];
        Self { k, symbol_size, source, encoder, received, given: BTreeSet::new() }
    }

    fn forget(&mut self) {
        self.received.fill(0);
        self.given.clear();
    }

    fn symbol(&mut self, esi: u32) -> Option<Vec<u8>> {
        let mut symbol = vec![0; self.symbol_size];
        self.encoder.encode(&self.source, esi, &mut symbol).ok().map(|()| symbol)
    }

    fn add(&mut self, decoder: &mut BlockDecoder, esi: u32) {
        let Some(symbol) = self.symbol(esi) else {
            assert!(esi >= 1 << 24, "every ESI of 24 bits has a symbol");
            return;
        };
        let complete = decoder.is_complete();
        match decoder.add(&mut self.received, esi, &symbol).expect("a right symbol") {
            Added::New => assert!(!complete && self.given.insert(esi)),
            Added::Duplicate => assert!(complete || self.given.contains(&esi)),
            Added::Full => assert!(esi >= self.k),
        }
    }

    fn mark(&mut self, decoder: &mut BlockDecoder, esi: u32) {
        if esi >= self.k {
            assert!(decoder.mark_source(esi).is_err());
            return;
        }
        let start = esi as usize * self.symbol_size;
        let end = self.source.len().min(start + self.symbol_size);
        self.received[start..end].copy_from_slice(&self.source[start..end]);
        if decoder.mark_source(esi) == Ok(Added::New) {
            assert!(self.given.insert(esi));
        }
    }

    fn decode(&mut self, decoder: &mut BlockDecoder) {
        let wanted = decoder.wanted();
        match decoder.try_decode(&mut self.received).expect("the block has its length") {
            Decoded::Complete => {
                assert_eq!(wanted, 0);
                assert_eq!(self.received, self.source);
            }
            Decoded::NeedMore(more) => {
                assert!(more >= 1);
                assert_eq!(decoder.wanted(), more);
                // RFC 6330 §5.8: this many more than K leave a failure to one in 256^20 or so.
                assert!(self.given.len() < self.k as usize + 20, "too much overhead");
            }
        }
    }

    fn check(&self, decoder: &BlockDecoder) {
        if !decoder.is_complete() {
            assert_eq!(decoder.received() as usize, self.given.len());
            assert!(decoder.missing().all(|esi| !self.given.contains(&esi)));
        }
        if decoder.is_complete() {
            assert_eq!(decoder.wanted(), 0);
        }
    }
}

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let Ok((k, symbol_size, short)) = input.arbitrary() else { return };
    let mut block = Block::new(k, symbol_size, short);
    let code = Code::new(block.k).expect("K is in range");
    let mut decoder =
        BlockDecoder::new(code, block.k, block.symbol_size).expect("the code is for K");
    while !input.is_empty() {
        let Ok(step) = input.arbitrary::<Step>() else { return };
        match step {
            Step::Add { esi } => block.add(&mut decoder, esi),
            Step::AddNear { esi } => block.add(&mut decoder, u32::from(esi)),
            Step::AddOdd { esi, len } => {
                if usize::from(len) != block.symbol_size {
                    let symbol = vec![0; usize::from(len)];
                    assert!(decoder.add(&mut block.received, esi, &symbol).is_err());
                }
            }
            Step::Mark { esi } => block.mark(&mut decoder, u32::from(esi)),
            Step::Decode => block.decode(&mut decoder),
            Step::Limit { repairs } => decoder.set_max_repairs(u32::from(repairs)),
            Step::Clear => {
                block.forget();
                decoder.clear();
            }
            Step::Reset { k, symbol_size, short } => {
                block = Block::new(k, symbol_size, short);
                let code = Code::new(block.k).expect("K is in range");
                decoder.reset(code, block.k, block.symbol_size).expect("the code is for K");
            }
        }
        block.check(&decoder);
    }
}
