//! The reports of transfers.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use wellspring_codec::lt::Method;
use wellspring_transport::scdp::{ReceiveStats, SendStats, SenderStats, StragglerCause};
use wellspring_transport::{lttp, ndp};

use super::{HostError, HostTrouble};
use crate::store::Digest;

/// The state of a replica at the end of a fetch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplicaState {
    /// It took part to the end.
    Served,
    /// It was lost, and why.
    Lost(String),
    /// It was not used, and why.
    Unused(String),
    /// It sent bytes that are not the object's and was excluded, and what they were.
    Excluded(String),
}

/// One replica of a fetch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaReport {
    /// The host, as the caller named it.
    pub host: String,
    /// Its address, if it has one.
    pub address: Option<SocketAddr>,
    /// Its state at the end.
    pub state: ReplicaState,
    /// How often it was lost.
    pub losses: u32,
    /// How often it came back.
    pub returns: u32,
    /// Its symbols that turned out to be altered, by it or on their way \[symbols\]; by LTTP and NDP, how often its bytes
    /// were wrong and fetched again.
    pub altered: u64,
    /// Its symbols by SCDP; `None` by other protocols, and if it had no share.
    pub stats: Option<SenderStats>,
}

/// The report of a fetch, by whatever protocol.
#[derive(Clone, PartialEq, Debug)]
pub struct FetchReport {
    /// The object's length \[bytes\].
    pub size: u64,
    /// Its digest, under which all bytes are verified.
    pub digest: Digest,
    /// The bytes that were wanted of it.
    pub range: Range<u64>,
    /// From the call to the object in place.
    pub elapsed: Duration,
    /// Of that, before the first symbol was asked for: finding the replicas.
    pub preparing: Duration,
    /// Of that, after the last symbol: verifying, syncing, renaming.
    pub finishing: Duration,
    /// Symbol size; by NDP the payload of a packet \[bytes\].
    pub symbol_size: u16,
    /// Bytes that an earlier fetch had left \[bytes\].
    pub resumed: u64,
    /// One entry a host named.
    pub replicas: Vec<ReplicaReport>,
    /// What the protocol adds.
    pub protocol: ProtocolReport,
}

/// What a protocol adds to the report of a fetch. Counters are zero for an object of no bytes.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ProtocolReport {
    /// By SCDP.
    Scdp(ScdpReport),
    /// By LTTP.
    Lttp(LttpReport),
    /// By NDP.
    Ndp(ndp::ReceiveStats),
}

impl FetchReport {
    /// Application bits that arrived over the whole time \[bit/s\].
    pub fn goodput(&self) -> f64 {
        rate(self.moved(), self.elapsed)
    }

    /// Bytes that were wanted \[bytes\].
    pub fn len(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Whether no byte was wanted: the object has none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    fn moved(&self) -> u64 {
        self.len().saturating_sub(self.resumed)
    }

    /// Application bits that arrived over the time between the first request for symbols and the last
    /// symbol \[bit/s\].
    pub fn transfer_rate(&self) -> f64 {
        let moving = self.elapsed.saturating_sub(self.preparing + self.finishing);
        rate(self.moved(), moving)
    }

    /// What SCDP adds, if the fetch was by SCDP.
    pub fn scdp(&self) -> Option<&ScdpReport> {
        match &self.protocol {
            ProtocolReport::Scdp(report) => Some(report),
            _ => None,
        }
    }

    /// What LTTP adds, if the fetch was by LTTP.
    pub fn lttp(&self) -> Option<&LttpReport> {
        match &self.protocol {
            ProtocolReport::Lttp(report) => Some(report),
            _ => None,
        }
    }

    /// What NDP adds, if the fetch was by NDP.
    pub fn ndp(&self) -> Option<&ndp::ReceiveStats> {
        match &self.protocol {
            ProtocolReport::Ndp(stats) => Some(stats),
            _ => None,
        }
    }
}

/// What SCDP adds to the report of a fetch.
#[derive(Clone, PartialEq, Debug)]
pub struct ScdpReport {
    /// Source blocks of the object, or of it those that hold the range that was wanted.
    pub blocks: u32,
    /// The protocol's counters.
    pub stats: ReceiveStats,
}

impl ScdpReport {
    /// Symbols that arrived for some block \[symbols\].
    pub fn useful(&self) -> u64 {
        self.stats.senders.iter().map(|s| s.useful).sum()
    }

    /// Symbols that replicas were asked for, which is what they sent \[symbols\].
    pub fn asked(&self) -> u64 {
        self.stats.senders.iter().map(|s| s.granted).sum()
    }

    /// Symbols needed beyond the object's own, as a part of these: the code's overhead.
    pub fn overhead_needed(&self) -> f64 {
        beyond(self.useful(), self.stats.needed)
    }

    /// Symbols sent beyond the object's own, as a part of these: what loss, trims and stragglers
    /// cost, too.
    pub fn overhead_sent(&self) -> f64 {
        beyond(self.asked(), self.stats.needed)
    }
}

/// What LTTP adds to the report of a fetch.
#[derive(Clone, PartialEq, Debug)]
pub struct LttpReport {
    /// Source symbols of a full block.
    pub block_symbols: u32,
    /// How blocks were decoded.
    pub method: Method,
    /// The parts in the object's order: a share from each server, and what servers that were lost
    /// left to others.
    pub parts: Vec<PartReport>,
}

/// A contiguous part of an object, as it came from one server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartReport {
    /// The server, as the caller named it.
    pub host: String,
    /// Its address.
    pub address: SocketAddr,
    /// Where the part begins \[bytes\].
    pub offset: u64,
    /// How long the part is \[bytes\].
    pub len: u64,
    /// The protocol's counters. `None` if the server was lost when it had sent so much.
    pub stats: Option<lttp::ReceiveStats>,
}

impl LttpReport {
    /// Source symbols of the blocks of all parts that were not broken off.
    pub fn needed(&self) -> u64 {
        self.sum(|stats| stats.source)
    }

    /// Distinct symbols that went into these blocks.
    pub fn used(&self) -> u64 {
        self.sum(|stats| stats.symbols)
    }

    /// Symbols that came for blocks which were complete.
    pub fn redundant(&self) -> u64 {
        self.sum(|stats| stats.redundant)
    }

    /// Symbols beyond the object's own that went into its blocks, as a part of these: what the
    /// decoder needs.
    pub fn overhead(&self) -> f64 {
        beyond(self.used(), self.needed())
    }

    fn sum(&self, counter: impl Fn(&lttp::ReceiveStats) -> u64) -> u64 {
        self.parts.iter().filter_map(|part| part.stats.as_ref()).map(counter).sum()
    }
}

fn beyond(got: u64, needed: u64) -> f64 {
    if needed == 0 { 0.0 } else { (got as f64 - needed as f64) / needed as f64 }
}

fn rate(bytes: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// The state of a receiver at the end of a put.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReceiverState {
    /// It has the object, verified and in place; the time since the call.
    Complete(Duration),
    /// It did not take the object, or did not get it; and why.
    Failed(String),
    /// It was still receiving when the put ended (its quorum was met).
    Unfinished,
}

/// One receiver of a put.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiverReport {
    /// The host, as the caller named it.
    pub host: String,
    /// Its address, if it has one.
    pub address: Option<SocketAddr>,
    /// Its state at the end.
    pub state: ReceiverState,
    /// What kind of trouble kept it from taking the object, if it failed.
    pub trouble: HostTrouble,
    /// It was detached from its group and went on by unicast, and why.
    pub detached: Option<StragglerCause>,
    /// What an earlier put had left it of the object, and was not sent to it alone \[bytes\].
    pub resumed: u64,
    /// Blocks in place, of how many.
    pub blocks: (u32, u32),
}

/// The report of a put.
#[derive(Clone, PartialEq, Debug)]
pub struct PutReport {
    /// The object's length \[bytes\].
    pub size: u64,
    /// Its digest.
    pub digest: Digest,
    /// From the call to its end.
    pub elapsed: Duration,
    /// From the call until as many receivers as were wanted had the object.
    pub quorum_after: Option<Duration>,
    /// How many had to.
    pub needed: usize,
    /// Source symbols of the blocks that had to be sent: for a group those that any of its members lacked,
    /// without a group those that each lacked. None where every receiver had the object.
    pub symbols_needed: u64,
    /// What went out, over all sessions; a multicast symbol counts once.
    pub stats: SendStats,
    /// One entry a host named.
    pub receivers: Vec<ReceiverReport>,
}

impl PutReport {
    /// Application bits over the time until enough receivers had the object \[bit/s\]; none if
    /// too few have it, or if nothing had to be sent.
    pub fn goodput(&self) -> Option<f64> {
        self.quorum_after.filter(|_| self.sent() > 0).map(|after| rate(self.size, after))
    }

    /// Symbols sent, over all sessions \[symbols\].
    pub fn sent(&self) -> u64 {
        self.stats.source_symbols + self.stats.repair_symbols
    }

    /// Receivers that have the object.
    pub fn complete(&self) -> usize {
        let complete = |r: &&ReceiverReport| matches!(r.state, ReceiverState::Complete(_));
        self.receivers.iter().filter(complete).count()
    }

    /// Receivers that do not have it, and why.
    pub fn unfinished(&self) -> Vec<HostError> {
        let reason = |state: &ReceiverState| match state {
            ReceiverState::Complete(_) => None,
            ReceiverState::Failed(reason) => Some(reason.clone()),
            ReceiverState::Unfinished => Some("still receiving".to_owned()),
        };
        self.receivers
            .iter()
            .filter_map(|r| {
                let (host, trouble) = (r.host.clone(), r.trouble);
                Some(HostError { host, reason: reason(&r.state)?, trouble })
            })
            .collect()
    }

    /// Symbols sent beyond those needed, as a part of these. Copies for several receivers without a
    /// group are needed; what a group's members were sent by unicast besides is not. None if
    /// nothing had to be sent, or if some receiver did not get all of its copy.
    pub fn overhead_sent(&self) -> Option<f64> {
        let finished = self.receivers.iter().all(|r| matches!(r.state, ReceiverState::Complete(_)));
        (finished && self.symbols_needed > 0).then(|| beyond(self.sent(), self.symbols_needed))
    }
}
