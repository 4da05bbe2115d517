//! Keys of sessions and of their blocks.

/// Bits of a key that name the place in its table.
const PLACE_BITS: u32 = 24;
/// Bits that name the protocol.
const RUNNER_BITS: u32 = 8;

/// A session of this driver, never used twice: place in its protocol's table, number of the protocol,
/// count of sessions. Session ids are the peers' choice and may come again while a worker still has
/// a block of the session before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SessionKey(pub(crate) u64);

impl SessionKey {
    pub(crate) fn new(place: usize, runner: u8, count: u64) -> Self {
        let low = u64::from(runner) << PLACE_BITS | place as u64;
        SessionKey(count << (PLACE_BITS + RUNNER_BITS) | low)
    }

    pub(crate) fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }

    /// Number of the protocol that runs it.
    pub(crate) fn runner(self) -> usize {
        (self.0 >> PLACE_BITS & ((1 << RUNNER_BITS) - 1)) as usize
    }
}

/// A block of a session.
pub(crate) type BlockKey = (SessionKey, u32);
