//! The workload of a scenario, and what else goes on.

use crate::quantity::{Size, Span};
use crate::trace::Trace;
use serde::{Deserialize, Serialize};
use wellspring_core::Duration;

/// What is measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// Every host sends to one other, and no two to the same.
    Permutation {
        /// Size of each transfer.
        size: Size,
    },
    /// One transfer.
    Single {
        /// Sender.
        from: u32,
        /// Receiver.
        to: u32,
        /// Size.
        size: Size,
    },
    /// Synchronised senders to one receiver.
    Incast {
        /// Number of senders, at random hosts; where these are fewer, some send several times.
        senders: u32,
        /// Size of each block.
        size: Size,
        /// Starts are spread evenly over so much time.
        #[serde(default = "zero")]
        jitter: Span,
        /// So many times over: all senders begin again once all blocks are there.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        rounds: u32,
    },
    /// Near and far senders to two receivers in one rack (SCDP Fig. 12c).
    Outcast {
        /// Senders in the same pod, to the first receiver.
        near: u32,
        /// Senders in other pods, every third host, to the second.
        far: u32,
        /// Size of each transfer.
        size: Size,
        /// Starts are spread evenly over so much time.
        #[serde(default = "zero", skip_serializing_if = "is_zero")]
        jitter: Span,
    },
    /// Flows to one receiver that start one after another and then stop.
    Convergence {
        /// Number of flows, from hosts in turn: where these are fewer, some send several.
        flows: u32,
        /// Time between starts.
        interval: Span,
        /// How long each flow runs.
        duration: Span,
    },
    /// Transfers between random hosts, arriving as a Poisson process.
    Flows {
        /// Number of transfers.
        sessions: u32,
        /// Arrivals a second, over the whole network.
        lambda: f64,
        /// Sizes.
        sizes: Sizes,
    },
    /// Transfers that a file lists: see [`Trace`].
    Trace {
        /// The file's text.
        matrix: Trace,
    },
    /// A storage system's reads or writes of replicated blocks (SCDP §V-A).
    Storage {
        /// Number of requests.
        sessions: u32,
        /// Requests a second, over the whole network.
        lambda: f64,
        /// Size of a block.
        size: Size,
        /// Replicas of each.
        replicas: u32,
        /// Share of writes; the others are reads.
        writes: f64,
        /// A write is complete when so many replicas are; all if not given. The rest is gone on with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quorum: Option<u32>,
        /// Where replicas are.
        #[serde(default)]
        placement: Placement,
        /// How protocols without multicast write.
        #[serde(default)]
        write_by: WriteBy,
        /// How protocols without many-to-one sessions read.
        #[serde(default)]
        read_by: ReadBy,
    },
}

impl Workload {
    /// Replicas of which a write does not wait for the end.
    pub fn not_waited_for(&self) -> u32 {
        match self {
            Workload::Storage { replicas, quorum: Some(quorum), .. } => {
                replicas.saturating_sub(*quorum)
            }
            _ => 0,
        }
    }

    /// How long it lasts, where that is planned and not what is measured.
    pub fn planned(&self) -> Option<Duration> {
        match self {
            Workload::Convergence { flows, interval, duration } => {
                let starts = u64::from(flows.saturating_sub(1));
                Some(interval.0 * starts + duration.0)
            }
            _ => None,
        }
    }
}

fn zero() -> Span {
    Span(Duration::ZERO)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(span: &Span) -> bool {
    span.0 == Duration::ZERO
}

fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_once(rounds: &u32) -> bool {
    *rounds == 1
}

/// Sizes of transfers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// All alike.
    Fixed(Size),
    /// SCDP Table I, web search, within each row's range log-uniform and the last row fitted to
    /// the mean of 1.6 MB.
    WebSearch,
    /// SCDP Table I, data mining; mean 7.4 MB.
    DataMining,
    /// The PIAS authors' web search table.
    PiasWebSearch,
    /// The PIAS authors' data mining table.
    PiasDataMining,
    /// (bytes, cumulative probability) points; linear between.
    Points(Vec<(f64, f64)>),
}

/// Where replicas are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// HDFS's default for clients that are no data nodes (SCDP §V-A): a random node, then two
    /// nodes of one other rack.
    #[default]
    Hdfs,
    /// Random hosts outside the client's rack (Polyraptor §3).
    OutsideRack,
    /// Random hosts.
    Random,
}

/// How protocols without multicast write several replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBy {
    /// A copy to each (SCDP Fig. 4a).
    #[default]
    MultiUnicast,
    /// From replica to replica, each as soon as it receives (SCDP Fig. 4b).
    DaisyChain,
    /// NDP only: packets to a group, and to all of it again what one replica asks for again.
    Multicast,
}

/// How protocols without many-to-one sessions read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadBy {
    /// All from the replica in the client's rack or a random one (SCDP Fig. 4d).
    #[default]
    Single,
    /// As many blocks as replicas, each a part of the size, each from such a replica.
    MultiBlock,
    /// A part from every replica (the Polyraptor poster's emulation).
    Parts,
    /// Pieces of `block_symbols` packets from all replicas, two at a time of each; the next one from whoever has sent
    /// a piece.
    Pieces,
}

/// What else goes on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Background {
    /// Share of the hosts that run endless flows in a ring (the SCDP authors' models).
    pub fraction: f64,
    /// Whether these hosts are left out of the foreground (ditto).
    pub exclusive: bool,
    /// Instead of endless flows: endless reads and writes of such blocks between those hosts,
    /// one after another (SCDP §V-D).
    pub storage: Option<Size>,
    /// How long the background runs before the foreground starts.
    pub warmup: Span,
}

impl Background {
    /// Replicas of a block that the background reads or writes.
    pub const REPLICAS: u32 = 3;
}

impl Default for Background {
    fn default() -> Self {
        Background {
            fraction: 0.0,
            exclusive: true,
            storage: None,
            warmup: Span(Duration::from_millis(100)),
        }
    }
}
