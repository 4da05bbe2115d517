//! The account of a fetch.

use std::net::SocketAddr;
use std::time::Duration;

use wellspring_codec::lt::Method;
use wellspring_transport::lttp::ReceiveStats;

use crate::client::HostError;
use crate::driver::Statistics;
use crate::store::Digest;

/// A part that a server sent to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartReport {
    /// The server, as the caller named it.
    pub host: String,
    /// Its address.
    pub address: SocketAddr,
    /// Where the part begins \[bytes\].
    pub offset: u64,
    /// How long the part is \[bytes\].
    pub len: u64,
    /// The protocol's account.
    pub stats: ReceiveStats,
}

/// A server that was lost on the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostServer {
    /// Which, and what happened to it.
    pub host: HostError,
    /// How much of the part it was sending had come; its account is lost with it \[bytes\].
    pub bytes: u64,
}

/// The account of a fetch.
#[derive(Clone, PartialEq, Debug)]
pub struct LttpReport {
    /// The object's length \[bytes\].
    pub size: u64,
    /// Its digest, verified.
    pub digest: Digest,
    /// From the call to the object in place.
    pub elapsed: Duration,
    /// Of that, before symbols were asked for: connecting, and digests.
    pub preparing: Duration,
    /// Of that, after the last block was written: verifying, syncing, renaming.
    pub finishing: Duration,
    /// Symbol size \[bytes\].
    pub symbol_size: u16,
    /// Source symbols of a full block.
    pub block_symbols: u32,
    /// How blocks were decoded.
    pub method: Method,
    /// The parts in the object's order: a share from each server, and what servers that were lost
    /// left to others.
    pub parts: Vec<PartReport>,
    /// Servers that were lost on the way.
    pub lost: Vec<LostServer>,
    /// Servers that were named and had none, and why.
    pub unused: Vec<HostError>,
    /// What the client's socket counted during its life.
    pub socket: Statistics,
}

impl LttpReport {
    /// Application bits over the whole time \[bit/s\].
    pub fn goodput(&self) -> f64 {
        rate(self.size, self.elapsed)
    }

    /// Application bits over the time between the request and the last block \[bit/s\].
    pub fn transfer_rate(&self) -> f64 {
        rate(self.size, self.elapsed.saturating_sub(self.preparing + self.finishing))
    }

    /// Source symbols of the blocks of all parts that came to their end.
    pub fn needed(&self) -> u64 {
        self.parts.iter().map(|part| part.stats.source).sum()
    }

    /// Distinct symbols that went into the blocks.
    pub fn used(&self) -> u64 {
        self.parts.iter().map(|part| part.stats.symbols).sum()
    }

    /// Symbols that came for blocks which were complete.
    pub fn redundant(&self) -> u64 {
        self.parts.iter().map(|part| part.stats.redundant).sum()
    }

    /// Symbols beyond the object's own that went into its blocks, as a part of these: what the
    /// decoder needs.
    pub fn overhead(&self) -> f64 {
        let needed = self.needed();
        if needed == 0 { 0.0 } else { (self.used() as f64 - needed as f64) / needed as f64 }
    }
}

fn rate(bytes: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}
