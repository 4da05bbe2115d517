//! Events of an SCDP endpoint for the application.

use alloc::vec::Vec;
use core::fmt;
use wellspring_core::{Duration, HostId, SessionId};
use wellspring_wire::scdp::CloseReason;

use super::ObjectInfo;

/// What one sender contributed to a receive session \[packets\].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderStats {
    /// The sender.
    pub host: HostId,
    /// Symbols that counted towards a block.
    pub useful: u64,
    /// Symbols that arrived for nothing: duplicates, or of blocks already complete.
    pub redundant: u64,
    /// Trimmed headers.
    pub trimmed: u64,
    /// Credits taken for lost (gaps and timeouts).
    pub lost: u64,
    /// Credits granted, the initial window included.
    pub granted: u64,
    /// Time since its last packet when the session ended.
    pub silent: Duration,
}

impl SenderStats {
    /// Adds the account of another path to the same sender.
    pub(super) fn add(&mut self, path: &SenderStats) {
        self.useful += path.useful;
        self.redundant += path.redundant;
        self.trimmed += path.trimmed;
        self.lost += path.lost;
        self.granted += path.granted;
        self.silent = self.silent.min(path.silent);
    }
}

/// The account of a receive session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReceiveStats {
    /// Source symbols of the object.
    pub needed: u64,
    /// Blocks that took the decoder.
    pub decoded_blocks: u32,
    /// Blocks whose source symbols all arrived.
    pub decode_free_blocks: u32,
    /// Decoding attempts that wanted one more symbol.
    pub failed_decodes: u32,
    /// One entry a sender.
    pub senders: Vec<SenderStats>,
}

/// The account of a send session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendStats {
    /// Source symbols sent.
    pub source_symbols: u64,
    /// Repair symbols sent.
    pub repair_symbols: u64,
    /// Pulls taken in.
    pub pulls: u64,
}

/// Why a session failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FailReason {
    /// Every sender is gone (or, at a sender, every receiver).
    PeersLost,
    /// The peer closed it.
    Closed(CloseReason),
    /// Credits or symbols of a block are used up: the object does not arrive.
    Exhausted,
}

/// What became of a straggler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StragglerAction {
    /// Reported only: the group still waits for it.
    Kept,
    /// Detached: served by unicast from now on.
    Detached,
}

/// Why a receiver counts as a straggler, with the numbers by which it was judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StragglerCause {
    /// The others have waited for it alone.
    HeldUp {
        /// For so long.
        waited: Duration,
    },
    /// It lies far behind, and has held up the others for much of the time.
    Behind {
        /// How long it has held them up, in all.
        held_up: Duration,
        /// How long the session has lasted.
        elapsed: Duration,
    },
    /// No pull of it has come.
    Unheard {
        /// For so long, since the first symbol went out.
        waited: Duration,
    },
    /// It took less than the others while they did not wait for it.
    Slower {
        /// Credits that it granted in that time \[packets\].
        own: u32,
        /// Credits that each of the others granted at least \[packets\].
        others: u32,
        /// That time.
        span: Duration,
    },
    /// It alone asked for too much beyond the blocks' own symbols.
    Greedy {
        /// What it asked for \[symbols\].
        asked: u64,
        /// Source symbols of the blocks begun.
        begun: u64,
    },
    /// It was given up, and has come back to find its blocks no longer served.
    Returned,
    /// The application has asked for it ([`Command::Detach`](super::Command::Detach)).
    Asked,
}

impl fmt::Display for StragglerCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |span: &Duration| span.as_micros() / 1_000;
        match self {
            Self::HeldUp { waited } => write!(f, "silent for {} ms", ms(waited)),
            Self::Behind { held_up, elapsed } => {
                write!(f, "held up the group for {} of {} ms", ms(held_up), ms(elapsed))
            }
            Self::Unheard { waited } => write!(f, "not heard for {} ms", ms(waited)),
            Self::Slower { own, others, span } => {
                write!(f, "slow: took {own} symbols in {} ms, the others {others}", ms(span))
            }
            Self::Greedy { asked, begun } => {
                write!(f, "asked for {asked} more symbols, of {begun} sent")
            }
            Self::Returned => f.write_str("back after it was given up"),
            Self::Asked => f.write_str("does not want the group's symbols"),
        }
    }
}

/// Events for the application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A session never announced here was accepted from its `syn`.
    Accepted {
        /// The session.
        session: SessionId,
        /// Who sends.
        sender: HostId,
        /// What.
        object: ObjectInfo,
    },
    /// All source symbols of a block are there.
    BlockComplete {
        /// The session.
        session: SessionId,
        /// Source block number; blocks may complete in any order.
        sbn: u32,
        /// Whether the decoder was needed.
        decoded: bool,
    },
    /// All blocks are complete: the receive session is over.
    Received {
        /// The session.
        session: SessionId,
        /// Its account.
        stats: ReceiveStats,
    },
    /// A receive session goes on without this sender.
    SenderLost {
        /// The session.
        session: SessionId,
        /// The sender.
        sender: HostId,
        /// Closed by the sender, or silent (`None`).
        reason: Option<CloseReason>,
    },
    /// This receiver was taken out of its group and is served by unicast: leave the group.
    MovedToUnicast {
        /// The session.
        session: SessionId,
    },
    /// A receiver asked for its last symbols and got them (`fin`), or closed as complete.
    ReceiverFinished {
        /// The session.
        session: SessionId,
        /// The receiver.
        receiver: HostId,
    },
    /// A receiver of a send session is gone.
    ReceiverLost {
        /// The session.
        session: SessionId,
        /// The receiver.
        receiver: HostId,
        /// Closed by the receiver, or silent (`None`).
        reason: Option<CloseReason>,
    },
    /// A receiver holds up its group.
    Straggler {
        /// The session.
        session: SessionId,
        /// The receiver.
        receiver: HostId,
        /// How far its lowest incomplete block lies behind the fastest receiver's \[symbols\].
        symbols_behind: u64,
        /// Why it counts as one.
        cause: StragglerCause,
        /// What was done.
        action: StragglerAction,
    },
    /// A send session is over and released: every receiver finished or was lost (reported before).
    Sent {
        /// The session.
        session: SessionId,
        /// Its account.
        stats: SendStats,
    },
    /// A session ended without success.
    Failed {
        /// The session.
        session: SessionId,
        /// Why.
        reason: FailReason,
    },
}
