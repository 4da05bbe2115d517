//! The configuration of a host's SCDP endpoint.

use alloc::vec::Vec;
use wellspring_core::{Duration, HostId, Rate};

use super::ObjectInfo;
use crate::congestion::Algorithm;

/// What the network does with packets it cannot hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fabric {
    /// Switches trim (SCDP §IV-B): a fixed window, pulls at link rate, losses shown by trimmed
    /// headers; only timeouts guard against lost headers and pulls.
    Trimming,
    /// Switches drop, and others share them: losses are inferred from gaps in the packet numbers,
    /// and a congestion controller at the receiver ([`Config::congestion`]) bounds the credits in
    /// flight, so that a session shares a bottleneck with TCP.
    Shared {
        /// A credit is taken for lost once one that many numbers later was answered \[packets\]
        /// (or a little more than a round trip has passed and any later one was). It grows, up to
        /// 256, where packets turn out to overtake each other by more. RFC 9002 §6.1.1 starts
        /// at 3.
        reordering_threshold: u32,
    },
    /// Switches drop, but the path is ours alone: losses are inferred as for `Shared`; the window
    /// is fixed and pulls run at link rate.
    Dedicated {
        /// As for `Shared`.
        reordering_threshold: u32,
        /// Credits in flight to each sender \[packets\]: what fills the path, its bandwidth-delay
        /// product and more.
        window: u32,
    },
}

/// When a receiver of a one-to-many session is left behind (SCDP §IV-D leaves this to policy).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StragglerPolicy {
    /// Left behind when its lowest incomplete block lies that many symbols below the fastest
    /// receiver's, and no fewer than the group receives in `silent_for`, and it alone has held up the
    /// group for so much of the time that the others would be `relative_rate` times as fast without it.
    pub symbols_behind: u64,
    /// Left behind when it alone has held up the group for so long, and has said nothing.
    pub silent_for: Duration,
    /// Detach it from the group and finish it by a unicast session; otherwise only report it, and wait
    /// for it. What follows applies only where receivers are detached.
    pub detach: bool,
    /// The group goes on without a receiver that has said nothing for so long while the others waited for it.
    /// It stays a member, and what it missed is repaired.
    pub patience: Duration,
    /// A receiver that pulls steadily, and yet alone has held up the group for seven eighths of so long, is passed
    /// over for up to twice as long, to see what pace the others have without it.
    pub judge_over: Duration,
    /// Left behind when the others take that many times what it takes steadily while they do not wait for it; 0:
    /// never.
    pub relative_rate: u32,
    /// Served by unicast when it has not pulled so long after the first symbol went out: it does not hear the group. Three
    /// round trips at least, where one is known; until anybody has pulled, half as long again.
    pub unheard_for: Duration,
    /// Left behind when it alone has asked for more than so much of what was sent, beyond the source symbols
    /// \[percent\].
    pub may_ask: u32,
}

impl StragglerPolicy {
    /// Receivers are detached: decisions, of which no paper speaks.
    pub const DETACH: StragglerPolicy = StragglerPolicy {
        symbols_behind: 10_000,
        silent_for: Duration::from_secs(1),
        detach: true,
        patience: Duration::from_millis(300),
        judge_over: Duration::from_millis(40),
        relative_rate: 4,
        unheard_for: Duration::from_millis(500),
        may_ask: 20,
    };
}

/// Limits on the state that unknown hosts can create in this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Sessions at once, sending and receiving.
    pub sessions: u32,
    /// Object length a receive session may announce \[bytes\].
    pub transfer_len: u64,
    /// Source symbols in a block, at most (RFC 6330 allows 56,403).
    pub symbols_per_block: u32,
    /// Blocks of one session a receiver keeps open at once, or as many as `open_bytes` hold if these
    /// are more: see [`Limits::open_blocks_of`].
    pub open_blocks: u32,
    /// What further blocks may be open for \[bytes\]. Senders whose pace varies get apart by what they
    /// send in so much time, not by blocks: who may run further ahead need not repair for the others.
    pub open_bytes: u64,
    /// Repair symbols of one block a receiver keeps beyond K.
    pub extra_symbols: u32,
}

/// Configuration of an [`Endpoint`](super::Endpoint). [`Config::new`] gives the paper's values.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// This host.
    pub host: HostId,
    /// The rate of this host's own link: pulls are paced so that the answers fill it.
    pub link_rate: Rate,
    /// Bytes a symbol occupies on that link beside its payload (headers, framing) \[bytes\].
    pub overhead_per_symbol: u32,
    /// Whether the pace of pulls leaves room for what comes beside their answers: the pulls of hosts
    /// that this host sends to, and trimmed headers. The paper's does not (SCDP §IV-C), and a host
    /// that also sends then asks for more than fits through its link.
    pub reckon_control: bool,
    /// Whether, on [`Fabric::Trimming`], pulls run slower than the link's rate while that is more than arrives
    /// whole: it was given wrongly, or the port in front of this host is slower. The paper's do not.
    pub adapt_pace: bool,
    /// What the network does.
    pub fabric: Fabric,
    /// On [`Fabric::Trimming`], where packets are lost without a trimmed header (switches do not trim
    /// those of groups): losses are also inferred from gaps in the numbers, of so many packets at first, as
    /// on [`Fabric::Shared`]. `None`, the paper's: only from timeouts.
    pub gap_threshold: Option<u32>,
    /// Whether pulls to one of several senders say which symbols it is to send: consecutive ones of the lowest
    /// block that wants any, so that shares follow the senders' pace and blocks need the decoder only for
    /// what was lost. The paper's senders have fixed shares (SCDP §IV-E).
    pub directed: bool,
    /// What bounds the credits in flight to each sender on [`Fabric::Shared`].
    pub congestion: Algorithm,
    /// MLFQ demotion thresholds \[bytes sent\]: a session's symbols go out in class 1 until the
    /// first, 2 until the second, ... (SCDP §V: 10 KB, 100 KB, 1 MB, 10 MB).
    pub demotion_thresholds: Vec<u64>,
    /// Additional symbols aimed at once loss is seen, o (SCDP §IV-C: 2).
    pub overhead: u32,
    /// Paths that a session may use to one host at once, each with a path label, numbers and a window of its
    /// own: labels are then numbers of paths, 0 the first. 1: one numbering, and labels that vary by packet, for
    /// switches that spray. Path 0 is there from the start, the others are
    /// [added](super::Command::AddPath). With several, [`directed`](Self::directed) pulls are needed.
    pub paths: u16,
    /// Further paths, beyond [`paths`](Self::paths), that may be added to sessions whose pulls are directed because they
    /// say so: [many-to-one](wellspring_wire::scdp::Mode::ManyToOne), if with one sender. Labels are numbers of paths
    /// then, too.
    pub further_paths: u16,
    /// Symbols of one session sent in a row, and credits one pull may carry. 1 is the paper's
    /// behaviour; a real link batches (GSO).
    pub burst: u16,
    /// Assumed round trip before one is measured.
    pub initial_rtt: Duration,
    /// Shortest time after which silence counts as loss.
    pub min_timeout: Duration,
    /// The least that the variation of round trips counts for in a timeout, G (RFC 6298 §2); no less than
    /// `min_timeout` where losses are inferred. Simulated clocks are exact.
    pub granularity: Duration,
    /// A sender (or, at a sender, a receiver) silent for that long, in spite of probes, is lost.
    pub peer_timeout: Duration,
    /// How long a sender keeps a session after the last sign of life behind a `fin` pull, unless
    /// the receiver says before that it is complete (SCDP §IV-C: "a time period that ensures that
    /// the last symbol was not trimmed"). Where packets are lost, not trimmed, it must outlast
    /// the receiver's patience: `peer_timeout`.
    pub release_after: Duration,
    /// Most credits in flight to one sender, whatever the congestion controller says
    /// \[packets\]: what the receive buffer holds, or, where the path itself holds more, four times its
    /// bandwidth-delay product as measured. A sender ignores what a pull asks for beyond it, so one pull
    /// never brings more.
    pub max_window: u32,
    /// What to do about stragglers.
    pub stragglers: StragglerPolicy,
    /// Accept sessions never announced by a [`Command::Receive`](super::Command::Receive), as
    /// the paper's receivers do; otherwise their symbols are dropped and a close is sent.
    pub accept_unannounced: bool,
    /// Bounds against strangers.
    pub limits: Limits,
}

/// Blocks of one session kept open at once, at most, however short they are: each takes some memory
/// beside its bytes.
const MAX_OPEN_BLOCKS: u64 = 1_024;

impl Limits {
    /// Blocks of such an object that a receiver keeps open at once.
    pub fn open_blocks_of(&self, object: &ObjectInfo) -> u32 {
        let (_, block) = object.byte_range_of_block(0);
        let held = (self.open_bytes / block.max(1)).min(MAX_OPEN_BLOCKS);
        self.open_blocks.max(held as u32)
    }
}

impl Config {
    /// Paths that a session may have to one host, at most.
    pub fn most_paths(&self) -> u16 {
        self.paths.saturating_add(self.further_paths)
    }

    /// Whether path labels are numbers of paths.
    pub fn labels_are_paths(&self) -> bool {
        self.most_paths() > 1
    }

    /// The configuration over UDP: switches that drop, shared with others; credits and symbols in runs fit for
    /// segmentation offload; timers for hosts that are scheduled late at times; stragglers detached.
    pub fn shipped(host: HostId, link_rate: Rate) -> Self {
        let mut config = Config::new(host, link_rate);
        config.fabric = Fabric::Shared { reordering_threshold: 3 };
        // Spraying over short queues reorders by as much.
        config.gap_threshold = Some(32);
        config.directed = true;
        config.adapt_pace = true;
        // RaptorQ fails with K + 1 symbols once in 34,000 times: a second one more is 1 % of a block.
        config.overhead = 1;
        config.burst = 32;
        // Senders that the system runs by turns get apart by milliseconds of the link.
        config.limits.open_bytes = 64 << 20;
        // Threads are scheduled late at times: what is no loss must not count as one.
        config.initial_rtt = Duration::from_millis(20);
        config.min_timeout = Duration::from_millis(50);
        config.granularity = Duration::from_millis(10);
        // Where packets are lost, this must outlast the receiver's patience (see there).
        config.release_after = config.peer_timeout;
        config.stragglers = StragglerPolicy::DETACH;
        config
    }

    /// The paper's configuration on a trimming fabric (SCDP §V).
    pub fn new(host: HostId, link_rate: Rate) -> Self {
        Config {
            host,
            link_rate,
            overhead_per_symbol: 60,
            reckon_control: true,
            adapt_pace: false,
            fabric: Fabric::Trimming,
            gap_threshold: None,
            directed: false,
            congestion: Algorithm::default(),
            demotion_thresholds: alloc::vec![10_000, 100_000, 1_000_000, 10_000_000],
            overhead: 2,
            paths: 1,
            further_paths: 0,
            burst: 1,
            initial_rtt: Duration::from_millis(1),
            min_timeout: Duration::from_millis(2),
            granularity: Duration::ZERO,
            peer_timeout: Duration::from_secs(5),
            release_after: Duration::from_millis(10),
            max_window: 2_048,
            stragglers: StragglerPolicy::DETACH,
            accept_unannounced: true,
            limits: Limits {
                sessions: 65_536,
                transfer_len: 1 << 42,
                symbols_per_block: 1_024,
                open_blocks: 64,
                open_bytes: 0,
                extra_symbols: 64,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_blocks_are_open_where_they_are_short() {
        let mut limits = Config::new(HostId(0), Rate::from_mbps(1_000)).limits;
        let of = |limits: &Limits, symbol_size, k| {
            limits.open_blocks_of(&ObjectInfo::new(1 << 40, symbol_size, k, 0))
        };
        assert_eq!(of(&limits, 1_000, 100), 64);
        limits.open_bytes = 20_000_000;
        assert_eq!(of(&limits, 1_000, 100), 200);
        assert_eq!(of(&limits, 8_000, 100), 64, "no less than without");
        assert_eq!(of(&limits, 1, 1), 1_024, "and no more than that");
    }
}
