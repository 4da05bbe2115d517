//! Codes of a session's blocks.

use std::sync::Arc;

use wellspring_codec::lt::{self, LtError, Method, RobustSoliton};

use crate::payload::geometry::Geometry;

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
    pub(crate) fn reserved(&self, block: u64) -> u64 {
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
    pub(crate) fn encoder(&self, k: u32, symbol_size: u16) -> Result<lt::Encoder, LtError> {
        lt::Encoder::new(Arc::clone(self.code(k)), symbol_size.into())
    }

    /// Makes `decoder` ready for a block of `k` symbols.
    ///
    /// # Errors
    /// As [`encoder`](Self::encoder).
    pub(crate) fn begin<'a>(
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
    pub(crate) fn neighbours(&self, k: u32, esi: u32, neighbours: &mut Vec<u32>) {
        self.code(k).neighbours(esi, neighbours);
    }
}
