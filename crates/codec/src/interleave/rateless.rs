//! RFC 6330's code as a block code of packets.

use std::sync::Arc;

use super::block_code::BlockCode;
use crate::raptorq::{BlockDecoder, BlockEncoder, Code, Decoded};

/// RaptorQ over blocks of packets: r symbols give the block but for one time in 256, one more but for
/// one in 65,536. Symbols are those of a source block of r; repair n has ESI r + n.
#[derive(Debug, Default)]
pub struct RaptorQBlocks {
    /// The code of the last block's size.
    code: Option<(u32, Arc<Code>)>,
}

impl RaptorQBlocks {
    /// A code that knows no block size yet.
    pub fn new() -> Self {
        RaptorQBlocks::default()
    }

    fn code(&mut self, packets: usize) -> Option<(u32, Arc<Code>)> {
        let k = u32::try_from(packets).ok()?;
        if self.code.as_ref().is_none_or(|(of, _)| *of != k) {
            self.code = Some((k, Code::new(k).ok()?));
        }
        self.code.clone()
    }
}

impl BlockCode for RaptorQBlocks {
    fn repairs(&mut self, packets: &[Vec<u8>], count: usize) -> Vec<Vec<u8>> {
        let Some((k, code)) = self.code(packets.len()) else { return Vec::new() };
        let len = packets.first().map_or(0, Vec::len);
        let source = packets.concat();
        let Ok(mut encoder) = BlockEncoder::new(code, k, len) else { return Vec::new() };
        let repair = |number: usize| {
            let mut symbol = vec![0; len];
            encoder.encode(&source, k + number as u32, &mut symbol).ok().map(|()| symbol)
        };
        (0..count).map_while(repair).collect()
    }

    fn restore(
        &mut self,
        packets: &[Option<Vec<u8>>],
        repairs: &[(u8, Vec<u8>)],
    ) -> Option<Vec<Vec<u8>>> {
        let (k, code) = self.code(packets.len())?;
        let len = repairs.first()?.1.len();
        let mut decoder = BlockDecoder::new(code, k, len).ok()?;
        let mut memory = vec![0; packets.len() * len];
        for (esi, packet) in (0..).zip(packets) {
            if let Some(packet) = packet {
                decoder.add(&mut memory, esi, packet).ok()?;
            }
        }
        for (number, symbol) in repairs {
            decoder.add(&mut memory, k + u32::from(*number), symbol).ok()?;
        }
        if decoder.try_decode(&mut memory).ok()? != Decoded::Complete {
            return None;
        }
        let missing = packets.iter().zip(memory.chunks(len)).filter(|(packet, _)| packet.is_none());
        Some(missing.map(|(_, bytes)| bytes.to_vec()).collect())
    }
}
