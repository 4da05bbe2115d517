//! Object descriptions for receivers: FEC Object Transmission Information and FEC Payload ID
//! (RFC 6330 §3.2, §3.3), and how the object is cut by them (§4.3, §4.4).

use super::block::MAX_SYMBOL_SIZE;
use super::params::{ENCODING_SYMBOLS, MAX_SOURCE_SYMBOLS};
use super::systematic::TABLE;
use crate::Error;

/// The largest transfer length \[bytes\]: 255 blocks of 56,403 symbols of 65,535 bytes.
///
/// RFC 6330 §3.3.2 prints a larger number, which its own limits on Z, K and T do not allow
/// (erratum 5548).
pub const MAX_TRANSFER_LENGTH: u64 = 942_574_504_275;

/// The FEC Object Transmission Information of RFC 6330 §3.3: F, T, Z, N and Al.
///
/// Values are valid by construction: the object they describe can be cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectTransmissionInformation {
    transfer_length: u64,
    symbol_size: u16,
    source_blocks: u8,
    sub_blocks: u16,
    alignment: u8,
}

impl ObjectTransmissionInformation {
    /// Encoded length \[bytes\]: 8 common and 4 scheme-specific ones.
    pub const LEN: usize = 12;

    /// Describes an object of `transfer_length` bytes (F) in symbols of `symbol_size` bytes (T),
    /// `source_blocks` blocks (Z), `sub_blocks` sub-blocks (N) and alignment `alignment` (Al).
    ///
    /// # Errors
    ///
    /// [`Error::TransferLength`] beyond [`MAX_TRANSFER_LENGTH`]; [`Error::SymbolSize`] if T is
    /// zero; [`Error::Alignment`] if Al does not divide T; [`Error::SubBlocks`] if N is zero or
    /// more than T / Al; [`Error::SourceBlocks`] if Z is zero or more than the number of symbols;
    /// [`Error::SourceSymbols`] if a block would have more than 56,403 symbols.
    pub fn new(
        transfer_length: u64,
        symbol_size: u16,
        source_blocks: u8,
        sub_blocks: u16,
        alignment: u8,
    ) -> Result<Self, Error> {
        let (f, t, al) = (transfer_length, u64::from(symbol_size), u64::from(alignment));
        let (z, n) = (u64::from(source_blocks), u64::from(sub_blocks));
        if f > MAX_TRANSFER_LENGTH {
            return Err(Error::TransferLength { got: f, limit: MAX_TRANSFER_LENGTH });
        }
        if t == 0 {
            return Err(Error::SymbolSize { got: 0, limit: MAX_SYMBOL_SIZE });
        }
        if al == 0 || t % al != 0 {
            return Err(Error::Alignment { got: al, symbol_size: t });
        }
        if n == 0 || n > t / al {
            return Err(Error::SubBlocks { got: n, limit: t / al });
        }
        let symbols = f.div_ceil(t);
        // An empty object has one block of no symbols.
        if z == 0 || z > symbols.max(1) {
            return Err(Error::SourceBlocks { got: z, limit: symbols.clamp(1, 255) });
        }
        let limit = u64::from(MAX_SOURCE_SYMBOLS);
        if symbols.div_ceil(z) > limit {
            return Err(Error::SourceSymbols { got: symbols.div_ceil(z), limit });
        }
        Ok(Self { transfer_length, symbol_size, source_blocks, sub_blocks, alignment })
    }

    /// Chooses Z and N by the algorithm of RFC 6330 §4.3, so that a receiver can decode each
    /// sub-block in `working_memory` bytes (WS), with sub-symbols of at least `min_sub_symbol`
    /// times Al bytes (SS).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); also if the memory is too small for any choice
    /// ([`Error::Memory`]) or the object needs more than 255 blocks ([`Error::SourceBlocks`]).
    pub fn derive(
        transfer_length: u64,
        symbol_size: u16,
        alignment: u8,
        min_sub_symbol: u16,
        working_memory: u64,
    ) -> Result<Self, Error> {
        if transfer_length > MAX_TRANSFER_LENGTH {
            return Err(Error::TransferLength { got: transfer_length, limit: MAX_TRANSFER_LENGTH });
        }
        Self::new(transfer_length.min(u64::from(symbol_size)), symbol_size, 1, 1, alignment)?;
        let (t, al) = (u64::from(symbol_size), u64::from(alignment));
        let symbols = transfer_length.div_ceil(t);
        let n_max = (t / (u64::from(min_sub_symbol.max(1)) * al)).max(1);
        let largest = |n: u64| {
            let sub_symbol = al * t.div_ceil(al * n);
            let fit = working_memory / sub_symbol;
            let rows = TABLE.partition_point(|row| u64::from(row.0) <= fit);
            if rows == 0 { 0 } else { u64::from(TABLE[rows - 1].0) }
        };
        let k_max = largest(n_max);
        if k_max == 0 {
            let needed = u64::from(TABLE[0].0) * al * t.div_ceil(al * n_max);
            return Err(Error::Memory { got: needed, limit: working_memory });
        }
        let z = symbols.div_ceil(k_max).max(1);
        let source_blocks =
            u8::try_from(z).map_err(|_| Error::SourceBlocks { got: z, limit: 255 })?;
        let n = (1..=n_max).find(|&n| symbols.div_ceil(z) <= largest(n)).unwrap_or(n_max);
        let sub_blocks = u16::try_from(n).expect("N is at most T");
        Self::new(transfer_length, symbol_size, source_blocks, sub_blocks, alignment)
    }

    /// The twelve bytes of RFC 6330 §3.3.2 and §3.3.3.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..5].copy_from_slice(&self.transfer_length.to_be_bytes()[3..]);
        bytes[6..8].copy_from_slice(&self.symbol_size.to_be_bytes());
        bytes[8] = self.source_blocks;
        bytes[9..11].copy_from_slice(&self.sub_blocks.to_be_bytes());
        bytes[11] = self.alignment;
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) writes. The reserved byte is ignored, as receivers
    /// must (RFC 6330 §3.3.2).
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if there are less than twelve bytes, and as [`new`](Self::new).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let Some(&[f0, f1, f2, f3, f4, _, t0, t1, z, n0, n1, al]) = bytes.first_chunk() else {
            return Err(Error::Truncated { got: bytes.len(), needed: Self::LEN });
        };
        Self::new(
            u64::from_be_bytes([0, 0, 0, f0, f1, f2, f3, f4]),
            u16::from_be_bytes([t0, t1]),
            z,
            u16::from_be_bytes([n0, n1]),
            al,
        )
    }

    /// F, the length of the object \[bytes\].
    #[must_use]
    pub fn transfer_length(&self) -> u64 {
        self.transfer_length
    }

    /// T \[bytes\].
    #[must_use]
    pub fn symbol_size(&self) -> u16 {
        self.symbol_size
    }

    /// Z, the number of source blocks.
    #[must_use]
    pub fn source_blocks(&self) -> u8 {
        self.source_blocks
    }

    /// N, the number of sub-blocks in each source block.
    #[must_use]
    pub fn sub_blocks(&self) -> u16 {
        self.sub_blocks
    }

    /// Al \[bytes\].
    #[must_use]
    pub fn alignment(&self) -> u8 {
        self.alignment
    }

    /// Where source block `sbn` stands in the object.
    ///
    /// # Errors
    ///
    /// [`Error::SourceBlockNumber`] if `sbn` is not below Z.
    pub fn block(&self, sbn: u8) -> Result<SourceBlock, Error> {
        if sbn >= self.source_blocks {
            let (got, limit) = (u32::from(sbn), u32::from(self.source_blocks));
            return Err(Error::SourceBlockNumber { got, limit });
        }
        let t = u64::from(self.symbol_size);
        let symbols = self.transfer_length.div_ceil(t);
        let parts = Partition::new(symbols, u64::from(self.source_blocks));
        let (first, k) = parts.part(u64::from(sbn));
        let offset = first * t;
        let len = (k * t).min(self.transfer_length - offset);
        Ok(SourceBlock { offset, len, symbols: u32::try_from(k).expect("checked at creation") })
    }

    /// The sub-blocks' sub-symbol sizes: `count` sub-blocks of `size` bytes for each pair
    /// (RFC 6330 §4.4.1.2).
    pub(crate) fn sub_symbols(&self) -> [(usize, usize); 2] {
        let units = u64::from(self.symbol_size) / u64::from(self.alignment);
        let parts = Partition::new(units, u64::from(self.sub_blocks));
        let size =
            |units: u64| usize::try_from(units).expect("at most T") * usize::from(self.alignment);
        let count = |n: u64| usize::try_from(n).expect("at most N");
        [(count(parts.longs), size(parts.long)), (count(parts.shorts), size(parts.short))]
    }
}

/// `Partition[I, J]` of RFC 6330 §4.4.1.2: I things in J parts as equal as possible, long ones
/// first.
struct Partition {
    long: u64,
    short: u64,
    longs: u64,
    shorts: u64,
}

impl Partition {
    fn new(things: u64, parts: u64) -> Self {
        let (short, longs) = (things / parts, things % parts);
        Self { long: things.div_ceil(parts), short, longs, shorts: parts - longs }
    }

    /// First thing and number of things of part `i`.
    fn part(&self, i: u64) -> (u64, u64) {
        if i < self.longs {
            (i * self.long, self.long)
        } else {
            (self.longs * self.long + (i - self.longs) * self.short, self.short)
        }
    }
}

/// Where a source block stands in its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceBlock {
    /// First byte of the block in the object.
    pub offset: u64,
    /// Bytes of the object in the block; the last symbol is padded to K times T.
    pub len: u64,
    /// K, the number of source symbols; zero only for an empty object.
    pub symbols: u32,
}

/// The FEC Payload ID of RFC 6330 §3.2: which encoding symbol of which block a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PayloadId {
    sbn: u8,
    esi: u32,
}

impl PayloadId {
    /// Encoded length \[bytes\].
    pub const LEN: usize = 4;

    /// Encoding symbol `esi` of source block `sbn`.
    ///
    /// # Errors
    ///
    /// [`Error::SymbolId`] if `esi` is 2^24 or more.
    pub fn new(sbn: u8, esi: u32) -> Result<Self, Error> {
        if esi >= ENCODING_SYMBOLS {
            return Err(Error::SymbolId { got: esi, limit: ENCODING_SYMBOLS });
        }
        Ok(Self { sbn, esi })
    }

    /// Source block number.
    #[must_use]
    pub fn source_block(&self) -> u8 {
        self.sbn
    }

    /// Encoding symbol ID, below 2^24.
    #[must_use]
    pub fn encoding_symbol(&self) -> u32 {
        self.esi
    }

    /// The four bytes of RFC 6330 §3.2.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let [_, e0, e1, e2] = self.esi.to_be_bytes();
        [self.sbn, e0, e1, e2]
    }

    /// Reads what [`to_bytes`](Self::to_bytes) writes; any four bytes are a payload ID.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if there are less than four bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let Some(&[sbn, e0, e1, e2]) = bytes.first_chunk() else {
            return Err(Error::Truncated { got: bytes.len(), needed: Self::LEN });
        };
        Ok(Self { sbn, esi: u32::from_be_bytes([0, e0, e1, e2]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_survives_its_bytes() {
        let oti = ObjectTransmissionInformation::new(1_000_003, 1500, 7, 3, 4).expect("valid");
        let bytes = oti.to_bytes();
        assert_eq!(bytes, [0, 0, 0x0f, 0x42, 0x43, 0, 0x05, 0xdc, 7, 0, 3, 4]);
        assert_eq!(ObjectTransmissionInformation::from_bytes(&bytes), Ok(oti));
        let error = Error::Truncated { got: 11, needed: 12 };
        assert_eq!(ObjectTransmissionInformation::from_bytes(&bytes[..11]), Err(error));
    }

    #[test]
    fn absurd_information_is_refused_with_both_numbers() {
        let new = ObjectTransmissionInformation::new;
        let limit = MAX_TRANSFER_LENGTH;
        let got = limit + 1;
        assert_eq!(new(got, 65_535, 255, 1, 1), Err(Error::TransferLength { got, limit }));
        assert!(new(limit, 65_535, 255, 1, 1).is_ok());
        let (got, limit) = (0, MAX_SYMBOL_SIZE);
        assert_eq!(new(1, 0, 1, 1, 1), Err(Error::SymbolSize { got, limit }));
        assert_eq!(new(1, 6, 1, 1, 4), Err(Error::Alignment { got: 4, symbol_size: 6 }));
        assert_eq!(new(1, 6, 1, 1, 0), Err(Error::Alignment { got: 0, symbol_size: 6 }));
        assert_eq!(new(1, 8, 1, 3, 4), Err(Error::SubBlocks { got: 3, limit: 2 }));
        assert_eq!(new(1, 8, 1, 0, 4), Err(Error::SubBlocks { got: 0, limit: 2 }));
        assert_eq!(new(9, 8, 3, 1, 4), Err(Error::SourceBlocks { got: 3, limit: 2 }));
        assert_eq!(new(9, 8, 0, 1, 4), Err(Error::SourceBlocks { got: 0, limit: 2 }));
        let (got, limit) = (56_404, 56_403);
        assert_eq!(new(56_404, 1, 1, 1, 1), Err(Error::SourceSymbols { got, limit }));
    }

    #[test]
    fn blocks_tile_the_object() {
        let oti = ObjectTransmissionInformation::new(1_000_003, 1500, 7, 3, 4).expect("valid");
        let mut offset = 0;
        for sbn in 0..7 {
            let block = oti.block(sbn).expect("below Z");
            assert_eq!(block.offset, offset);
            assert!(block.symbols == 96 || block.symbols == 95);
            offset += block.len;
        }
        assert_eq!(offset, 1_000_003);
        assert_eq!(oti.block(7), Err(Error::SourceBlockNumber { got: 7, limit: 7 }));
        assert_eq!(oti.sub_symbols(), [(0, 500), (3, 500)]);
    }

    #[test]
    fn derived_parameters_keep_to_the_memory() {
        for memory in [10_000, 100_000, 10_000_000] {
            let oti = ObjectTransmissionInformation::derive(2_000_000, 1280, 4, 8, memory)
                .expect("possible");
            let widest = oti.sub_symbols()[0].1.max(oti.sub_symbols()[1].1) as u64;
            let symbols = u64::from(oti.block(0).expect("there is one").symbols);
            assert!(symbols * widest <= memory);
        }
        let refused = ObjectTransmissionInformation::derive(2_000_000, 1280, 4, 8, 100);
        assert!(matches!(refused, Err(Error::Memory { limit: 100, .. })));
        let (got, limit) = (MAX_TRANSFER_LENGTH + 1, MAX_TRANSFER_LENGTH);
        let refused = ObjectTransmissionInformation::derive(got, 65_535, 1, 1, u64::MAX);
        assert_eq!(refused, Err(Error::TransferLength { got, limit }));
    }

    #[test]
    fn payload_ids_survive_their_bytes() {
        let id = PayloadId::new(200, 0x12_3456).expect("24 bits");
        assert_eq!(id.to_bytes(), [200, 0x12, 0x34, 0x56]);
        assert_eq!(PayloadId::from_bytes(&id.to_bytes()), Ok(id));
        let (got, limit) = (1 << 24, 1 << 24);
        assert_eq!(PayloadId::new(0, got), Err(Error::SymbolId { got, limit }));
    }
}
