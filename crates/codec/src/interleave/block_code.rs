//! Codes of whole blocks, and packets as symbols of one length.

use super::InterleaveError;

/// Bytes of a symbol that hold the packet's length.
pub(super) const LENGTH: usize = 2;

/// A code of blocks: any symbols as many as the packets, or a few more, give the block. Symbols of a
/// block are of one even length.
pub trait BlockCode {
    /// The repair symbols 0 to `count` of a block.
    fn repairs(&mut self, packets: &[Vec<u8>], count: usize) -> Vec<Vec<u8>>;

    /// The missing packets of a block, in order, from those that are there and numbered repairs; as
    /// many repairs as packets are missing, or more. None if that is not enough, or makes no sense.
    fn restore(
        &mut self,
        packets: &[Option<Vec<u8>>],
        repairs: &[(u8, Vec<u8>)],
    ) -> Option<Vec<Vec<u8>>>;
}

pub(super) fn check(longest: usize) -> Result<(), InterleaveError> {
    match longest {
        0 => Err(InterleaveError::Memory),
        got if got > usize::from(u16::MAX) => {
            Err(InterleaveError::TooLong { got, limit: usize::from(u16::MAX) })
        }
        _ => Ok(()),
    }
}

pub(super) fn symbol_limit(longest: usize) -> usize {
    (LENGTH + longest).next_multiple_of(2)
}

/// A packet as a symbol of even length.
pub(super) fn symbol(packet: &[u8]) -> Vec<u8> {
    let mut symbol = Vec::with_capacity(symbol_limit(packet.len()));
    symbol.extend_from_slice(&(packet.len() as u16).to_be_bytes());
    symbol.extend_from_slice(packet);
    symbol.resize(symbol_limit(packet.len()), 0);
    symbol
}

/// The packet in a symbol, if there is one.
pub(super) fn read(symbol: &[u8]) -> Option<&[u8]> {
    let (length, rest) = symbol.split_first_chunk::<LENGTH>()?;
    let (packet, padding) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    padding.iter().all(|&byte| byte == 0).then_some(packet)
}
