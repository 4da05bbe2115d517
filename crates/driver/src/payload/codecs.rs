//! Decoding and encoding of a worker's blocks.

use std::io;
use std::sync::Arc;

use wellspring_codec::lt;
use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, CodeCache, Decoded};

use crate::payload::receive_store::ReceivedBlock;

/// Memory of RaptorQ's codes, at most \[bytes\]: a session uses two of them.
const CODES_MEMORY: usize = 32 << 20;

/// What a worker decodes and prepares with: one of each for all its blocks.
pub(crate) struct Codecs {
    codes: Arc<CodeCache>,
    decoder: Option<BlockDecoder>,
    /// Repair symbols of the block at hand: ESI, and place in the block's buffer.
    places: Vec<(u32, usize)>,
}

impl Codecs {
    /// A cache of codes for all workers.
    pub(crate) fn cache() -> Arc<CodeCache> {
        Arc::new(CodeCache::new(CODES_MEMORY))
    }

    pub(crate) fn new(codes: Arc<CodeCache>) -> Self {
        Codecs { codes, decoder: None, places: Vec::new() }
    }

    /// Fills the places in the block of source symbols that have not come. `missing` are these,
    /// ascending.
    pub(crate) fn decode(
        &mut self,
        block: &mut ReceivedBlock,
        missing: &[u32],
    ) -> io::Result<Decoded> {
        let mut data = std::mem::take(&mut block.data);
        let decoded = match &mut block.lt {
            Some(decoder) => match decoder.try_decode(&mut data) {
                Ok(lt::Decoded::Complete) => Ok(Decoded::Complete),
                Ok(lt::Decoded::NeedMore(more)) => Ok(Decoded::NeedMore(more)),
                Err(error) => Err(io::Error::other(error)),
            },
            None => self.decode_with(block, &mut data, missing, |_| true),
        };
        block.data = data;
        decoded
    }

    /// Fills the places of the source symbols `missing`, ascending, in `data`, which has the
    /// others, by those repair symbols of a block of RaptorQ's that are to be used.
    pub(crate) fn decode_with(
        &mut self,
        block: &ReceivedBlock,
        data: &mut [u8],
        missing: &[u32],
        is_used: impl Fn(u32) -> bool,
    ) -> io::Result<Decoded> {
        let (k, size) = (block.source_symbols, usize::from(block.symbol_size));
        let code = self.codes.code(k).map_err(io::Error::other)?;
        let decoder = match &mut self.decoder {
            Some(decoder) => {
                decoder.reset(code, k, size).map_err(io::Error::other)?;
                decoder
            }
            none => none.insert(BlockDecoder::new(code, k, size).map_err(io::Error::other)?),
        };
        decoder.set_max_repairs(u32::MAX);
        let mut missing = missing.iter().copied().peekable();
        for esi in 0..k {
            if missing.next_if_eq(&esi).is_none() {
                decoder.mark_source(esi).map_err(io::Error::other)?;
            }
        }
        self.places.clear();
        let used = block.repair_ids.iter().copied().zip(0..).filter(|(esi, _)| is_used(*esi));
        self.places.extend(used);
        self.places.sort_unstable();
        for (esi, _) in &self.places {
            decoder.mark_repair(*esi).map_err(io::Error::other)?;
        }
        let (places, repairs) = (&self.places, &block.repairs);
        let lent = |esi| {
            let found = places.binary_search_by_key(&esi, |(esi, _)| *esi);
            let place = found.map_or(0, |index| places[index].1);
            &repairs[place * size..][..size]
        };
        decoder.try_decode_with(data, lent).map_err(io::Error::other)
    }

    /// Makes an encoder ready for repair symbols of a block of `k` symbols.
    pub(crate) fn prepare(
        &self,
        data: &[u8],
        k: u32,
        symbol_size: u16,
        encoder: Option<Box<BlockEncoder>>,
    ) -> io::Result<Box<BlockEncoder>> {
        let (code, size) =
            (self.codes.code(k).map_err(io::Error::other)?, usize::from(symbol_size));
        let mut encoder = match encoder {
            Some(mut encoder) => {
                encoder.reset(code, k, size).map_err(io::Error::other)?;
                encoder
            }
            None => Box::new(BlockEncoder::new(code, k, size).map_err(io::Error::other)?),
        };
        // All of it here: the event loop makes the symbols, and the encoder's memory is counted when
        // it comes back.
        encoder.prepare(data).map_err(io::Error::other)?;
        Ok(encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_made_ready_needs_no_more_memory_for_its_symbols() {
        let (k, size) = (100, 1_000);
        let data = vec![7; k as usize * usize::from(size)];
        let codecs = Codecs::new(Codecs::cache());
        let mut encoder = codecs.prepare(&data, k, size, None).expect("a shape");
        let memory = encoder.memory();
        let mut symbol = vec![0; size.into()];
        for esi in k..k + 20 {
            encoder.encode(&data, esi, &mut symbol).expect("a symbol");
        }
        // The neighbours of a symbol only: a few hundred bytes.
        assert!(encoder.memory() < memory + 4_096, "{} after {memory}", encoder.memory());
        let memory = encoder.memory();
        let again = codecs.prepare(&data, k, size, Some(encoder)).expect("the same shape");
        assert_eq!(again.memory(), memory);
    }
}
