//! LT decoders on packets of a stranger: they never panic, and right symbols never give a wrong
//! block, whatever their neighbours are.

use arbitrary::{Arbitrary, Unstructured};
use wellspring_codec::lt::{
    Added, Code, Decoded, Decoder, Method, RobustSoliton, read_description,
};

#[derive(Arbitrary, Debug)]
enum Step {
    /// A packet as it may come from anybody; the symbol is made right if the rest can be read.
    Packet { description: [u8; 24] },
    /// The neighbours of a code's symbol.
    Code { id: u8 },
    /// Neighbours that need not ascend, and a symbol that need not be long enough.
    Odd { neighbours: [u16; 3], len: u8 },
    /// Write what is there.
    Recover,
    /// Bound the symbols kept.
    Limit { symbols: u8 },
    /// Turn to another block of the same shape.
    Clear,
    /// Turn to a block of another shape.
    Reset { k: u16, symbol_size: u8, short: u8, method: u8 },
}

/// A block, its decoder, and the code of some of its symbols.
struct Block {
    source: Vec<u8>,
    decoder: Decoder,
    code: Code,
}

/// The parameters of a block, brought into range.
fn shape(k: u16, symbol_size: u8, method: u8) -> (u32, usize, Method) {
    let method = Method::ALL[usize::from(method) % Method::ALL.len()];
    (u32::from(k % 300) + 1, usize::from(symbol_size % 70) + 1, method)
}

impl Block {
    fn new(decoder: Decoder, short: u8) -> Self {
        let (k, size) = (decoder.source_symbols(), decoder.symbol_size());
        let len = k as usize * size - usize::from(short) % size;
        let source = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
        let distribution = RobustSoliton::new(k, 0.2, 0.7).expect("k is in range");
        Self { source, decoder, code: Code::new(distribution, 1) }
    }

    fn add(&mut self, neighbours: &[u32]) {
        let size = self.decoder.symbol_size();
        let mut symbol = vec![0; size];
        for &neighbour in neighbours {
            let source = &self.source[neighbour as usize * size..];
            symbol.iter_mut().zip(source).for_each(|(sum, byte)| *sum ^= byte);
        }
        let (before, kept) = (self.decoder.recovered(), self.decoder.kept());
        let wanted = self.decoder.wanted();
        let added = self.decoder.add(neighbours, &symbol).expect("right neighbours");
        assert_eq!(self.decoder.kept(), kept + u32::from(added == Added::New));
        assert!(self.decoder.recovered() >= before);
        assert!(wanted <= 1 || !self.decoder.is_complete());
    }

    /// Everything that is written is right, and nothing else is written.
    fn recover(&mut self) {
        let size = self.decoder.symbol_size();
        let mut block: Vec<u8> = self.source.iter().map(|byte| !byte).collect();
        let mut known = Vec::new();
        self.decoder.recover(&mut block, |symbol| known.push(symbol)).expect("its length");
        known.sort_unstable();
        assert_eq!(known.len(), self.decoder.recovered() as usize);
        for (symbol, (ours, right)) in (0..).zip(block.chunks(size).zip(self.source.chunks(size))) {
            let is_known = known.binary_search(&symbol).is_ok();
            assert!(ours.iter().zip(right).all(|(ours, right)| (ours == right) == is_known));
        }
        let decoded = self.decoder.try_decode(&mut block).expect("its length");
        assert_eq!(decoded == Decoded::Complete, self.decoder.is_complete());
        assert!(decoded != Decoded::Complete || block == self.source);
    }
}

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let Ok((k, symbol_size, short, method)) = input.arbitrary() else { return };
    let (k, size, method) = shape(k, symbol_size, method);
    let mut block = Block::new(Decoder::new(k, size, method).expect("in range"), short);
    let mut neighbours = Vec::new();
    while !input.is_empty() {
        let Ok(step) = input.arbitrary::<Step>() else { return };
        let k = block.decoder.source_symbols();
        match step {
            Step::Packet { description } => {
                if read_description(k, &description, &mut neighbours).is_ok() {
                    block.add(&neighbours);
                }
            }
            Step::Code { id } => {
                block.code.neighbours(u32::from(id), &mut neighbours);
                block.add(&neighbours);
            }
            Step::Odd { neighbours, len } => {
                let odd = neighbours.map(u32::from);
                let right = odd[0] < odd[1] && odd[1] < odd[2] && odd[2] < k;
                if !right || usize::from(len) != block.decoder.symbol_size() {
                    let symbol = vec![0; usize::from(len)];
                    assert!(block.decoder.add(&odd, &symbol).is_err());
                }
            }
            Step::Recover => block.recover(),
            Step::Limit { symbols } => block.decoder.set_max_symbols(u32::from(symbols)),
            Step::Clear => block.decoder.clear(),
            Step::Reset { k, symbol_size, short, method } => {
                let (k, size, method) = shape(k, symbol_size, method);
                block.decoder.reset(k, size, method).expect("in range");
                block = Block::new(block.decoder, short);
            }
        }
    }
    block.recover();
}
