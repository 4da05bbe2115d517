//! Status of an appliance, for people and programs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wellspring_codec::interleave::Account;
use wellspring_maelstrom::{
    CacheCounters, Cause, Code, DropReason, LossReport, ReceiveCounters, SendCounters,
};

use crate::aggregation::AggregationStatus;
use crate::failover::FailoverStatus;
use crate::inject::InjectCounters;
use crate::split::SplitCounters;

/// Upper ends of the histogram of how late recovered packets are \[ms\]; what is later counts
/// beyond the last.
pub const LATE_BUCKETS_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

/// A peer that says nothing for so long is not there.
const PEER_SILENT: Duration = Duration::from_secs(4);

/// How late recovered packets were, beside when they should have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LateHistogram {
    /// Counts by bucket; the last is for what is later than all.
    pub buckets: [u64; LATE_BUCKETS_MS.len() + 1],
    /// Sum of all.
    pub total: Duration,
}

impl LateHistogram {
    pub(crate) fn add(&mut self, late: Duration) {
        let place = LATE_BUCKETS_MS.iter().position(|&end| late <= Duration::from_millis(end));
        self.buckets[place.unwrap_or(LATE_BUCKETS_MS.len())] += 1;
        self.total += late;
    }

    fn add_all(&mut self, other: &LateHistogram) {
        for (to, from) in self.buckets.iter_mut().zip(other.buckets) {
            *to += from;
        }
        self.total += other.total;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What an appliance has seen and done since it started.
#[derive(Clone, Debug)]
pub struct Status {
    /// What it is called.
    pub name: String,
    /// How long it has run.
    pub uptime: Duration,
    /// Longest packet that is protected \[bytes\].
    pub longest: usize,
    /// Whether TCP is made to send no longer ones.
    pub clamped: bool,
    /// Whether what it says to its peer is encrypted.
    pub encrypted: bool,
    /// Whether it follows the loss.
    pub adaptive: bool,
    /// Partitions of the site.
    pub partitions: u8,
    /// Those that are protected here.
    pub protected: Vec<u8>,
    /// The site's appliances, and what each is to protect; none if this one is alone.
    pub failover: Option<FailoverStatus>,
    /// What split mode does; none without it.
    pub split: Option<Arc<SplitCounters>>,
    /// What was kept for local hosts and asked for; none without a cache.
    pub cache: Option<CacheCounters>,
    /// What was carried in bundles; none if nothing is.
    pub aggregation: Option<AggregationStatus>,
    /// The account of all partitions.
    pub sum: PartitionStatus,
}

impl Status {
    /// Whether the peer has been heard in the last seconds.
    pub fn peer_alive(&self) -> bool {
        self.sum.heard.is_some_and(|heard| heard.elapsed() < PEER_SILENT)
    }
}

/// What a partition has seen and done, or several together.
#[derive(Clone, Debug)]
pub struct PartitionStatus {
    /// The code in use; none while it is off.
    pub code: Option<Code>,
    /// Where the peer is; none as long as that is not known.
    pub peer: Option<SocketAddr>,
    /// When the peer was heard last.
    pub heard: Option<Instant>,
    /// The send side's account.
    pub send: SendCounters,
    /// The receive side's account.
    pub receive: ReceiveCounters,
    /// The code's account at the receive side.
    pub account: Account,
    /// Datagrams to the peer.
    pub to_peer: InjectCounters,
    /// Recovered packets to the local network.
    pub to_local: InjectCounters,
    /// Packets that passed unseen because the ring was full.
    pub unseen: u64,
    /// Packets that did not look as on the wire.
    pub unlike: u64,
    /// Packets of others, to elsewhere.
    pub passed_over: u64,
    /// How late recovered packets were.
    pub late: LateHistogram,
    /// Sum of what was measured of what arrives.
    pub arriving: Losses,
    /// What the peer last measured of what leaves.
    pub leaving: Option<LossReport>,
    /// Why the pair does not protect, or not all.
    pub causes: Vec<Cause>,
    /// What the peer's newest datagram waited in queues.
    pub queue_delay: Duration,
}

impl PartitionStatus {
    /// Packets that were brought back and did not come by themselves while they were held.
    pub fn recovered(&self) -> u64 {
        self.account
            .recovered_total()
            .saturating_sub(self.receive.withdrawn + self.receive.doubtful)
    }

    /// Adds another's; the code shown is the one of the newer.
    pub(crate) fn add(&mut self, other: &PartitionStatus) {
        self.code = other.code.clone();
        self.peer = other.peer.or(self.peer);
        self.heard = self.heard.max(other.heard);
        self.send.add(&other.send);
        self.receive.add(&other.receive);
        self.account.add(&other.account);
        self.to_peer.add(&other.to_peer);
        self.to_local.add(&other.to_local);
        self.unseen += other.unseen;
        self.unlike += other.unlike;
        self.passed_over += other.passed_over;
        self.late.add_all(&other.late);
        self.arriving.add_all(&other.arriving);
        self.causes.extend(&other.causes);
        self.causes.sort_unstable();
        self.causes.dedup();
        self.queue_delay = self.queue_delay.max(other.queue_delay);
        self.leaving = match (self.leaving, other.leaving) {
            (Some(one), Some(two)) => Some(one.and(&two)),
            (one, two) => one.or(two),
        };
    }
}

/// Sums over reports.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Losses {
    /// Packets that were sent, but for those of congested times.
    pub packets: u64,
    /// Those that did not arrive by themselves.
    pub lost: u64,
    /// Runs of them.
    pub bursts: u64,
    /// The longest run.
    pub longest_burst: u16,
    /// Packets of congested times.
    pub congested: u64,
    /// Those of them that queues dropped.
    pub congested_lost: u64,
}

impl Losses {
    pub(crate) fn add(&mut self, report: &LossReport) {
        self.packets += u64::from(report.packets);
        self.lost += u64::from(report.lost);
        self.bursts += u64::from(report.bursts);
        self.longest_burst = self.longest_burst.max(report.longest_burst);
        self.congested += u64::from(report.congested);
        self.congested_lost += u64::from(report.congested_lost);
    }

    fn add_all(&mut self, other: &Losses) {
        self.packets += other.packets;
        self.lost += other.lost;
        self.bursts += other.bursts;
        self.longest_burst = self.longest_burst.max(other.longest_burst);
        self.congested += other.congested;
        self.congested_lost += other.congested_lost;
    }
}

fn window_of(code: Option<&Code>) -> Option<u16> {
    match code {
        Some(Code::Sliding(code)) => Some(code.parameters.window()),
        _ => None,
    }
}

/// Packets for so many repairs.
fn rate_of(code: &Code) -> [usize; 2] {
    [usize::from(code.rate()), code.repairs()]
}

/// A status for programs. Times in seconds, lengths in bytes.
pub fn to_json(status: &Status) -> Value {
    let sum = &status.sum;
    json!({
        "name": status.name,
        "uptime": status.uptime.as_secs_f64(),
        "longest_protected": status.longest,
        "code_on": sum.code.is_some(),
        "code": sum.code.as_ref().map(|code| code.family().name()),
        "rate": sum.code.as_ref().map(rate_of),
        "interleaves": sum.code.as_ref().map(Code::interleaves).filter(|i| !i.is_empty()),
        "delayed": sum.code.as_ref().is_some_and(Code::is_delayed),
        "window": window_of(sum.code.as_ref()),
        "overhead": sum.code.as_ref().map_or(0.0, Code::overhead),
        "adaptive": status.adaptive,
        "peer_alive": status.peer_alive(),
        "peer": sum.peer.map(|peer| peer.to_string()),
        "clamped": status.clamped,
        "encrypted": status.encrypted,
        "trouble": sum.causes.iter().map(|cause| json!({
            "cause": cause.name(), "text": cause.text(),
        })).collect::<Vec<_>>(),
        "partitions": { "of": status.partitions, "protected": status.protected },
        "failover": status.failover.as_ref().map(failover_to_json),
        "cache": status.cache.map(|cache| json!({
            "kept": cache.kept, "asked": cache.asked, "resent": cache.found,
        })),
        "bundles": status.aggregation.map(|aggregation| json!({
            "taking": aggregation.taking, "peer_alive": aggregation.peer_alive,
            "sent": aggregation.sent.bundles, "packets_sent": aggregation.sent.packets,
            "too_long": aggregation.sent.too_long,
            "received": aggregation.received.bundles, "packets_received": aggregation.received.packets,
            "refused": aggregation.refused,
            "dropped": aggregation.received.dropped.iter().sum::<u64>(),
        })),
        "split": status.split.as_deref().map(split_to_json),
        "sent": {
            "packets": sum.send.packets, "bytes": sum.send.packet_bytes,
            "repairs": sum.send.repairs, "repair_bytes": sum.send.repair_bytes,
            "digests": sum.send.digests, "digest_bytes": sum.send.digest_bytes,
            "unprotected": sum.send.foreign, "too_long": sum.send.too_long,
            "code_changes": sum.send.changes, "datagrams": sum.to_peer.sent,
            "datagrams_failed": sum.to_peer.failed,
        },
        "received": received_to_json(sum),
        "link": {
            "packets": sum.arriving.packets, "lost": sum.arriving.lost,
            "bursts": sum.arriving.bursts, "longest_burst": sum.arriving.longest_burst,
            "congested": sum.arriving.congested, "congested_lost": sum.arriving.congested_lost,
            "queue_delay": sum.queue_delay.as_secs_f64(),
        },
        "peer_measured": sum.leaving.map(|report| json!({
            "packets": report.packets, "lost": report.lost, "bursts": report.bursts,
            "usual_burst": report.usual_burst, "longest_burst": report.longest_burst,
            "congested": report.congested, "congested_lost": report.congested_lost,
            "queue_delay": report.queue_delay.as_secs_f64(),
        })),
        "unseen": sum.unseen,
        "unlike": sum.unlike,
        "passed_over": sum.passed_over,
    })
}

fn failover_to_json(failover: &FailoverStatus) -> Value {
    let appliances = failover.appliances.iter().zip(&failover.heard);
    let counters = &failover.counters;
    json!({
        "alive": failover.all_heard(),
        "appliances": appliances.map(|(at, heard)| json!({ "at": at.to_string(), "alive": heard }))
            .collect::<Vec<_>>(),
        "number": failover.number,
        "owners": failover.owners,
        "loads": failover.loads,
        "hellos": counters.hellos, "takeovers": counters.takeovers, "returns": counters.returns,
        "moved_here": counters.moved_here, "moved_away": counters.moved_away,
        "dropped": counters.dropped.iter().sum::<u64>(),
    })
}

fn split_to_json(split: &SplitCounters) -> Value {
    let now = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    json!({
        "taking": split.taking.load(Ordering::Relaxed), "connections": now(&split.flows),
        "accepted": now(&split.accepted), "opened": now(&split.opened),
        "finished": now(&split.finished), "reset": now(&split.reset),
        "sent_bytes": now(&split.sent_bytes), "received_bytes": now(&split.received_bytes),
        "trunks": now(&split.trunks), "trunks_failed": now(&split.trunks_failed),
    })
}

fn mean_late(late: &LateHistogram) -> Option<f64> {
    let count = late.count();
    (count > 0).then(|| late.total.as_secs_f64() / count as f64)
}

fn received_to_json(sum: &PartitionStatus) -> Value {
    let dropped: serde_json::Map<String, Value> = DropReason::ALL
        .into_iter()
        .map(|why| (why.name().to_owned(), sum.receive.dropped[why as usize].into()))
        .collect();
    json!({
        "packets": sum.receive.packets, "repairs": sum.account.repairs,
        "repairs_redundant": sum.account.redundant,
        "repairs_expired": sum.account.expired,
        "repairs_too_late": sum.account.too_late,
        "garbled": sum.account.garbled,
        "recovered": sum.recovered(),
        "recovered_by_layer": sum.account.recovered,
        "overtaken": sum.receive.overtaken,
        "withdrawn": sum.receive.withdrawn,
        "doubtful": sum.receive.doubtful,
        "renewed": sum.receive.renewed,
        "congested_left": sum.receive.congested,
        "congested_marked": sum.receive.marked,
        "recovered_injected": sum.to_local.sent,
        "recovered_failed": sum.to_local.failed,
        "late_mean": mean_late(&sum.late),
        "dropped": dropped,
        "sessions": sum.receive.sessions,
    })
}
