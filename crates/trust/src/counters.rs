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

impl TrustCounters {
    /// Adds those of other channels of the same host.
    pub fn add(&mut self, other: TrustCounters) {
        // By name, so that none is forgotten.
        let TrustCounters {
            sealed,
            opened,
            trimmed,
            clear,
            forged,
            replayed,
            unsent,
            handshakes,
            handshakes_put_off,
            refusals_withheld,
            handshakes_replayed,
            handshakes_wrong,
            handshakes_untrusted,
            handshakes_conflicting,
        } = other;
        self.sealed += sealed;
        self.opened += opened;
        self.trimmed += trimmed;
        self.clear += clear;
        self.forged += forged;
        self.replayed += replayed;
        self.unsent += unsent;
        self.handshakes += handshakes;
        self.handshakes_put_off += handshakes_put_off;
        self.refusals_withheld += refusals_withheld;
        self.handshakes_replayed += handshakes_replayed;
        self.handshakes_wrong += handshakes_wrong;
        self.handshakes_untrusted += handshakes_untrusted;
        self.handshakes_conflicting += handshakes_conflicting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_is_added_to_its_own() {
        let one = TrustCounters {
            sealed: 1,
            opened: 2,
            trimmed: 3,
            clear: 4,
            forged: 5,
            replayed: 6,
            unsent: 7,
            handshakes: 8,
            handshakes_put_off: 9,
            refusals_withheld: 10,
            handshakes_replayed: 11,
            handshakes_wrong: 12,
            handshakes_untrusted: 13,
            handshakes_conflicting: 14,
        };
        let mut all = one;
        all.add(one);
        let expected = TrustCounters {
            sealed: 2,
            opened: 4,
            trimmed: 6,
            clear: 8,
            forged: 10,
            replayed: 12,
            unsent: 14,
            handshakes: 16,
            handshakes_put_off: 18,
            refusals_withheld: 20,
            handshakes_replayed: 22,
            handshakes_wrong: 24,
            handshakes_untrusted: 26,
            handshakes_conflicting: 28,
        };
        assert_eq!(all, expected);
    }
}
