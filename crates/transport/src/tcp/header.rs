//! TCP's segments as values.

use wellspring_core::Header;

/// The header of a segment. Sequence numbers are offsets in the transfer, which never wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpHeader {
    /// Data.
    Data {
        /// Its first byte.
        offset: u64,
        /// Length of the whole transfer \[bytes\], which stands for the handshake and the FIN.
        total: u64,
    },
    /// An acknowledgement.
    Ack {
        /// The first byte that is missing (SEG.ACK).
        next: u64,
        /// ECN-echo (ECE; RFC 8257 §3.2).
        echo: bool,
    },
    /// The sender has ended the transfer early.
    Reset,
}

impl Header for TcpHeader {
    /// TCP without options.
    fn wire_len(&self) -> u16 {
        20
    }
}

const _: () = assert!(size_of::<wellspring_core::Frame<TcpHeader>>() <= 64);
