//! The configuration of a host's NDP endpoint.

use crate::Priority;
use wellspring_core::{Duration, HostId, Rate, Seed};

/// Longest pause between two questions to a silent peer, as SCDP's.
const LONGEST_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Configuration of an [`Endpoint`](super::Endpoint). [`Config::new`] gives the SCDP paper's
/// values (§V).
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// This host.
    pub host: HostId,
    /// The rate of this host's own link: pulls are paced so that the answers fill it.
    pub link_rate: Rate,
    /// Payload of a full data packet \[bytes\].
    pub payload: u16,
    /// Bytes a full data packet occupies on that link beside its payload \[bytes\].
    pub overhead_per_packet: u32,
    /// Packets pushed unasked \[packets\] (SCDP §V: 12).
    pub initial_window: u16,
    /// The class of data packets.
    pub priority: Priority,
    /// Path labels: a sender runs through all labels below this in a random order, then in
    /// another (NDP §3.1).
    pub paths: u16,
    /// Assumed round trip before one is measured.
    pub initial_rtt: Duration,
    /// Shortest time after which silence counts as loss.
    pub min_timeout: Duration,
    /// A peer silent for that long is lost. A finished receiver answers what comes again until
    /// nothing has come for twice as long, so that no sender outlives its memory.
    pub peer_timeout: Duration,
    /// Flows received at once, finished ones that are remembered included; more are refused.
    pub max_receivers: u32,
    /// An [`Event::Progress`](super::Event::Progress) every so many packets; 0 for none.
    pub progress_every: u32,
    /// Seed of the order of paths.
    pub seed: Seed,
}

impl Config {
    /// Packets of a transfer of that length.
    pub(super) fn packets(&self, transfer_len: u64) -> u32 {
        let packets = transfer_len.max(1).div_ceil(u64::from(self.payload.max(1)));
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// `base` after so many timeouts in a row: backed off, but so that a peer is asked several
    /// times before it counts as lost, and soon after a path is up again; never less than `base`, or every answer
    /// would come late.
    pub(super) fn backed_off(&self, base: Duration, timeouts: u32) -> Duration {
        let longest = (self.peer_timeout / 8).min(LONGEST_PROBE_INTERVAL).max(base);
        (base * (1 << timeouts.min(10))).min(longest)
    }

    /// 1,500-byte packets of which 64 are headers, a window of 12, no priorities.
    pub fn new(host: HostId, link_rate: Rate, seed: Seed) -> Self {
        Config {
            host,
            link_rate,
            payload: 1_436,
            overhead_per_packet: 64,
            initial_window: 12,
            priority: Priority::One,
            paths: 64,
            initial_rtt: Duration::from_millis(1),
            min_timeout: Duration::from_millis(2),
            peer_timeout: Duration::from_secs(5),
            max_receivers: 1 << 16,
            progress_every: 0,
            seed,
        }
    }
}
