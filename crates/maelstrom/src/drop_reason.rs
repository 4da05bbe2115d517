//! Reasons for which a datagram is dropped.

/// Why a datagram was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// Too short to be a datagram of ours, or of another version.
    Foreign,
    /// This end sent it itself.
    Reflected,
    /// Of a session that ended when a newer one was heard.
    OldSession,
    /// Verified, of a new session that has not named the session of this end: the peer's that does not hear this end
    /// yet, or a recorded one.
    Unconfirmed,
    /// Received before, or too old to decide.
    Replayed,
    /// Its tag is wrong: it was changed on the way, or its sender does not know the key.
    Forged,
    /// Verified, but its parts make no sense.
    Malformed,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 7;
    /// All of them, in the order of counters.
    pub const ALL: [DropReason; Self::COUNT] = [
        DropReason::Foreign,
        DropReason::Reflected,
        DropReason::OldSession,
        DropReason::Unconfirmed,
        DropReason::Replayed,
        DropReason::Forged,
        DropReason::Malformed,
    ];

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Foreign => "foreign",
            DropReason::Reflected => "reflected",
            DropReason::OldSession => "old_session",
            DropReason::Unconfirmed => "unconfirmed",
            DropReason::Replayed => "replayed",
            DropReason::Forged => "forged",
            DropReason::Malformed => "malformed",
        }
    }
}
