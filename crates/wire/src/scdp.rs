//! SCDP's packets (SCDP §IV-A, Fig. 3), laid out for networks that trim.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---+---+-+-+-+-+-------------------------------+
//! |version| kind  | priority|O|F|S|             check             |
//! +-------+-------+---------+-+-+-+-------------------------------+
//! |                            session                            |
//! +---------------------------------------------------------------+
//! |                   source block number (SBN)                   |
//! +-----------------------------------------------+---------------+
//! |    symbol: encoding symbol id (ESI)           | number mod 256|
//! |    pull: highest packet number granted (cumulative)           |
//! |    close: reason                                              |
//! +-----------------------------------------------+---------------+  16
//! |    symbol: upper 24 bits of the packet number |  second check |
//! |    pull: lowest incomplete block                              |
//! +---------------+-+-------------+-------------------------------+
//! |     epoch     |A|options check| symbol: payload length        |
//! |               |               | pull: run                     |
//! +---------------+---------------+-------------------------------+  24
//! |    options, in symbols with O: F (64), Z (32), T (16),        |
//! |    mode (8), window (8), digest of the object (256)          |
//! +---------------------------------------------------------------+  72
//! |    payload                                                    |
//! ```
//!
//! The first 16 bytes are what the trimming specifications promise to keep: alone they name the
//! symbol. Any symbol whose payload is shorter than announced is a *trimmed header*: it is believed for its
//! identity, its remaining payload is ignored. Versions other than 1 and reserved kinds are for the future.
//!
//! `check` is a CRC-16 over the first 16 bytes of a symbol, and over all of a pull or a close. The rest of a
//! symbol's header may be trimmed away, so it has checks of its own: `second check` is a CRC-8 over bytes 16 to
//! 23 but itself and A, `options check` a CRC-7 over the options, 0 without them. A payload has none: blocks are
//! verified.
//!
//! A says that the symbol is sealed: a tag of 8 bytes over the first 24 follows them, then channel and counter (8),
//! the options and the payload encrypted, and a tag of 16 bytes over everything. Hosts without keys refuse such a
//! symbol.

mod layout;

pub use layout::{Parsed, emit, group_session, is_symbol, parse, set_tagged, tagged_len};

use wellspring_core::Header;

/// Bytes of the header that name a symbol; no cut shorter than this can be understood.
pub const CORE_LEN: usize = 16;
/// Bytes of a header without options.
pub const HEADER_LEN: usize = 24;
/// Length of a pull that says which symbols are to be sent \[bytes\].
pub const DIRECTED_PULL_LEN: usize = HEADER_LEN + 4;
/// Bytes of a header with options.
pub const HEADER_WITH_OPTIONS_LEN: usize = 72;
/// Bytes of a [`Close`].
pub const CLOSE_LEN: usize = CORE_LEN;
/// Encoding symbol ids are 24 bits (RFC 6330 §3.2).
pub const MAX_ESI: u32 = (1 << 24) - 1;
const UDP_LEN: u16 = 8;

/// The transfer mode (M in Fig. 3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Mode {
    /// One sender, one receiver (§IV-C).
    Unicast = 0,
    /// One sender, a multicast group (§IV-D).
    OneToMany = 1,
    /// Several senders of the same object, one receiver (§IV-E).
    ManyToOne = 2,
}

/// What a session's `syn` symbols announce (Fig. 3: options M, F, T, Z). There is no handshake,
/// so every `syn` symbol carries them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Object length F \[bytes\], 1 or more.
    pub transfer_len: u64,
    /// First eight bytes of the object's digest: senders that announce different bytes are never
    /// mixed. The whole digest travels too, and the driver checks it.
    pub object_tag: u64,
    /// Number of source blocks Z, 1 or more.
    pub source_blocks: u32,
    /// Symbol size T \[bytes\], 1 or more.
    pub symbol_size: u16,
    /// Transfer mode M.
    pub mode: Mode,
    /// Symbols this sender pushes unasked, w \[packets\].
    pub initial_window: u8,
}

/// A source or repair symbol, or what is left of one after trimming.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Source block number.
    pub sbn: u32,
    /// Encoding symbol id, at most [`MAX_ESI`].
    pub esi: u32,
    /// Packet number: which credit of the receiver this symbol answers. The initial window is
    /// numbers 1 to w.
    pub number: u32,
    /// Numbering epoch: grows when a sender starts to number afresh.
    pub epoch: u8,
    /// MLFQ level the sender gave it (PRI in Fig. 3), at most 31.
    pub priority: u8,
    /// The last symbol asked for, for all the sender knows.
    pub fin: bool,
    /// Part of the initial window (`syn`): carries the options.
    pub options: Option<Options>,
}

/// A request for symbols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pull {
    /// The block `run` is about.
    pub sbn: u32,
    /// Highest packet number the sender may use in this epoch: the initial window and all credits
    /// granted so far. Cumulative, so that a later pull covers a lost or overtaken one.
    pub granted: u32,
    /// Lowest block the receiver still needs symbols of; Z when none.
    pub floor: u32,
    /// How many of the newest credits are for `sbn`; 1 or more. In a group, whose credits are for
    /// no block: how many symbols of `sbn` are wanted in all, those already sent included, so that
    /// no pull asks twice for the same.
    pub run: u16,
    /// Numbering epoch it speaks of.
    pub epoch: u8,
    /// Asks for the last symbols of the session.
    pub fin: bool,
    /// ESI of the first of the `run` symbols that the newest credits are for, which follow each other; `None`: the
    /// sender chooses. Of several senders it says which symbols each sends, so that shares follow their pace.
    pub first: Option<u32>,
}

/// Why a session ends early.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer knows no such session (it restarted, or has released it).
    UnknownSession = 1,
    /// The application cancelled.
    Cancelled = 2,
    /// The receiver refuses what was announced.
    Refused = 3,
    /// A receiver has been left behind or is gone.
    Detached = 4,
    /// The object is complete: nothing more is wanted of this session.
    Complete = 5,
}

/// Ends a session early, in either direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Close {
    /// Why.
    pub reason: CloseReason,
    /// True when the receiver of the object speaks, false when a sender does.
    pub from_receiver: bool,
}

/// The header of an SCDP packet (TYP in Fig. 3; a trimmed header is a [`Symbol`] whose frame
/// says `trimmed`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScdpHeader {
    /// SMBL, and HDR once trimmed.
    Symbol(Symbol),
    /// PULL.
    Pull(Pull),
    /// Ends a session early; not in the paper.
    Close(Close),
}

impl Header for ScdpHeader {
    fn wire_len(&self) -> u16 {
        let len = match self {
            ScdpHeader::Symbol(s) if s.options.is_some() => HEADER_WITH_OPTIONS_LEN,
            ScdpHeader::Pull(p) if p.first.is_some() => DIRECTED_PULL_LEN,
            ScdpHeader::Symbol(_) | ScdpHeader::Pull(_) => HEADER_LEN,
            ScdpHeader::Close(_) => CLOSE_LEN,
        };
        len as u16 + UDP_LEN
    }
}

const _: () = assert!(size_of::<wellspring_core::Frame<ScdpHeader>>() <= 64);
