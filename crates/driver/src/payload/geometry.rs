//! Offsets of a transfer's symbols and blocks in its object.

use wellspring_transport::scdp;

/// A part of an object, cut into blocks of symbols: `long_blocks` blocks of `long` symbols, and
/// behind them blocks of `short` symbols. RFC 6330 §4.4.1.2 partitions so, and so does LTTP, whose
/// last block has what is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    /// First byte in the object.
    offset: u64,
    /// Length \[bytes\].
    len: u64,
    symbol_size: u16,
    blocks: u32,
    long_blocks: u32,
    long: u32,
    short: u32,
    /// Length of every block but the last \[bytes\]; 0: so many whole symbols.
    block_len: u64,
}

impl Geometry {
    /// `len` bytes from `offset` on in blocks of `k` symbols; the last block has what is left.
    pub(crate) fn in_order(offset: u64, len: u64, symbol_size: u16, k: u32) -> Self {
        let (symbol_size, k) = (symbol_size.max(1), k.max(1));
        let symbols = len.div_ceil(symbol_size.into());
        let long_blocks = u32::try_from(symbols / u64::from(k)).unwrap_or(u32::MAX);
        let short = (symbols % u64::from(k)) as u32;
        let blocks = long_blocks.saturating_add(u32::from(short > 0));
        Geometry { offset, len, symbol_size, blocks, long_blocks, long: k, short, block_len: 0 }
    }

    /// Symbol size \[bytes\].
    pub(crate) fn symbol_size(&self) -> u16 {
        self.symbol_size
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Source symbols of a block; 0 behind the last.
    pub(crate) fn symbols_in_block(&self, sbn: u32) -> u32 {
        match sbn {
            _ if sbn < self.long_blocks => self.long,
            _ if sbn < self.blocks => self.short,
            _ => 0,
        }
    }

    /// First byte of a block in the object, and its length: the last may end short of a whole
    /// symbol.
    pub(crate) fn block(&self, sbn: u32) -> (u64, u64) {
        if self.block_len > 0 {
            let first = u64::from(sbn).saturating_mul(self.block_len).min(self.len);
            return (self.offset + first, self.block_len.min(self.len - first));
        }
        let long = u64::from(sbn.min(self.long_blocks)) * u64::from(self.long);
        let short = u64::from(sbn.saturating_sub(self.long_blocks)) * u64::from(self.short);
        let size = u64::from(self.symbol_size);
        let first = (long + short).saturating_mul(size).min(self.len);
        let len = u64::from(self.symbols_in_block(sbn)) * size;
        (self.offset + first, len.min(self.len - first))
    }

    /// Length of the longest block \[bytes\].
    pub(crate) fn longest_block(&self) -> u64 {
        self.block(0).1
    }

    /// Block and place in it of the source symbol at `at` bytes from the part's beginning; the
    /// blocks must be [in order](Self::in_order).
    pub(crate) fn symbol_at(&self, at: u64) -> (u32, u32) {
        let symbol = at / u64::from(self.symbol_size);
        let (sbn, esi) = (symbol / u64::from(self.long), symbol % u64::from(self.long));
        (u32::try_from(sbn).unwrap_or(u32::MAX), esi as u32)
    }

    /// Bytes of the object in a source symbol: the symbol size, but at the object's end.
    pub(crate) fn source_len(&self, sbn: u32, esi: u32) -> usize {
        let (_, block) = self.block(sbn);
        let before = u64::from(esi) * u64::from(self.symbol_size);
        block.saturating_sub(before).min(self.symbol_size.into()) as usize
    }
}

impl From<scdp::ObjectInfo> for Geometry {
    fn from(object: scdp::ObjectInfo) -> Self {
        if object.block_len > 0 {
            let last = object.source_blocks.saturating_sub(1);
            return Geometry {
                offset: 0,
                len: object.transfer_len,
                symbol_size: object.symbol_size,
                blocks: object.source_blocks,
                long_blocks: last,
                long: object.symbols_in_block(0),
                short: object.symbols_in_block(last),
                block_len: object.block_len,
            };
        }
        let (symbols, blocks) = (object.total_symbols(), u64::from(object.source_blocks.max(1)));
        let short = (symbols / blocks) as u32;
        Geometry {
            offset: 0,
            len: object.transfer_len,
            symbol_size: object.symbol_size,
            blocks: object.source_blocks,
            long_blocks: (symbols % blocks) as u32,
            long: short.saturating_add(1),
            short,
            block_len: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_lie_one_behind_the_other_and_the_last_is_short() {
        let part = Geometry::in_order(7, 95, 10, 4);
        let blocks: Vec<_> = (0..4).map(|sbn| part.block(sbn)).collect();
        assert_eq!(blocks, [(7, 40), (47, 40), (87, 15), (102, 0)]);
        assert_eq!(part.block(u32::MAX), (102, 0));
        assert_eq!((part.blocks(), part.symbols_in_block(2), part.symbols_in_block(3)), (3, 2, 0));
        assert_eq!((part.source_len(2, 0), part.source_len(2, 1)), (10, 5));
        assert_eq!(part.symbol_at(90), (2, 1));
    }

    proptest! {
        #[test]
        fn an_object_lies_where_the_protocol_says(
            len in 1_u64..10_000_000, size in 1_u16..2_000, k in 1_u32..300, in_blocks: bool,
        ) {
            let object = match in_blocks {
                false => scdp::ObjectInfo::new(len, size, k, 0),
                true => scdp::ObjectInfo::in_blocks_of(len.div_ceil(k.into()), len, size, 0),
            };
            let geometry = Geometry::from(object);
            prop_assert_eq!(geometry.blocks(), object.source_blocks);
            for sbn in 0..=object.source_blocks {
                prop_assert_eq!(geometry.symbols_in_block(sbn), object.symbols_in_block(sbn));
                if sbn < object.source_blocks {
                    prop_assert_eq!(geometry.block(sbn), object.byte_range_of_block(sbn));
                }
            }
        }
    }
}
