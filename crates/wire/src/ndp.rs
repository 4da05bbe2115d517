//! NDP's packets (Handley et al., SIGCOMM 2017), laid out for UDP.
//!
//! ```text
//!  0       1       2       3       4       5       6       7
//! +-------+-------+-------+-------+-------+-------+-------+-------+
//! |ver|knd| type  | check (CRC-16)|            session            |
//! +-------+-------+-------+-------+-------+-------+-------+-------+
//! |  fields of the type           |                                  36 for data
//! ```
//!
//! | type | who | fields, bytes in brackets |
//! |---|---|---|
//! | 0 data | sender | number (4), packets (4), window (2), payload's length (2), vanished (4), time sent (8), round trip (4), the payload |
//! | 1 ack | receiver | number (4), time echoed (8) |
//! | 2 nack | receiver | number (4) |
//! | 3 pull | receiver | packets granted (4) |
//! | 4 done | receiver | none |
//! | 5 close | sender | none |
//!
//! `check` covers the header but itself. Times sent are the sender's own business, and only repeated;
//! the round trip counts 100 ns. A data packet whose payload is shorter than announced is a *trimmed
//! header*; a switch must leave all of the header, so it may cut no shorter than 64 bytes over IPv4. Bit 7 of
//! a data packet's type says that it is sealed: a tag of 8 bytes over the header follows it, and a switch
//! may cut no shorter than 72 bytes.

mod layout;

pub use layout::{Parsed, emit_header, parse, set_tagged, tagged_len};

/// The kind of NDP's datagrams, which no other protocol on the port has.
pub const KIND: u8 = 6;
/// Bytes of a data packet's header, the longest.
pub const DATA_HEADER_LEN: usize = 36;

use wellspring_core::{Duration, Header, Time};

/// A data packet, or what is left of one after trimming.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Packet number in the flow, from 0.
    pub number: u32,
    /// Packets of the flow.
    pub total: u32,
    /// Packets the sender pushes unasked.
    pub window: u16,
    /// Packets the sender has given up for lost without an answer, and waits for pulls to repeat:
    /// cumulative. Not in the paper, where such packets are sent again unasked; with many
    /// senders that makes the congestion worse that lost them.
    pub vanished: u32,
    /// When it was sent, by the sender's clock: its answer repeats this, so that round trips are
    /// measured where packets are sent again, too. Not in the paper.
    pub sent: Time,
    /// The sender's round trip: no receiver need ask again before. Not in the paper.
    pub rtt: Duration,
}

/// The header of an NDP packet (a trimmed header is [`NdpHeader::Data`] whose frame says
/// `trimmed`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NdpHeader {
    /// Data.
    Data(Data),
    /// This packet arrived.
    Ack {
        /// Packet number.
        number: u32,
        /// [`Data::sent`].
        sent: Time,
    },
    /// Only the header of this packet arrived: send it again when pulled.
    Nack {
        /// Packet number.
        number: u32,
    },
    /// Packets may be sent.
    Pull {
        /// How many in all beyond the initial window: cumulative.
        granted: u32,
    },
    /// All packets of the flow arrived: the last packet's ACK, and the answer to whatever comes
    /// after it.
    Done,
    /// The sender has ended the flow early.
    Close,
}

impl Header for NdpHeader {
    /// UDP and 20 bytes, not as laid out here but as in the SCDP authors' models; with 20 bytes of IP and 16 of framing
    /// this makes the 64 bytes of htsim's headers, ACKs and pulls.
    fn wire_len(&self) -> u16 {
        28
    }
}

const _: () = assert!(size_of::<wellspring_core::Frame<NdpHeader>>() <= 64);
