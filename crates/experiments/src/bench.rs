//! Benchmarks of the simulator: fixed scenarios, timed.

use crate::run::{Outcome, run};
use crate::scenario::{Plan, Scenario};
use anyhow::{Result, bail};
use serde::Serialize;
use std::time::Instant;

/// A fixed scenario.
struct Case {
    name: &'static str,
    text: &'static str,
}

const CASES: &[Case] = &[
    // htsim's own: 10 Gbit/s, 9 KB, 1 us a link, 8-packet queues, w = 23, 20 MB a flow.
    Case {
        name: "ndp-perm-128",
        text: "[topology]\nk = 8\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
               [switch]\nbuffer_packets = 6\nspraying = \"label\"\nvictim = \"arriving-or-last\"\n\
               [protocol]\nname = \"ndp\"\nwindow = 23\npacket = 9064\n\
               [workload]\nkind = \"permutation\"\nsize = \"20MB\"\n",
    },
    Case {
        name: "ndp-perm-432",
        text: "[topology]\nk = 12\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
               [switch]\nbuffer_packets = 6\nspraying = \"label\"\nvictim = \"arriving-or-last\"\n\
               [protocol]\nname = \"ndp\"\nwindow = 23\npacket = 9064\n\
               [workload]\nkind = \"permutation\"\nsize = \"20MB\"\n",
    },
    // The paper's network at 1500 bytes.
    Case {
        name: "ndp-perm-250",
        text: "[switch]\nspraying = \"label\"\n[protocol]\nname = \"ndp\"\n\
               [workload]\nkind = \"permutation\"\nsize = \"20MB\"\n",
    },
    Case { name: "scdp-perm-250", text: "[workload]\nkind = \"permutation\"\nsize = \"20MB\"\n" },
    Case {
        name: "ndp-incast-70",
        text: "[protocol]\nname = \"ndp\"\n\
               [workload]\nkind = \"incast\"\nsenders = 70\nsize = \"256KB\"\n",
    },
    Case {
        name: "scdp-write-3",
        text: "[background]\nfraction = 0.3\n\
               [workload]\nkind = \"storage\"\nsessions = 500\nlambda = 2000.0\n\
               size = \"1MB\"\nreplicas = 3\nwrites = 1.0\n",
    },
    // A fiftieth of a point of SCDP Fig. 7 at load 0.8.
    Case {
        name: "scdp-fig7-quick",
        text: "[background]\nfraction = 0.8\nwarmup = \"20ms\"\n\
               [workload]\nkind = \"flows\"\nsessions = 400\nlambda = 2500.0\n\
               sizes = \"web-search\"\n",
    },
    Case {
        name: "ndp-perm-8192",
        text: "[topology]\nk = 32\n[switch]\nspraying = \"label\"\n\
               [protocol]\nname = \"ndp\"\n\
               [workload]\nkind = \"permutation\"\nsize = \"500KB\"\n",
    },
    Case {
        name: "ndp-perm-65536",
        text: "[topology]\nk = 64\n[switch]\nspraying = \"label\"\n\
               [protocol]\nname = \"ndp\"\n\
               [workload]\nkind = \"permutation\"\nsize = \"100KB\"\n",
    },
];

/// A measurement.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRow {
    /// The scenario.
    pub name: &'static str,
    /// Processor time of the best run \[s\] (wall time where the system does not report it), building
    /// the network included.
    pub seconds: f64,
    /// Events.
    pub events: u64,
    /// Packets put on links.
    pub packet_hops: u64,
    /// Packet-hops a second, in millions.
    pub mhops_per_second: f64,
    /// Events a second, in millions.
    pub mevents_per_second: f64,
    /// Nanoseconds an event.
    pub ns_per_event: f64,
    /// The most events that waited.
    pub peak_pending: u64,
    /// The most packets in the network.
    pub peak_packets: u64,
    /// Largest resident memory during the benchmark \[MB\] (of the process so far where the system
    /// does not let it be reset).
    pub peak_memory_mb: f64,
    /// Mean completion time \[ms\].
    pub fct_mean_ms: f64,
    /// Longest completion time \[ms\].
    pub fct_max_ms: f64,
    /// Payloads trimmed.
    pub trimmed: u64,
}

/// Names of all benchmarks.
pub fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// The scenario of a benchmark.
///
/// # Errors
/// No such benchmark.
pub fn scenario(name: &str) -> Result<Scenario> {
    let Some(case) = CASES.iter().find(|case| case.name == name) else {
        bail!("no benchmark `{name}`; there are: {}", names().collect::<Vec<_>>().join(", "));
    };
    let text = format!("name = \"{}\"\n{}", case.name, case.text);
    Ok(Plan::parse(&text)?.scenarios()?.remove(0))
}

/// Runs a benchmark so many times; the best counts. Its answer is checked first: every request
/// completes, and every run gives the same digest.
///
/// # Errors
/// No such benchmark, or a wrong answer.
pub fn measure(name: &str, repeats: u32) -> Result<BenchRow> {
    let scenario = scenario(name)?;
    let case = CASES.iter().find(|case| case.name == name);
    let mut best: Option<(f64, Outcome)> = None;
    reset_peak_memory();
    for _ in 0..repeats.max(1) {
        let (started, on_cpu) = (Instant::now(), processor_seconds());
        let outcome = run(&scenario, 1, &mut |_| {})?;
        let wall = started.elapsed().as_secs_f64();
        let seconds = match (on_cpu, processor_seconds()) {
            (Some(before), Some(after)) => after - before,
            _ => wall,
        };
        if !outcome.incomplete().is_empty() || outcome.not_made > 0 {
            bail!("{name}: requests did not complete");
        }
        if let Some((least, before)) = &best {
            if before.counters.digest != outcome.counters.digest {
                bail!("{name}: two runs differ");
            }
            if *least <= seconds {
                continue;
            }
        }
        best = Some((seconds, outcome));
    }
    let Some((seconds, outcome)) = best else { bail!("{name}: not run") };
    let counters = outcome.counters;
    let times: Vec<f64> = outcome.foreground().filter_map(|f| f.completion()).collect();
    Ok(BenchRow {
        name: case.map_or("", |case| case.name),
        seconds,
        events: counters.events,
        packet_hops: counters.packet_hops,
        mhops_per_second: counters.packet_hops as f64 / seconds / 1e6,
        mevents_per_second: counters.events as f64 / seconds / 1e6,
        ns_per_event: seconds * 1e9 / counters.events as f64,
        peak_pending: counters.peak_pending,
        peak_packets: counters.peak_packets,
        peak_memory_mb: peak_memory_mb(),
        fct_mean_ms: times.iter().sum::<f64>() / times.len().max(1) as f64 * 1e3,
        fct_max_ms: times.iter().copied().fold(0.0, f64::max) * 1e3,
        trimmed: counters.trimmed,
    })
}

/// Processor time of this thread \[s\]: other load on the machine does not count.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? * 1e-9)
}

/// Starts the process's largest resident memory anew, on Linux.
fn reset_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The process's largest resident memory so far \[MB\]; 0 where the system does not report it.
fn peak_memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1.024e-3
}
