//! Counters of a host's channels.

/// What a host's channels have met, since it started. A server counts the handshakes of its TCP connections, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TrustCounters {
    /// Datagrams sealed.
    pub sealed: u64,
    /// Datagrams opened.
    pub opened: u64,
    /// Trimmed headers whose tag was right.
    pub trimmed: u64,
    /// Datagrams in clear, dropped.
    pub clear: u64,
    /// Sealed datagrams that no key here opens: forged, damaged, or of a channel that is gone.
    pub forged: u64,
    /// Datagrams that came again.
    pub replayed: u64,
    /// Datagrams that could not be sent for want of a channel.
    pub unsent: u64,
    /// Handshakes that made a channel.
    pub handshakes: u64,
    /// Handshakes asked to show a cookie, or dropped, since too many came.
    pub handshakes_put_off: u64,
    /// Refusals that were not sent, since too many were.
    pub refusals_withheld: u64,
    /// Handshakes that came again.
    pub handshakes_replayed: u64,
    /// Handshakes that were none, for other keys, or with a client, which answers none.
    pub handshakes_wrong: u64,
    /// Handshakes of keys that are not trusted.
    pub handshakes_untrusted: u64,
    /// Handshakes from an address at which another key is in conversation.
    pub handshakes_conflicting: u64,
}
