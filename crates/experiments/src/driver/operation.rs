//! Requests under way and their sessions.

use crate::adapter::Leg;
use crate::record::{FlowRecord, Reason};
use wellspring_core::Time;

/// A request under way.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) record: FlowRecord,
    /// Receivers that do not have everything yet.
    pub(super) pending: u32,
    /// All receivers.
    pub(super) receivers: u32,
    /// What has arrived of it, as far as it is reported before its end \[bytes\].
    pub(super) arrived: u64,
    /// Rest of a daisy chain: hosts still to be reached.
    pub(super) chain: Vec<u32>,
    /// What no sender of a read in pieces was asked for yet: how many pieces, and bytes.
    pub(super) unasked: (u32, u64),
    pub(super) endless: Endless,
    /// Its number in the trace, if it comes from one.
    pub(super) traced: Option<u32>,
}

impl Operation {
    /// What is to arrive, at all receivers \[bytes\].
    pub(super) fn expected(&self) -> u64 {
        self.record.bytes.saturating_mul(self.receivers.into())
    }

    /// Its first failure is why it did not complete. Nothing more is asked for.
    pub(super) fn fail(&mut self, reason: Reason) {
        let (pieces, _) = core::mem::take(&mut self.unasked);
        self.pending = self.pending.saturating_sub(pieces);
        self.record.failed = true;
        self.record.reason.get_or_insert(reason);
    }
}

/// Whether a request goes on when it is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Endless {
    No,
    /// Renewed when complete; ends with the run.
    Flow,
    /// Storage requests one after another.
    Storage,
    /// Renewed when complete, and cancelled at that time.
    Timed(Time),
}

impl Endless {
    pub(super) fn is_background(self) -> bool {
        matches!(self, Endless::Flow | Endless::Storage)
    }
}

/// A session of the protocol.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) operation: u32,
    pub(super) leg: Leg,
    /// It is a group's.
    pub(super) group: bool,
    /// Of a group, the hosts that its packets go to.
    pub(super) members: Vec<u32>,
    /// Senders that have not given up.
    pub(super) senders: u32,
    /// Receivers that have neither everything nor failed.
    pub(super) receivers: Vec<u32>,
}
