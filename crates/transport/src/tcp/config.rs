//! The configuration of a host's TCP endpoint.

use crate::Priority;
use wellspring_core::{Duration, HostId, Seed};

/// How a sender answers congestion.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Congestion {
    /// NewReno (RFC 5681, RFC 6582): losses alone; its packets are not ECN-capable.
    NewReno,
    /// DCTCP (RFC 8257): losses as NewReno, and marks by their share.
    Dctcp {
        /// The weight of a new sample in alpha, `g` (RFC 8257 §3.3), above 0 and at most 1.
        gain: f64,
        /// The least window that marks leave \[segments\], at least 1. The RFC names none.
        min_window: u32,
    },
}

impl Congestion {
    /// DCTCP as RFC 8257 §4.2 suggests it, g = 1/16, with Linux's least window of 2.
    pub const DCTCP: Congestion = Congestion::Dctcp { gain: 0.0625, min_window: 2 };

    /// Whether segments are ECN-capable and marks echoed.
    pub fn reads_marks(self) -> bool {
        matches!(self, Congestion::Dctcp { .. })
    }
}

/// What a loss halves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Halves {
    /// What is in flight, without what limited transmit has sent; and a recovery ends without a burst (RFC 5681 §3.1,
    /// equation 4, RFC 6582 §3.2, step 3, option 1).
    #[default]
    Flight,
    /// The congestion window, no more than the receiver grants, which recovery's last ACK then opens as any other:
    /// `Agent/TCP/Newreno` of ns-2.35, and older stacks.
    Window,
}

/// Configuration of an [`Endpoint`](super::Endpoint). [`Config::new`] gives the RFCs' values.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// This host.
    pub host: HostId,
    /// Congestion control, the same at both ends of a connection.
    pub congestion: Congestion,
    /// Payload of a full segment, SMSS \[bytes\].
    pub segment_size: u16,
    /// Initial window \[segments\]; that of RFC 6928 if `None`.
    pub initial_window: Option<u32>,
    /// The window every receiver grants, and its room for what is out of order \[bytes\]. It never
    /// shrinks: applications take data as it comes.
    pub receive_window: u64,
    /// Retransmission timeout before a round trip is measured (RFC 6298 §2.1: 1 s).
    pub initial_timeout: Duration,
    /// The least retransmission timeout (RFC 6298 §2.4: 1 s; incast papers: 200 ms).
    pub min_timeout: Duration,
    /// The greatest, backed off (RFC 6298 §2.5: at least 60 s).
    pub max_timeout: Duration,
    /// Every second segment is acknowledged, and a single one after so long (RFC 5681 §4.2, at most
    /// 500 ms); each at once if `None`.
    pub delayed_ack: Option<Duration>,
    /// Whether the first two duplicate ACKs send new segments (RFC 3042).
    pub limited_transmit: bool,
    /// What a loss halves.
    pub halves: Halves,
    /// The class of data segments; ACKs travel in class 1.
    pub priority: Priority,
    /// A peer silent for that long is lost (RFC 1122 §4.2.3.5: 100 s or more). A finished receiver
    /// answers what comes again for twice as long.
    pub peer_timeout: Duration,
    /// Transfers received at once, finished ones that are remembered included; more are refused.
    pub max_receivers: u32,
    /// An [`Event::Progress`](super::Event::Progress) every so many bytes; 0 for none.
    pub progress_every: u64,
    /// Seed of path labels.
    pub seed: Seed,
}

impl Config {
    /// 1,460-byte segments and the RFCs' timers, each segment acknowledged at once.
    pub fn new(host: HostId, congestion: Congestion, seed: Seed) -> Self {
        Config {
            host,
            congestion,
            segment_size: 1_460,
            initial_window: None,
            receive_window: 4 << 20,
            initial_timeout: Duration::from_secs(1),
            min_timeout: Duration::from_secs(1),
            max_timeout: Duration::from_secs(60),
            delayed_ack: None,
            limited_transmit: true,
            halves: Halves::Flight,
            priority: Priority::One,
            peer_timeout: Duration::from_secs(300),
            max_receivers: 1 << 16,
            progress_every: 0,
            seed,
        }
    }

    /// SMSS \[bytes\].
    pub(super) fn segment(&self) -> u64 {
        u64::from(self.segment_size.max(1))
    }

    /// IW \[bytes\] (RFC 6928 §2: `min (10*MSS, max (2*MSS, 14600))`).
    pub(super) fn initial_window_bytes(&self) -> u64 {
        let segment = self.segment();
        match self.initial_window {
            Some(segments) => segment * u64::from(segments.max(1)),
            None => (10 * segment).min((2 * segment).max(14_600)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_window_is_that_of_rfc_6928() {
        let mut config = Config::new(HostId(0), Congestion::NewReno, Seed(1));
        for (segment, bytes) in [(1_460, 14_600), (536, 5_360), (8_960, 17_920), (4_000, 14_600)] {
            config.segment_size = segment;
            assert_eq!(config.initial_window_bytes(), bytes, "{segment}");
        }
        config.initial_window = Some(3);
        assert_eq!(config.initial_window_bytes(), 12_000);
    }
}
