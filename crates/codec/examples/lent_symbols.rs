//! Blocks received from a lossy line into memory of our own: source symbols in their place, repair
//! symbols where the line left them, nothing copied twice.
//!
//! `cargo run --release -p wellspring-codec --example lent_symbols`

use wellspring_codec::Error;
use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded};

const K: u32 = 100;
const T: usize = 1_400;

/// What a receiver keeps of packets: where a repair symbol stands in its buffer.
struct Packets {
    buffer: Vec<u8>,
    ids: Vec<u32>,
}

impl Packets {
    /// The bytes of repair symbol `esi`.
    fn symbol(&self, esi: u32) -> &[u8] {
        let place = self.ids.iter().position(|id| *id == esi).unwrap_or(0);
        &self.buffer[place * T..][..T]
    }
}

fn main() -> Result<(), Error> {
    let code = Code::new(K)?; // shared by all blocks of this size, on any number of threads
    let mut encoder = BlockEncoder::new(code.clone(), K, T)?;
    let mut decoder = BlockDecoder::new(code, K, T)?; // one for all blocks: it is reset

    for number in 0..5_u8 {
        let source: Vec<u8> = (0..K as usize * T).map(|i| (i / 3) as u8 ^ number).collect();
        encoder.clear();
        decoder.clear();
        let mut block = vec![0; source.len()];
        let mut packets = Packets { buffer: Vec::new(), ids: Vec::new() };

        // The sender sends source symbols, and continues with repair symbols until it receives a stop;
        // the line loses one packet in `number + 2`.
        let mut sent = 0;
        let decoded = loop {
            let esi = sent;
            sent += 1;
            if esi % (u32::from(number) + 2) == 0 {
                continue;
            }
            if esi < K {
                // As if the network card had put it there.
                let place = esi as usize * T..(esi as usize + 1) * T;
                block[place.clone()].copy_from_slice(&source[place]);
                decoder.mark_source(esi)?;
            } else {
                let start = packets.buffer.len();
                packets.buffer.resize(start + T, 0);
                encoder.encode(&source, esi, &mut packets.buffer[start..])?;
                packets.ids.push(esi);
                decoder.mark_repair(esi)?;
            }
            if decoder.wanted() == 0 {
                let decoded = decoder.try_decode_with(&mut block, |esi| packets.symbol(esi))?;
                if decoded == Decoded::Complete {
                    break decoded;
                }
            }
        };
        assert_eq!((decoded, &block), (Decoded::Complete, &source));
        println!("block {number}: {sent} symbols sent, {} repair symbols used", packets.ids.len());
    }
    Ok(())
}
