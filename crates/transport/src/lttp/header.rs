//! LTTP's packets as values.

use crate::tfrc::{Report, Stamp};
use wellspring_core::Header;

/// What a client needs to know before it can decode (LTTP §III-B: original data size and block
/// size).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// Length of everything \[bytes\].
    pub transfer_len: u64,
    /// Length of a symbol, the paper's block size \[bytes\].
    pub symbol_size: u16,
    /// Source symbols of a full block, k. The paper has one block.
    pub block_symbols: u32,
}

impl Parameters {
    /// Whether they describe anything.
    pub(super) fn are_valid(&self) -> bool {
        self.transfer_len > 0
            && self.symbol_size > 0
            && self.block_symbols > 0
            && self.blocks_wide() <= u64::from(u32::MAX)
    }

    /// Source symbols of all blocks.
    pub(super) fn symbols(&self) -> u64 {
        self.transfer_len.div_ceil(u64::from(self.symbol_size.max(1)))
    }

    fn blocks_wide(&self) -> u64 {
        self.symbols().div_ceil(u64::from(self.block_symbols.max(1)))
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.blocks_wide()).unwrap_or(u32::MAX)
    }

    /// Source symbols of a block: all have k but the last; 0 for one that does not exist.
    pub fn symbols_in_block(&self, sbn: u32) -> u32 {
        let before = u64::from(sbn) * u64::from(self.block_symbols);
        let left = self.symbols().saturating_sub(before);
        left.min(self.block_symbols.into()) as u32
    }
}

/// The header of an LTTP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LttpHeader {
    /// Control, client to server: send what you have for this session.
    Request,
    /// Control, server to client: the answer.
    Parameters(Parameters),
    /// Data: an encoding symbol.
    Symbol {
        /// For rate control.
        stamp: Stamp,
        /// Block.
        sbn: u32,
        /// Encoding symbol ID: which neighbours it has both ends know (the paper sends them).
        esi: u32,
    },
    /// Data channel, back: the client's measurements.
    Report(Report),
    /// Control, client to server: the blocks below are complete.
    Stop {
        /// The first block that is still wanted: the number of blocks, when all is there.
        next: u32,
    },
    /// Control, server to client: the stop has come.
    Stopped {
        /// [`LttpHeader::Stop`]'s.
        next: u32,
    },
    /// Control: the other side has given up.
    Close,
}

impl Header for LttpHeader {
    /// UDP (8 bytes), RFC 5348's three fields and a symbol's ID: with IP's 20, 44 bytes. The
    /// paper's packets carry degree and indices instead of the ID, about as long.
    fn wire_len(&self) -> u16 {
        24
    }
}

const _: () = assert!(size_of::<wellspring_core::Frame<LttpHeader>>() <= 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_has_what_is_left() {
        let parameters = Parameters { transfer_len: 10_001, symbol_size: 1_000, block_symbols: 4 };
        assert_eq!(parameters.blocks(), 3);
        let symbols: std::vec::Vec<_> =
            (0..4).map(|sbn| parameters.symbols_in_block(sbn)).collect();
        assert_eq!(symbols, [4, 4, 3, 0]);
        assert!(parameters.are_valid());
        assert!(!Parameters { symbol_size: 0, ..parameters }.are_valid());
        let endless = Parameters { transfer_len: u64::MAX, symbol_size: 1, block_symbols: 1 };
        assert!(!endless.are_valid());
    }
}
