//! Codes of a session's blocks.

use std::io;
use std::sync::Arc;

use wellspring_codec::lt::{self, LtError, Method, RobustSoliton};
use wellspring_codec::raptorq::{BlockDecoder, BlockEncoder, CodeCache, Decoded};

use super::geometry::Geometry;
use super::receive_store::ReceivedBlock;

/// Memory of RaptorQ's codes, at most \[bytes\]: a session uses two of them.
const CODES_MEMORY: usize = 32 << 20;

/// By which code the symbols of a session's blocks are made.
#[derive(Clone, Debug)]
pub(crate) enum Coding {
    /// RaptorQ (RFC 6330): source symbols, and as many repair symbols as are wanted.
    RaptorQ,
    /// An LT code: every symbol is a sum of source symbols.
    Lt(Arc<LtCoding>),
    /// No code: source symbols alone.
    Uncoded,
}

impl Coding {
    /// What an open block counts against the bound on memory \[bytes\], given its length: an LT
    /// decoder keeps the symbols as they come and what is summed up beside the block.
    pub(super) fn reserved(&self, block: u64) -> u64 {
        match self {
            Coding::RaptorQ | Coding::Uncoded => block,
            Coding::Lt(_) => 3 * block,
        }
    }
}

/// The LT code of a session: one seed for the blocks of either length.
#[derive(Debug)]
pub(crate) struct LtCoding {
    codes: [Arc<lt::Code>; 2],
    /// How a receiver decodes.
    pub(crate) method: Method,
    /// Encoding symbols that a decoder keeps for each source symbol.
    room_factor: u32,
}

impl LtCoding {
    /// The code for blocks of that geometry: both ends make the same of the same seed and
    /// distribution (c and delta).
    ///
    /// # Errors
    /// The codec's: a block has too many symbols.
    pub(crate) fn new(
        geometry: &Geometry,
        (c, delta): (f64, f64),
        seed: u64,
        method: Method,
        room_factor: u32,
    ) -> Result<Self, LtError> {
        let last = geometry.blocks().saturating_sub(1);
        let code = |sbn| {
            let k = geometry.symbols_in_block(sbn);
            Ok::<_, LtError>(Arc::new(lt::Code::new(RobustSoliton::new(k, c, delta)?, seed)))
        };
        Ok(LtCoding { codes: [code(0)?, code(last)?], method, room_factor })
    }

    fn code(&self, k: u32) -> &Arc<lt::Code> {
        let [first, last] = &self.codes;
        if first.source_symbols() == k { first } else { last }
    }

    /// An encoder for a block of `k` symbols.
    ///
    /// # Errors
    /// The codec's, which a geometry that the code was made for has none of.
    pub(super) fn encoder(&self, k: u32, symbol_size: u16) -> Result<lt::Encoder, LtError> {
        lt::Encoder::new(Arc::clone(self.code(k)), symbol_size.into())
    }

    /// Makes `decoder` ready for a block of `k` symbols.
    ///
    /// # Errors
    /// As [`encoder`](Self::encoder).
    pub(super) fn begin<'a>(
        &self,
        decoder: &'a mut Option<Box<lt::Decoder>>,
        k: u32,
        symbol_size: u16,
    ) -> Result<&'a mut lt::Decoder, LtError> {
        let size = symbol_size.into();
        let decoder = match decoder {
            Some(decoder) => {
                decoder.reset(k, size, self.method)?;
                decoder
            }
            none => none.insert(Box::new(lt::Decoder::new(k, size, self.method)?)),
        };
        decoder.set_max_symbols(k.saturating_mul(self.room_factor) + 64);
        Ok(decoder)
    }

    /// The source symbols that encoding symbol `esi` of a block of `k` is the sum of.
    pub(super) fn neighbours(&self, k: u32, esi: u32, neighbours: &mut Vec<u32>) {
        self.code(k).neighbours(esi, neighbours);
    }
}

/// What a worker decodes and prepares with: one of each for all its blocks.
pub(super) struct Codecs {
    codes: Arc<CodeCache>,
    decoder: Option<BlockDecoder>,
    /// Repair symbols of the block at hand: ESI, and place in the block's buffer.
    places: Vec<(u32, usize)>,
}

impl Codecs {
    /// A cache of codes for all workers.
    pub(super) fn cache() -> Arc<CodeCache> {
        Arc::new(CodeCache::new(CODES_MEMORY))
    }

    pub(super) fn new(codes: Arc<CodeCache>) -> Self {
        Codecs { codes, decoder: None, places: Vec::new() }
    }

    /// Fills the places in the block of source symbols that have not come. `missing` are these,
    /// ascending.
    pub(super) fn decode(
        &mut self,
        block: &mut ReceivedBlock,
        missing: &[u32],
    ) -> io::Result<Decoded> {
        if let Some(decoder) = &mut block.lt {
            return match decoder.try_decode(&mut block.data).map_err(io::Error::other)? {
                lt::Decoded::Complete => Ok(Decoded::Complete),
                lt::Decoded::NeedMore(more) => Ok(Decoded::NeedMore(more)),
            };
        }
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
        self.places.extend(block.repair_ids.iter().copied().zip(0..));
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
        decoder.try_decode_with(&mut block.data, lent).map_err(io::Error::other)
    }

    /// Makes an encoder ready for repair symbols of a block of `k` symbols.
    pub(super) fn prepare(
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
        // The first repair symbol brings all the work; the others are cheap.
        let mut symbol = vec![0; size];
        encoder.encode(data, k, &mut symbol).map_err(io::Error::other)?;
        Ok(encoder)
    }
}
