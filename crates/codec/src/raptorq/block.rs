//! Shape of a source block, and the checks that all entry points share.

use std::sync::Arc;

use super::capacity::Capacity;
use super::code::Code;
use super::cost::Size;
use super::params::ENCODING_SYMBOLS;
use crate::Error;

/// Largest symbol size, a 16-bit field (RFC 6330 §3.3.2) \[bytes\].
pub const MAX_SYMBOL_SIZE: usize = 65_535;

/// The largest K' for which everything is reserved: about 2.2 MB for it, without repair symbols.
const MAX_RESERVED: u32 = 257;

/// Most bytes reserved for copies of repair symbols.
const MAX_COPIES: usize = 1 << 20;

/// K and T of a block, and the code for its K'.
#[derive(Clone, Debug)]
pub(crate) struct BlockShape {
    pub(crate) code: Arc<Code>,
    pub(crate) k: u32,
    pub(crate) symbol_size: usize,
}

impl BlockShape {
    pub(crate) fn new(code: Arc<Code>, k: u32, symbol_size: usize) -> Result<Self, Error> {
        if !code.serves(k) {
            let (least, limit) = (code.least_symbols(), code.extended_symbols());
            return Err(Error::CodeSymbols { got: k, least, limit });
        }
        if symbol_size == 0 || symbol_size > MAX_SYMBOL_SIZE {
            return Err(Error::SymbolSize { got: symbol_size, limit: MAX_SYMBOL_SIZE });
        }
        Ok(Self { code, k, symbol_size })
    }

    /// Distance of symbols in memory of our own: whole cache lines.
    pub(crate) fn stride(&self) -> usize {
        self.symbol_size.next_multiple_of(64)
    }

    /// What costs are estimated from, for so many symbols lost or made.
    pub(crate) fn size(&self, lost: u32) -> Size {
        let params = &self.code.constraints().params;
        Size {
            k_ext: params.k_ext,
            l: params.l,
            p: params.p,
            lost,
            symbol_size: self.symbol_size,
            has_inverse: self.code.has_inverse(),
        }
    }

    /// What is reserved for blocks of this shape, unless they are too large.
    pub(crate) fn capacity(&self, max_repairs: u32) -> Option<Capacity> {
        if !self.is_small() {
            return None;
        }
        let constraints = self.code.constraints();
        let params = &constraints.params;
        Some(Capacity {
            k: self.k as usize,
            k_ext: params.k_ext as usize,
            l: params.l as usize,
            s: params.s as usize,
            h: params.h as usize,
            ldpc: constraints.ldpc_columns.len(),
            symbols: params.k_ext as usize + self.reserved_repairs(max_repairs),
            stride: self.stride(),
        })
    }

    /// Repair symbols whose IDs memory is reserved for.
    pub(crate) fn reserved_repairs(&self, max_repairs: u32) -> usize {
        if self.is_small() { max_repairs.min(default_max_repairs(self.k)) as usize } else { 0 }
    }

    /// Repair symbols whose copies memory is reserved for.
    pub(crate) fn reserved_copies(&self, max_repairs: u32) -> usize {
        let repairs = self.reserved_repairs(max_repairs);
        if repairs * self.stride() <= MAX_COPIES { repairs } else { 0 }
    }

    fn is_small(&self) -> bool {
        self.code.extended_symbols() <= MAX_RESERVED
    }

    /// The internal symbol ID: padding symbols come between source and repair symbols
    /// (RFC 6330 §5.3.1).
    pub(crate) fn internal_id(&self, esi: u32) -> Result<u32, Error> {
        if esi >= ENCODING_SYMBOLS {
            return Err(Error::SymbolId { got: esi, limit: ENCODING_SYMBOLS });
        }
        Ok(self.internal(esi))
    }

    /// As [`internal_id`](Self::internal_id), for an ID that was checked before.
    pub(crate) fn internal(&self, esi: u32) -> u32 {
        let padding = self.code.extended_symbols() - self.k;
        if esi < self.k { esi } else { esi + padding }
    }

    pub(crate) fn check_symbol(&self, len: usize) -> Result<(), Error> {
        let expected = self.symbol_size;
        if len == expected { Ok(()) } else { Err(Error::SymbolLength { got: len, expected }) }
    }

    /// Checks a block's length: the last symbol may be short, but not empty.
    pub(crate) fn check_block(&self, len: usize) -> Result<(), Error> {
        let expected = self.k as usize * self.symbol_size;
        if len <= expected && len > expected - self.symbol_size {
            Ok(())
        } else {
            Err(Error::BlockLength { got: len, expected })
        }
    }
}

/// Repair symbols stored for a block of `k` source symbols at first: enough without any source
/// symbol, and for a generous number of failed attempts.
pub(crate) fn default_max_repairs(k: u32) -> u32 {
    k + 64
}
