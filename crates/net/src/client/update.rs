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

/// Where the updates of a transfer go; nowhere by default.
#[derive(Clone, Default)]
pub struct Updates(Option<Arc<dyn Fn(Update) + Send + Sync>>);

impl Updates {
    /// To a function, which the transfer's task calls and which must not wait.
    pub fn to(hear: impl Fn(Update) + Send + Sync + 'static) -> Self {
        Updates(Some(Arc::new(hear)))
    }

    /// The same without progress: for objects that are fetched on the way to others.
    pub(crate) fn quiet(&self) -> Self {
        let Some(hear) = self.0.clone() else { return Updates::default() };
        Updates::to(move |update| {
            if matches!(update, Update::Hashing { .. } | Update::Lost { .. }) {
                hear(update);
            }
        })
    }

    pub(crate) fn tell(&self, update: Update) {
        if let Some(hear) = &self.0 {
            hear(update);
        }
    }
}

impl fmt::Debug for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Updates").field(&self.0.is_some()).finish()
    }
}
