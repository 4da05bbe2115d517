//! Updates about a transfer under way.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::store::Digest;

/// How often progress is told.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// What happens during a transfer. Hosts are named as the caller named them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Update {
    /// A digest is being computed, here (`None`) or at a host \[bytes\].
    Hashing {
        /// Where.
        host: Option<String>,
        /// Done so far \[bytes\].
        done: u64,
        /// Of how much \[bytes\].
        total: u64,
    },
    /// Bytes begin to move.
    Started {
        /// The object's length, or that of the range that is wanted \[bytes\].
        size: u64,
        /// The symbols' size \[bytes\].
        symbol_size: u16,
        /// Its digest.
        digest: Digest,
        /// Hosts that take part.
        hosts: Vec<String>,
    },
    /// The progress, ten times a second.
    Moving {
        /// Bytes in place \[bytes\]; for a put, those of the receiver that is furthest behind
        /// among those that must finish.
        done: u64,
        /// The object's length, or that of the range that is wanted \[bytes\].
        total: u64,
        /// Symbols received (fetch) or sent (put).
        symbols: u64,
    },
    /// What each host has sent so far, ten times a second: of a fetch by SCDP.
    Senders {
        /// One entry a host that takes part, or did.
        senders: Vec<SenderProgress>,
        /// The blocks of what is fetched.
        blocks: BlockProgress,
    },
    /// How far each host is, ten times a second: of a put.
    Receivers {
        /// One entry a host that takes part, or did.
        receivers: Vec<ReceiverProgress>,
    },
    /// A host does not take part, or was lost.
    Lost {
        /// Which.
        host: String,
        /// Why.
        reason: String,
    },
    /// A host's symbols were altered, by it or on their way; the bytes were put right by others.
    Altered {
        /// Which.
        host: String,
        /// How many symbols of a block.
        symbols: u32,
    },
    /// A host's bytes were wrong, by it or on their way, and are fetched again (LTTP and NDP).
    Wrong {
        /// Which.
        host: String,
        /// Where in the object the wrong part begins \[bytes\].
        at: u64,
    },
    /// A host takes part after it was late or lost.
    Back {
        /// Which.
        host: String,
    },
    /// A path carries no datagrams as long as this host's and the servers' systems take it to, and nobody said so:
    /// the transfer begins again with shorter symbols.
    Shortened {
        /// The symbols' size from now on \[bytes\].
        symbol_size: u16,
    },
    /// A receiver holds up its group.
    Straggler {
        /// Which.
        host: String,
        /// How far it lies behind the fastest \[symbols\].
        symbols_behind: u64,
        /// Why it counts as one.
        cause: String,
        /// It goes on by unicast from now on.
        detached: bool,
    },
    /// A receiver has the object, verified and in place.
    Complete {
        /// Which.
        host: String,
    },
    /// As many receivers as were wanted have the object.
    Quorum {
        /// How many.
        complete: usize,
    },
    /// All bytes are there; the digest is verified and the file synced.
    Verifying,
}

/// A host that sends, all counters since the transfer began.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SenderProgress {
    /// Which.
    pub host: String,
    /// Whether it takes part now.
    pub is_live: bool,
    /// What it does, in words; if it takes no part, why.
    pub state: String,
    /// Symbols that counted towards a block.
    pub useful: u64,
    /// Symbols that came for nothing: duplicates, or of blocks already complete.
    pub redundant: u64,
    /// Symbols that did not come, or came trimmed.
    pub lost: u64,
    /// Symbols that it was asked for.
    pub asked: u64,
    /// Time since its last packet.
    pub silent: Duration,
}

/// Blocks of what is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockProgress {
    /// Those in place.
    pub done: u64,
    /// Those that took the decoder.
    pub decoded: u64,
    /// All.
    pub total: u64,
}

/// A host that receives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReceiverProgress {
    /// Which.
    pub host: String,
    /// Whether it is waited for.
    pub is_live: bool,
    /// What it does, in words; if it takes no part, why.
    pub state: String,
    /// What it has \[bytes\].
    pub done: u64,
    /// Of how much \[bytes\].
    pub total: u64,
    /// Time since it last had more.
    pub idle: Duration,
}

/// Where the updates of a transfer go; nowhere by default.
#[derive(Clone, Default)]
pub struct Updates {
    hear: Option<Arc<dyn Fn(Update) + Send + Sync>>,
    of_hosts: bool,
}

impl Updates {
    /// To a function, which the transfer's task calls and which must not wait.
    pub fn to(hear: impl Fn(Update) + Send + Sync + 'static) -> Self {
        Updates { hear: Some(Arc::new(hear)), of_hosts: false }
    }

    /// The same, with the progress of each host: [`Update::Senders`] and [`Update::Receivers`].
    #[must_use]
    pub fn with_hosts(mut self) -> Self {
        self.of_hosts = true;
        self
    }

    /// The same without progress: for objects that are fetched on the way to others.
    pub(crate) fn quiet(&self) -> Self {
        let Some(hear) = self.hear.clone() else { return Updates::default() };
        Updates::to(move |update| {
            let is_of_hosts = matches!(update, Update::Hashing { .. } | Update::Lost { .. });
            if is_of_hosts || matches!(update, Update::Shortened { .. }) {
                hear(update);
            }
        })
    }

    /// Whether the progress of each host is wanted.
    pub(crate) fn are_of_hosts(&self) -> bool {
        self.hear.is_some() && self.of_hosts
    }

    pub(crate) fn tell(&self, update: Update) {
        if let Some(hear) = &self.hear {
            hear(update);
        }
    }
}

impl fmt::Debug for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Updates")
            .field("heard", &self.hear.is_some())
            .field("of_hosts", &self.of_hosts)
            .finish()
    }
}
