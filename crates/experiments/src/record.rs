//! Records of requests.

use crate::scenario::ProtocolName;
use serde::{Deserialize, Serialize};
use wellspring_transport::FailReason;

/// Why a request did not complete.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// A peer was silent for so long that it counted as gone.
    PeerLost,
    /// The peer ended a session.
    Closed,
    /// Symbols or credits of a block were used up.
    Exhausted,
    /// Nothing reached it any more: the run was broken off after `run.patience`, or had nothing
    /// left to do.
    Stuck,
    /// It was under way when `run.limit` came.
    Limit,
}

impl Reason {
    /// In words, after the number of requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::PeerLost => "lost a peer, which was silent for too long",
            Reason::Closed => "closed by the peer",
            Reason::Exhausted => "used up the symbols of a block",
            Reason::Stuck => "stuck: nothing arrived for run.patience",
            Reason::Limit => "still under way at run.limit",
        }
    }
}

impl From<FailReason> for Reason {
    fn from(reason: FailReason) -> Self {
        match reason {
            FailReason::PeerLost => Reason::PeerLost,
            FailReason::Closed => Reason::Closed,
        }
    }
}

/// Bytes of a timed flow that arrived.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrival {
    /// The session.
    pub session: u32,
    /// Its protocol.
    pub protocol: ProtocolName,
    /// When \[s\].
    pub at: f64,
    /// How many \[bytes\].
    pub bytes: u64,
}

/// A retransmission timer that went off, and what its sender was at.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Timeout {
    /// When \[s\].
    pub at: f64,
    /// The session.
    pub session: u32,
    /// Congestion window before it \[bytes\].
    pub window: u64,
    /// Sent and not acknowledged \[bytes\].
    pub in_flight: u64,
}

/// What a receiver counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Trimmed headers.
    pub trimmed: u64,
    /// Packets that arrived for nothing.
    pub redundant: u64,
    /// Blocks that took the decoder.
    pub decoded_blocks: u32,
}

/// What became of a request.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowRecord {
    /// Its kind: `transfer`, `write`, `read`, `timed`, `background`.
    pub kind: &'static str,
    /// Its protocol.
    pub protocol: ProtocolName,
    /// Whether that is the TCP beside the scenario's protocol, which may have the same name.
    pub beside: bool,
    /// A host at the single end: the sender, or the reading client.
    pub host: u32,
    /// The other end, or the first of several.
    pub peer: u32,
    /// Size \[bytes\]; for endless flows what arrived in the time measured.
    pub bytes: u64,
    /// When it was made \[s\].
    pub start: f64,
    /// When the last receiver had everything \[s\]; `None` if that did not happen.
    pub end: Option<f64>,
    /// Sums over receivers.
    pub account: Account,
    /// Whether any of its sessions failed.
    pub failed: bool,
    /// Why it did not complete: the first session's failure, or how the run ended. `None` if it
    /// did.
    pub reason: Option<Reason>,
}

impl FlowRecord {
    /// Completion time \[s\].
    pub fn completion(&self) -> Option<f64> {
        self.end.map(|end| end - self.start)
    }

    /// Bits of the application by completion time \[bit/s\]: 0 if it did not complete.
    pub fn goodput(&self) -> f64 {
        self.completion().map_or(0.0, |time| self.bytes as f64 * 8.0 / time)
    }
}
