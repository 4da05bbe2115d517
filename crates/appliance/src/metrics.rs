//! Metrics in Prometheus' text format (version 0.0.4).

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use wellspring_maelstrom::{Cause, DropReason};

use crate::status::{LATE_BUCKETS_MS, Status};

/// A status for Prometheus.
pub fn to_prometheus(status: &Status) -> String {
    let mut text = String::new();
    let name = &status.name;
    let one = [("", 0)];
    let mut family = |metric: &str, kind: &str, help: &str, rows: &[(&str, u64)]| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP wellspring_maelstrom_{metric} {help}");
        let _ = writeln!(text, "# TYPE wellspring_maelstrom_{metric} {kind}");
        for (label, value) in rows {
            let comma = if label.is_empty() { "" } else { "," };
            let _ = writeln!(
                text,
                "wellspring_maelstrom_{metric}{{appliance=\"{name}\"{comma}{label}}} {value}"
            );
        }
    };
    let mut counter = |metric: &str, help: &str, value: u64| {
        family(metric, "counter", help, &[(one[0].0, value)]);
    };
    counter("sent_packets_total", "Packets protected.", status.sum.send.packets);
    counter("sent_bytes_total", "Bytes of packets protected.", status.sum.send.packet_bytes);
    counter("sent_repairs_total", "Repairs sent.", status.sum.send.repairs);
    counter("sent_repair_bytes_total", "Bytes of repairs sent.", status.sum.send.repair_bytes);
    counter("sent_too_long_total", "Packets too long to be protected.", status.sum.send.too_long);
    counter("sent_digests_total", "Digests sent, while the code is off.", status.sum.send.digests);
    counter("sent_digest_bytes_total", "Bytes of digests.", status.sum.send.digest_bytes);
    counter("code_changes_total", "Times the code was changed.", status.sum.send.changes);
    counter("datagrams_failed_total", "Datagrams the kernel refused.", status.sum.to_peer.failed);
    counter("received_packets_total", "Packets that arrived.", status.sum.receive.packets);
    let overtaken = status.sum.receive.overtaken;
    counter("overtaken_packets_total", "Packets that came after their repairs.", overtaken);
    let withdrawn = status.sum.receive.withdrawn;
    counter("withdrawn_packets_total", "Recovered packets that came after all.", withdrawn);
    let doubtful = status.sum.receive.doubtful;
    counter("doubtful_packets_total", "Not sent on: they may have passed unseen.", doubtful);
    let renewed = status.sum.receive.renewed;
    counter("renewed_packets_total", "Recovered packets with a later time stamp.", renewed);
    counter("received_repairs_total", "Repairs that arrived.", status.sum.account.repairs);
    let lost_for_good = status.sum.account.expired + status.sum.account.too_late;
    counter("unrecoverable_repairs_total", "Repairs that came to nothing.", lost_for_good);
    counter("garbled_total", "Recoveries that gave no packet.", status.sum.account.garbled);
    counter("injected_packets_total", "Recovered packets sent on.", status.sum.to_local.sent);
    counter("inject_failed_total", "Recovered packets refused.", status.sum.to_local.failed);
    counter("unseen_packets_total", "Packets the ring had no room for.", status.sum.unseen);
    counter("unlike_packets_total", "Packets not seen as on the wire.", status.sum.unlike);
    counter(
        "link_packets_total",
        "Packets the peer sent, as measured.",
        status.sum.arriving.packets,
    );
    counter("link_lost_packets_total", "Packets the link lost.", status.sum.arriving.lost);
    let arriving = &status.sum.arriving;
    counter("link_congested_packets_total", "Packets of congested times.", arriving.congested);
    counter("link_queue_drops_total", "Packets that queues dropped.", arriving.congested_lost);
    counter("link_bursts_total", "Runs of lost packets.", status.sum.arriving.bursts);
    counter("peer_sessions_total", "Times the peer began anew.", status.sum.receive.sessions);
    let layers: Vec<_> =
        (0..status.sum.account.recovered.len()).map(|layer| format!("layer=\"{layer}\"")).collect();
    let by_layer: Vec<_> =
        layers.iter().map(String::as_str).zip(status.sum.account.recovered).collect();
    family("recovered_packets_total", "counter", "Packets brought back, by layer.", &by_layer);
    let reasons = DropReason::ALL.map(|why| format!("reason=\"{}\"", why.name()));
    let dropped: Vec<_> =
        reasons.iter().map(String::as_str).zip(status.sum.receive.dropped).collect();
    family("dropped_datagrams_total", "counter", "Datagrams dropped.", &dropped);
    let up = u64::from(status.peer_alive());
    family("peer_up", "gauge", "Whether the peer was heard in the last seconds.", &[("", up)]);
    let causes = Cause::ALL.map(|cause| format!("cause=\"{}\"", cause.name()));
    let present = Cause::ALL.map(|cause| u64::from(status.sum.causes.contains(&cause)));
    let trouble: Vec<_> = causes.iter().map(String::as_str).zip(present).collect();
    family("trouble", "gauge", "Why the pair does not protect, or not all.", &trouble);
    let protected = status.protected.len() as u64;
    family("partitions_protected", "gauge", "Partitions protected here.", &[("", protected)]);
    if let Some(failover) = &status.failover {
        let others = failover.appliances.iter().zip(&failover.heard).enumerate();
        let others = others.filter(|&(number, _)| number != usize::from(failover.number));
        let up: Vec<(String, u64)> =
            others.map(|(_, (at, &heard))| (format!("other=\"{at}\""), u64::from(heard))).collect();
        let help = "Whether another appliance of the site speaks.";
        family("failover_peer_up", "gauge", help, &lent(&up));
        let counters = &failover.counters;
        let help = "Times partitions of a silent appliance were taken.";
        family("takeovers_total", "counter", help, &[("", counters.takeovers)]);
        let rows = [("to=\"here\"", counters.moved_here), ("to=\"away\"", counters.moved_away)];
        family("moved_partitions_total", "counter", "Partitions that load moved.", &rows);
        let loads: Vec<(String, u64)> = status
            .protected
            .iter()
            .filter_map(|&number| {
                let load = *failover.loads.get(usize::from(number))?;
                Some((format!("partition=\"{number}\""), u64::from(load)))
            })
            .collect();
        let help = "Packets a second, both ways, of partitions protected here.";
        family("partition_load", "gauge", help, &lent(&loads));
    }
    if let Some(split) = &status.split {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (flows, done) = (now(&split.flows), "Connections relayed, by how they ended.");
        family("split_connections", "gauge", "Connections relayed now.", &[("", flows)]);
        let rows = [("end=\"order\"", now(&split.finished)), ("end=\"reset\"", now(&split.reset))];
        family("split_connections_total", "counter", done, &rows);
    }
    let _ = writeln!(
        text,
        "# HELP wellspring_maelstrom_overhead_ratio Repairs for each packet.\n\
         # TYPE wellspring_maelstrom_overhead_ratio gauge\n\
         wellspring_maelstrom_overhead_ratio{{appliance=\"{name}\"}} {}",
        status.sum.code.as_ref().map_or(0.0, wellspring_maelstrom::Code::overhead)
    );
    histogram(&mut text, status);
    text
}

fn lent(rows: &[(String, u64)]) -> Vec<(&str, u64)> {
    rows.iter().map(|(label, value)| (label.as_str(), *value)).collect()
}

fn histogram(text: &mut String, status: &Status) {
    const METRIC: &str = "wellspring_maelstrom_recovery_latency_seconds";
    let (name, late) = (&status.name, &status.sum.late);
    let _ = writeln!(text, "# HELP {METRIC} How late recovered packets were.");
    let _ = writeln!(text, "# TYPE {METRIC} histogram");
    let mut sum = 0;
    for (end, count) in LATE_BUCKETS_MS.into_iter().zip(late.buckets) {
        sum += count;
        let end = end as f64 / 1e3;
        let _ = writeln!(text, "{METRIC}_bucket{{appliance=\"{name}\",le=\"{end}\"}} {sum}");
    }
    let count = late.count();
    let _ = writeln!(text, "{METRIC}_bucket{{appliance=\"{name}\",le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{METRIC}_sum{{appliance=\"{name}\"}} {}", late.total.as_secs_f64());
    let _ = writeln!(text, "{METRIC}_count{{appliance=\"{name}\"}} {count}");
}
