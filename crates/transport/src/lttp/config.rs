//! The configuration of a host's LTTP endpoint.

use crate::congestion::Algorithm;
use wellspring_core::{Class, Duration, HostId, Seed};

/// Configuration of an [`Endpoint`](super::Endpoint). [`Config::new`] gives the paper's values.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// This host.
    pub host: HostId,
    /// Length of a symbol \[bytes\] (LTTP §V-A: 1,024).
    pub symbol_size: u16,
    /// Bytes of a packet beside the symbol: together they are TFRC's s.
    pub overhead_per_packet: u32,
    /// Source symbols of a block. The paper's data are one block of 64, 128 or 256.
    pub block_symbols: u32,
    /// Most encoding symbols of one block: a sender begins anew behind them, a receiver holds no
    /// more. A bit each is kept, of one block or, with overlap, of two.
    pub max_symbols: u32,
    /// Past the paper: a server sends symbols of the next block while the stop of the one before is
    /// under way, and a client takes them in. The paper's way, one block at a time, without. One
    /// side may have it without the other: such symbols are redundant, then.
    pub overlap: bool,
    /// Past the paper: what chooses the rate of what a client asks for; none is TFRC. Servers need not have the same.
    pub congestion: Option<Algorithm>,
    /// RFC 5348 §4.5.
    pub prevent_oscillation: bool,
    /// RFC 5348 §5.5.
    pub discounting: bool,
    /// How late a sender may be woken, `t_gran` of RFC 5348 §4.6; zero in a simulation.
    pub granularity: Duration,
    /// Time before a control message is repeated, first: TCP's least timeout (LTTP §II: 200 ms).
    pub control_timeout: Duration,
    /// A peer silent for that long is lost (LTTP §III-A).
    pub peer_timeout: Duration,
    /// Sessions that a host takes part in at most.
    pub max_sessions: usize,
    /// An [`Event::Progress`](super::Event::Progress) every so many symbols; 0 for none.
    pub progress_every: u32,
    /// The class of all packets. Control packets have no other: the paper's switches have one queue.
    pub class: Class,
    /// Seed of the path labels, one a session.
    pub seed: Seed,
}

impl Config {
    /// Symbols of 1,024 bytes, blocks of 256, TFRC with all its options.
    pub fn new(host: HostId, seed: Seed) -> Self {
        Config {
            host,
            symbol_size: 1_024,
            overhead_per_packet: 44,
            block_symbols: 256,
            max_symbols: 1 << 20,
            overlap: false,
            congestion: None,
            prevent_oscillation: true,
            discounting: true,
            granularity: Duration::ZERO,
            control_timeout: Duration::from_millis(200),
            peer_timeout: Duration::from_secs(300),
            max_sessions: 1 << 16,
            progress_every: 0,
            class: 1,
            seed,
        }
    }

    /// s of RFC 5348 \[bytes\], for symbols of that size.
    pub(super) fn segment_size(&self, symbol_size: u16) -> u32 {
        u32::from(symbol_size) + self.overhead_per_packet
    }

    /// How long to wait before a control message is repeated for the so-manieth time.
    pub(super) fn control_timeout(&self, repeats: u32) -> Duration {
        (self.control_timeout * (1 << repeats.min(10))).min(self.peer_timeout / 8)
    }
}
