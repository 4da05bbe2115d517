//! What an appliance tells about itself.

use std::time::Duration;

use serde_json::{Value, json};
use wellspring_codec::interleave::{Account, Parameters};
use wellspring_maelstrom::{DropReason, LossReport, ReceiveCounters, SendCounters};

use crate::inject::InjectCounters;

/// Upper ends of the histogram of how late recovered packets are \[ms\]; what is later counts
/// beyond the last.
pub const LATE_BUCKETS_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

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
    /// The code in use.
    pub code: Parameters,
    /// Whether it follows the loss.
    pub adaptive: bool,
    /// Whether the peer has been heard in the last seconds.
    pub peer_alive: bool,
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
}

/// Sums over reports.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Losses {
    /// Packets that were sent.
    pub packets: u64,
    /// Those that did not arrive by themselves.
    pub lost: u64,
    /// Runs of them.
    pub bursts: u64,
    /// The longest run.
    pub longest_burst: u16,
}

impl Losses {
    pub(crate) fn add(&mut self, report: &LossReport) {
        self.packets += u64::from(report.packets);
        self.lost += u64::from(report.lost);
        self.bursts += u64::from(report.bursts);
        self.longest_burst = self.longest_burst.max(report.longest_burst);
    }
}

/// A status for programs. Times in seconds, lengths in bytes.
pub fn to_json(status: &Status) -> Value {
    let dropped: serde_json::Map<String, Value> = DropReason::ALL
        .into_iter()
        .map(|why| (why.name().to_owned(), status.receive.dropped[why as usize].into()))
        .collect();
    json!({
        "name": status.name,
        "uptime": status.uptime.as_secs_f64(),
        "longest_protected": status.longest,
        "rate": [status.code.rate(), status.code.interleaves().len()],
        "interleaves": status.code.interleaves(),
        "delayed": status.code.delayed,
        "overhead": status.code.overhead(),
        "adaptive": status.adaptive,
        "peer_alive": status.peer_alive,
        "sent": {
            "packets": status.send.packets, "bytes": status.send.packet_bytes,
            "repairs": status.send.repairs, "repair_bytes": status.send.repair_bytes,
            "unprotected": status.send.foreign, "too_long": status.send.too_long,
            "code_changes": status.send.changes, "datagrams": status.to_peer.sent,
            "datagrams_failed": status.to_peer.failed,
        },
        "received": {
            "packets": status.receive.packets, "repairs": status.account.repairs,
            "repairs_needless": status.account.needless,
            "repairs_expired": status.account.expired,
            "repairs_too_late": status.account.too_late,
            "garbled": status.account.garbled,
            "recovered": status.account.recovered_total(),
            "recovered_by_layer": status.account.recovered,
            "overtaken": status.receive.overtaken,
            "recovered_injected": status.to_local.sent,
            "recovered_failed": status.to_local.failed,
            "late_mean": mean_late(&status.late),
            "dropped": dropped,
            "sessions": status.receive.sessions,
        },
        "link": {
            "packets": status.arriving.packets, "lost": status.arriving.lost,
            "bursts": status.arriving.bursts, "longest_burst": status.arriving.longest_burst,
        },
        "peer_measured": status.leaving.map(|report| json!({
            "packets": report.packets, "lost": report.lost, "bursts": report.bursts,
            "usual_burst": report.usual_burst, "longest_burst": report.longest_burst,
        })),
        "unseen": status.unseen,
        "unlike": status.unlike,
        "passed_over": status.passed_over,
    })
}

fn mean_late(late: &LateHistogram) -> Option<f64> {
    let count = late.count();
    (count > 0).then(|| late.total.as_secs_f64() / count as f64)
}
