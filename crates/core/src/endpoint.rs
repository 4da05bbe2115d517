//! The contract between a protocol and its driver.

use crate::{Frame, Header, SessionId, Time};

/// What a payload is, so that its bytes can be kept, found and made elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Identity {
    /// An encoding symbol (RFC 6330): source block number and encoding symbol id.
    Symbol {
        /// The session.
        session: SessionId,
        /// Source block number.
        sbn: u32,
        /// Encoding symbol id, below 2^24.
        esi: u32,
    },
    /// A range of a byte stream.
    Range {
        /// The session.
        session: SessionId,
        /// First byte.
        offset: u64,
        /// Length \[bytes\].
        len: u16,
    },
}

/// Why a frame was not used. Network input is never an error: it is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// No such session here.
    UnknownSession,
    /// The session exists, but this host has no part in it.
    UnknownPeer,
    /// Contradicts what the session announced, or names what cannot exist.
    Malformed,
    /// This symbol or range was here already, or its block is complete.
    Duplicate,
    /// The session or block is over, or already served.
    Stale,
    /// A stated limit would be passed.
    OverLimit,
    /// Not for this endpoint at all (a frame of its own, another protocol's kind).
    Misdirected,
}

/// What becomes of a frame's payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing to keep.
    Consumed,
    /// Keep the payload under this identity.
    Keep(Identity),
    /// Not used, and why.
    Drop(DropReason),
}

/// Work an endpoint asks for: an effect, like sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Finish this block from the payloads kept, and hand its bytes over. Answer with a
    /// [`WorkDone`]; until then the block counts as open, which is how a slow disk or a busy
    /// decoder slows the senders down. Payloads of the block that arrive meanwhile are dropped.
    Finish {
        /// The session.
        session: SessionId,
        /// Source block number.
        sbn: u32,
        /// Whether decoding is needed: false when all source symbols are there.
        decode: bool,
    },
}

/// The outcome of a [`Work`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkDone {
    /// The block's source symbols are all there and handed over.
    Finished {
        /// The session.
        session: SessionId,
        /// Source block number.
        sbn: u32,
    },
    /// Decoding failed: the symbols received are linearly dependent.
    NeedMore {
        /// The session.
        session: SessionId,
        /// Source block number.
        sbn: u32,
        /// Symbols wanted before the next attempt, beyond those kept, 1 or more.
        more: u32,
    },
    /// The block's bytes are not those of the object: some payload was altered. More payloads show
    /// which.
    Wrong {
        /// The session.
        session: SessionId,
        /// Source block number.
        sbn: u32,
        /// Payloads wanted before the next attempt, beyond those kept, 1 or more.
        more: u32,
    },
}

/// One host for one protocol: a state machine without clock, socket, thread or payload.
///
/// # Contract
/// 1. `now` never goes back (on the circle of [`Time`]).
/// 2. The four `handle_*` inputs return no packets. After each input drain [`poll_work`],
///    [`poll_event`] and [`poll_transmit`] (while the interface has room), then read
///    [`poll_timeout`]. A drained endpoint yields nothing more until the next input.
/// 3. The caller asks for a frame when it can send one, so that priority and ESI are decided as
///    late as possible.
/// 4. A [`handle_timeout`] before the deadline is a no-op, a late one is safe, and one a day is
///    due in any case (see [`Time`]).
/// 5. No frame, however hostile, panics or makes the endpoint allocate without bound. Nothing is
///    allocated per frame once a session is warm.
/// 6. Same inputs, same outputs, on every machine: all randomness comes from a
///    [`Seed`](crate::Seed) given at construction.
///
/// `wellspring-testkit` has a wrapper that panics on a breach.
///
/// [`poll_work`]: Endpoint::poll_work
/// [`poll_event`]: Endpoint::poll_event
/// [`poll_transmit`]: Endpoint::poll_transmit
/// [`poll_timeout`]: Endpoint::poll_timeout
/// [`handle_timeout`]: Endpoint::handle_timeout
pub trait Endpoint {
    /// The protocol's header.
    type Header: Header;
    /// What the application can ask for.
    type Command;
    /// An event for the application.
    type Event;
    /// Why a command was refused.
    type CommandError;

    /// Carries out a command of the application.
    ///
    /// # Errors
    /// The command contradicts the endpoint's state or limits; nothing has changed.
    fn handle_command(
        &mut self,
        now: Time,
        command: Self::Command,
    ) -> Result<(), Self::CommandError>;
    /// Takes in a frame that arrived.
    fn handle_frame(&mut self, now: Time, frame: &Frame<Self::Header>) -> Verdict;
    /// Acts on deadlines that have come.
    fn handle_timeout(&mut self, now: Time);
    /// Takes in the outcome of work.
    fn handle_work_done(&mut self, now: Time, done: WorkDone);

    /// The next piece of work, if any.
    fn poll_work(&mut self) -> Option<Work>;
    /// The next event, if any.
    fn poll_event(&mut self) -> Option<Self::Event>;
    /// The next frame to send, if any.
    fn poll_transmit(&mut self, now: Time) -> Option<Frame<Self::Header>>;
    /// When [`handle_timeout`](Endpoint::handle_timeout) is next due, if ever. A deadline may
    /// also mean that [`poll_transmit`](Endpoint::poll_transmit) has something then (pacing).
    fn poll_timeout(&self) -> Option<Time>;
}
