//! Metrics of a server for Prometheus, in the text format of OpenMetrics.

use std::fmt;
use std::fs;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;
use wellspring_console::usage::cpu_seconds;
use wellspring_core::DropReason;
use wellspring_net::driver::{ReceivePath, Statistics};
use wellspring_server::{Server, ServerCounters};
use wellspring_wire::control::RefusalCode;

/// The media type of a page of metrics.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of a server at this moment; `None` if it has stopped.
pub fn of(server: &Server) -> Option<String> {
    let statistics = server.statistics().ok()?;
    page(&statistics, &server.counters())
}

/// A page of metrics.
fn page(statistics: &Statistics, counters: &ServerCounters) -> Option<String> {
    let mut registry = Registry::default();
    process(&mut Page(&mut registry));
    let mut page = Page(registry.sub_registry_with_prefix("wellspring"));
    page.gauges(
        "build_info",
        "The version that runs",
        "version",
        &[(env!("CARGO_PKG_VERSION"), 1)],
    );
    transfers(&mut page, counters);
    traffic(&mut page, statistics);
    drops(&mut page, statistics);
    host(&mut page, statistics);
    if let Some(trust) = &statistics.trust {
        keys(&mut page, trust);
    }
    let mut text = String::new();
    encode(&mut text, &registry).ok().map(|()| text)
}

fn transfers(page: &mut Page<'_>, counters: &ServerCounters) {
    let running = [("send", counters.sending as u64), ("receive", counters.receiving as u64)];
    page.gauges("transfers", "Transfers that run", "direction", &running);
    for (direction, ended) in [("sends", counters.sends), ("puts", counters.puts)] {
        let rows = [("complete", ended.complete), ("failed", ended.failed)];
        page.counter(&format!("{direction}_begun"), "Transfers begun", ended.begun);
        page.counters(&format!("{direction}_ended"), "Transfers ended", "result", &rows);
    }
    let help = "Puts given up since they got on too slowly to keep their space or place";
    page.counter("puts_too_slow", help, counters.puts_too_slow);
    // All of them from the start: a rate needs the 0 before the first.
    let codes = (1..).map_while(RefusalCode::from_number);
    let refused: Vec<_> = codes
        .map(|code| (reason(code), counters.refused.get(&code).copied().unwrap_or(0)))
        .collect();
    page.counters("refusals", "Requests refused", "reason", &refused);
    let quotas = counters.over_quota;
    let rows = [("sessions", quotas.sessions), ("bytes", quotas.bytes), ("files", quotas.files)];
    page.counters("quota_refusals", "Requests beyond a quota", "quota", &rows);
    let dropped = counters.dropped_requests;
    let rows = [("all", dropped.of_all), ("address", dropped.of_address)];
    let help = "Requests dropped since too many were at work, of all or of their address";
    page.counters("dropped_requests", help, "limit", &rows);
    let help = "Events not told line by line since too many of their kind were";
    page.counter("suppressed_events", help, counters.suppressed_events);
    let help = "TCP connections of clients, for LTTP";
    page.gauge("lttp_connections", help, counters.lttp_connections as u64);
    let help = "Disk space promised to objects on their way";
    page.gauge("reserved_bytes", help, counters.reserved_bytes);
    let digests = [("hit", counters.digests_known), ("miss", counters.digests_computed)];
    let help = "Digests of objects: found in the cache, or computed";
    page.counters("digests", help, "cache", &digests);
    let received = &counters.received;
    let help = "Bytes of received objects that are verified and in place";
    page.counter("received_object_bytes", help, received.bytes);
    let rows = [("useful", received.useful), ("redundant", received.redundant)];
    let help = "Symbols of received objects: of use, or beyond need";
    page.counters("symbols_received", help, "use", &rows);
    page.counter("symbols_needed", "Source symbols of received objects", received.needed);
    page.counter("symbols_lost", "Symbols of received objects lost on the way", received.lost);
    let rows = [("decoded", received.decoded_blocks), ("decode_free", received.decode_free_blocks)];
    let help = "Blocks of received objects: decoded, or complete without";
    page.counters("blocks", help, "way", &rows);
}

fn traffic(page: &mut Page<'_>, statistics: &Statistics) {
    let Statistics { sent, received, .. } = statistics;
    page.counter("sent_bytes", "UDP payload sent", sent.bytes);
    page.counter("sent_datagrams", "Datagrams sent", sent.datagrams);
    page.counter("received_bytes", "UDP payload received", received.bytes);
    page.counter("received_datagrams", "Datagrams received", received.datagrams);
    let rows =
        [("source", sent.source_symbols), ("repair", sent.repair_symbols), ("lt", sent.lt_symbols)];
    let help = "Symbols sent: repair symbols make up for lost ones, all of LT codes are alike";
    page.counters("symbols_sent", help, "kind", &rows);
    page.counter("pulls_sent", "Pulls sent", sent.pulls);
    page.counter("trimmed_symbols", "Symbols that came trimmed", received.trimmed);
    let help = "Datagrams that came marked (ECN congestion experienced)";
    page.counter("marked_datagrams", help, received.marked);
    page.counter("send_blocked", "Times that the socket had no room", sent.blocked);
    let errors =
        [("send", sent.errors), ("receive", received.errors), ("icmp", received.icmp_errors)];
    page.counters("socket_errors", "Errors of the sockets", "call", &errors);
}

fn drops(page: &mut Page<'_>, statistics: &Statistics) {
    let received = &statistics.received;
    let mut rows = vec![
        ("socket_full", received.socket_dropped),
        ("control_full", received.control_dropped),
        ("not_for_groups", received.not_for_groups),
        ("malformed_datagram", received.malformed),
        ("wrong_length", received.wrong_length),
        ("stranger", received.strangers),
        ("out_of_memory", received.out_of_memory),
        ("refused_sender", received.refused_senders),
    ];
    rows.extend(received.dropped.iter().map(|(why, count)| (drop_reason(*why), *count)));
    page.counters("dropped_datagrams", "Datagrams dropped", "reason", &rows);
}

fn host(page: &mut Page<'_>, statistics: &Statistics) {
    let memory =
        [("receive", statistics.receive_memory as u64), ("send", statistics.send_memory as u64)];
    page.gauges("block_memory_bytes", "Memory of blocks", "direction", &memory);
    let buffers =
        [("receive", statistics.receive_buffer as u64), ("send", statistics.send_buffer as u64)];
    let help = "Buffers that the system granted";
    page.gauges("socket_buffer_bytes", help, "direction", &buffers);
    page.gauge("peers", "Hosts that sessions name", statistics.peers as u64);
    page.gauge("groups", "Multicast groups listened to", statistics.groups as u64);
    let features = [
        ("gso", u64::from(statistics.segmentation)),
        ("gro", u64::from(statistics.coalescing)),
        ("trims", u64::from(statistics.receive_path == ReceivePath::SocketAndTap)),
    ];
    page.gauges("socket_feature", "Whether the sockets have it", "feature", &features);
}

fn keys(page: &mut Page<'_>, trust: &wellspring_trust::TrustCounters) {
    let rows = [
        ("done", trust.handshakes),
        ("put_off", trust.handshakes_put_off),
        ("replayed", trust.handshakes_replayed),
        ("wrong", trust.handshakes_wrong),
        ("untrusted", trust.handshakes_untrusted),
        ("conflicting", trust.handshakes_conflicting),
    ];
    page.counters("handshakes", "Handshakes of keys", "result", &rows);
    let rows = [("refusal", trust.refusals_withheld)];
    let help = "Answers to handshakes that were not sent since too many were";
    page.counters("withheld_answers", help, "answer", &rows);
    let rows = [("clear", trust.clear), ("forged", trust.forged), ("replayed", trust.replayed)];
    page.counters("rejected_datagrams", "Datagrams that keys kept out", "reason", &rows);
}

/// The usual metrics of a process.
fn process(page: &mut Page<'_>) {
    if let Some(cpu) = cpu_seconds(None) {
        page.cpu("process_cpu_seconds", "Processor time", cpu);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is that of this very look.
        let count = open.count().saturating_sub(1) as u64;
        page.gauge("process_open_fds", "Open file descriptors", count);
    }
    if let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        page.gauge("process_max_fds", "File descriptors that may be open", limit);
    }
    if let Some(resident) = resident_memory() {
        page.gauge("process_resident_memory_bytes", "Memory in use", resident);
    }
    if let Some(started) = started() {
        let help = "When the process started, in seconds since 1970";
        page.gauge("process_start_time_seconds", help, started);
    }
}

fn resident_memory() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn started() -> Option<u64> {
    let system = fs::read_to_string("/proc/stat").ok()?;
    let process = fs::read_to_string("/proc/self/stat").ok()?;
    start_time(&system, &process, rustix::param::clock_ticks_per_second())
}

/// When a process started, in seconds since 1970: from the texts of /proc/stat and of its own /proc/PID/stat.
fn start_time(system: &str, process: &str, ticks_per_second: u64) -> Option<u64> {
    let boot: u64 =
        system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    // The name, in parentheses, may hold anything. Behind it stands the third field; the start is the 22nd.
    let (_, fields) = process.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(22 - 3)?.parse().ok()?;
    Some(boot + ticks.checked_div(ticks_per_second)?)
}

/// The label of a refusal.
fn reason(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::NotFound => "not_found",
        RefusalCode::Changed => "changed",
        RefusalCode::NotAllowed => "not_allowed",
        RefusalCode::Exists => "exists",
        RefusalCode::BadName => "bad_name",
        RefusalCode::TooLarge => "too_large",
        RefusalCode::NoSpace => "no_space",
        RefusalCode::Busy => "busy",
        RefusalCode::SessionInUse => "session_in_use",
        RefusalCode::Unsupported => "unsupported",
        RefusalCode::Failed => "failed",
        RefusalCode::BadDigest => "bad_digest",
        RefusalCode::TooSlow => "too_slow",
        RefusalCode::OverQuota => "over_quota",
        _ => "other",
    }
}

/// The label of a packet that the protocol did not use.
fn drop_reason(why: DropReason) -> &'static str {
    match why {
        DropReason::UnknownSession => "unknown_session",
        DropReason::UnknownPeer => "unknown_peer",
        DropReason::Malformed => "malformed",
        DropReason::Duplicate => "duplicate",
        DropReason::Stale => "stale",
        DropReason::OverLimit => "over_limit",
        DropReason::Misdirected => "misdirected",
        _ => "other",
    }
}

/// A page of metrics under construction. Help texts have no full stop: the registry adds it.
struct Page<'a>(&'a mut Registry);

/// Values of a metric by label, in the order in which they are given: the registry's own families have none, so that
/// two pages could not be compared line by line.
#[derive(Debug)]
struct Rows<M> {
    label: &'static str,
    rows: Vec<(String, M)>,
}

impl<M> Rows<M> {
    fn new(label: &'static str, rows: &[(&str, u64)], metric: impl Fn(u64) -> M) -> Self {
        let rows = rows.iter().map(|(of, value)| ((*of).to_owned(), metric(*value)));
        Rows { label, rows: rows.collect() }
    }
}

impl<M: EncodeMetric + TypedMetric> EncodeMetric for Rows<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (of, metric) in &self.rows {
            metric.encode(encoder.encode_family(&[(self.label, of.as_str())])?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }
}

impl Page<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let counter: Counter = Counter::default();
        counter.inc_by(value);
        self.0.register(name, help, counter);
    }

    fn counters(&mut self, name: &str, help: &str, label: &'static str, rows: &[(&str, u64)]) {
        let metric = |value| {
            let counter = Counter::default();
            counter.inc_by(value);
            counter
        };
        self.0.register(name, help, Rows::<Counter>::new(label, rows, metric));
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        let gauge = Gauge::<u64, AtomicU64>::default();
        gauge.set(value);
        self.0.register(name, help, gauge);
    }

    fn gauges(&mut self, name: &str, help: &str, label: &'static str, rows: &[(&str, u64)]) {
        let metric = |value| {
            let gauge = Gauge::default();
            gauge.set(value);
            gauge
        };
        self.0.register(name, help, Rows::<Gauge<u64, AtomicU64>>::new(label, rows, metric));
    }

    fn cpu(&mut self, name: &str, help: &str, seconds: f64) {
        let counter = Counter::<f64, AtomicU64>::default();
        counter.inc_by(seconds);
        self.0.register(name, help, counter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pages_of_the_same_counts_are_the_same() {
        let (counters, statistics) = (ServerCounters::default(), Statistics::default());
        let lines = || {
            let page = page(&statistics, &counters).expect("a page");
            let ours = page.lines().filter(|line| line.starts_with("wellspring_"));
            ours.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(), lines());
        let refusals: Vec<_> =
            lines().into_iter().filter(|line| line.contains("refusals")).collect();
        assert!(
            refusals[0].contains("not_found") && refusals[1].contains("changed"),
            "{refusals:?}"
        );
    }

    #[test]
    fn a_process_started_when_the_system_says() {
        let system = "cpu  1 2 3\nintr 5 6\nctxt 7\nbtime 1700000000\nprocesses 9\n";
        let process = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 5 6 0 0 20 0 3 0 12345 99 9\n";
        assert_eq!(start_time(system, process, 100), Some(1_700_000_123));
        assert_eq!(start_time("cpu 1", process, 100), None);
        assert_eq!(start_time(system, "42 (a) S 1", 100), None);
        // The system's start is rounded, and its clock may be set.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let started = started().expect("of this process");
        assert!(started.abs_diff(now.expect("a clock").as_secs()) < 86_400, "{started}");
    }

    #[test]
    fn a_page_has_each_metric_once_and_ends_well() {
        let mut counters = ServerCounters::default();
        counters.refused.insert(RefusalCode::NotFound, 3);
        counters.received.redundant = 5;
        counters.puts_too_slow = 2;
        (counters.suppressed_events, counters.lttp_connections) = (6, 2);
        counters.reserved_bytes = 8;
        let mut statistics = Statistics::default();
        statistics.sent.repair_symbols = 7;
        statistics.sent.lt_symbols = 9;
        statistics.received.dropped.insert(DropReason::Duplicate, 2);
        statistics.trust.get_or_insert_default().refusals_withheld = 4;
        let page = page(&statistics, &counters).expect("a page");
        for line in [
            "wellspring_refusals_total{reason=\"not_found\"} 3",
            "wellspring_puts_too_slow_total 2",
            "wellspring_symbols_received_total{use=\"redundant\"} 5",
            "wellspring_symbols_sent_total{kind=\"repair\"} 7",
            "wellspring_symbols_sent_total{kind=\"lt\"} 9",
            "wellspring_dropped_datagrams_total{reason=\"duplicate\"} 2",
            "wellspring_handshakes_total{result=\"done\"} 0",
            "wellspring_withheld_answers_total{answer=\"refusal\"} 4",
            "wellspring_dropped_requests_total{limit=\"address\"} 0",
            "wellspring_suppressed_events_total 6",
            "wellspring_lttp_connections 2",
            "wellspring_reserved_bytes 8",
            "# EOF",
        ] {
            assert!(page.lines().any(|of| of == line), "no `{line}` in:\n{page}");
        }
        let mut names: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "a metric twice");
        assert!(page.contains("\nprocess_open_fds ") && page.contains("\nprocess_max_fds "));
        assert!(page.contains("\nprocess_start_time_seconds "));
    }
}
