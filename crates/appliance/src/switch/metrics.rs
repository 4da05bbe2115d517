//! Metrics of a switch in Prometheus' text format (version 0.0.4).

use std::fmt::{Display, Write};
use std::io;
use std::net::SocketAddr;

use super::counters::{PortCounters, QueueCounters};
use super::shared::{Monitor, SwitchStatus};
use crate::control::serve_page;

impl Monitor {
    /// Answers HTTP requests for metrics at that address, for as long as the program runs.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn serve_metrics(&self, at: SocketAddr) -> io::Result<SocketAddr> {
        let monitor = self.clone();
        serve_page(at, move || Some(to_prometheus(&monitor.status())))
    }
}

/// A status for Prometheus.
pub fn to_prometheus(status: &SwitchStatus) -> String {
    let mut page = Page { text: String::new(), status };
    of_ports(&mut page);
    of_queues(&mut page);
    page.family("stations", "gauge", "Stations in the address table");
    page.row("stations", &[], status.stations);
    if let Some((groups, counters)) = &status.snooping {
        page.family("groups", "gauge", "Multicast groups with members");
        page.row("groups", &[], groups);
        let name = "group_messages_total";
        page.family(name, "counter", "Messages of IGMP and MLD, and memberships without room");
        let rows = [
            ("query", counters.queries),
            ("report", counters.reports),
            ("malformed", counters.malformed),
            ("no_room", counters.refused),
        ];
        for (kind, count) in rows {
            page.row(name, &[("kind", kind)], count);
        }
    }
    if let Some(capture) = &status.capture {
        page.family("captured_packets_total", "counter", "Frames recorded");
        page.row("captured_packets_total", &[], capture.frames);
        let name = "uncaptured_packets_total";
        page.family(name, "counter", "Frames not recorded: beyond the limit, or the disk was slow");
        page.row(name, &[("reason", "limit")], capture.beyond_limit);
        page.row(name, &[("reason", "disk_slow")], capture.missed);
    }
    page.text
}

fn of_ports(page: &mut Page<'_>) {
    page.by_port("received_packets_total", "counter", "Frames that came in", |port| port.received);
    page.by_port("received_bytes_total", "counter", "Bytes that came in", |port| {
        port.received_bytes
    });
    page.by_port("sent_packets_total", "counter", "Frames sent", |port| port.sent);
    page.by_port("sent_bytes_total", "counter", "Bytes sent", |port| port.sent_bytes);
    let name = "dropped_packets_total";
    page.family(name, "counter", "Frames dropped, on the way in or on the way out");
    for (interface, port) in &page.status.ports {
        let reasons = [
            ("ring_full", port.overrun),
            ("unlike_wire", port.unlike),
            ("wrong_vlan", port.wrong_vlan),
            ("thread_slow", port.not_handed_over),
            ("queue_full", port.dropped()),
            ("control_queue_full", port.dropped_control()),
            ("interface_refused", port.refused),
        ];
        for (reason, count) in reasons {
            page.row(name, &[("port", interface), ("reason", reason)], count);
        }
    }
    let help = "Frames not sent because their destination is where they came from";
    page.by_port("filtered_packets_total", "counter", help, |port| port.filtered);
    let help = "The most data frames that ever waited";
    page.by_port("queue_packets_max", "gauge", help, |port| port.longest.into());
}

fn of_queues(page: &mut Page<'_>) {
    let help = "Frames that left the queue";
    page.by_queue("queue_sent_packets_total", "counter", help, |queue| queue.sent);
    let help = "Bytes that left the queue";
    page.by_queue("queue_sent_bytes_total", "counter", help, |queue| queue.sent_bytes);
    let help = "Frames of the queue's class that were trimmed to their headers";
    page.by_queue("trimmed_packets_total", "counter", help, |queue| queue.trimmed);
    let help = "Frames marked (ECN congestion experienced)";
    page.by_queue("marked_packets_total", "counter", help, |queue| queue.marked);
    let help = "Frames dropped because the queue was full";
    page.by_queue("queue_dropped_packets_total", "counter", help, |queue| queue.dropped);
    let help = "Bytes that wait, as on the wire";
    page.by_queue("queue_bytes", "gauge", help, |queue| queue.bytes);
    let help = "The most bytes that ever waited, as on the wire";
    page.by_queue("queue_bytes_max", "gauge", help, |queue| queue.most_bytes);
}

/// A page of metrics that is being written.
struct Page<'a> {
    text: String,
    status: &'a SwitchStatus,
}

impl Page<'_> {
    fn by_port(&mut self, name: &str, kind: &str, help: &str, value: fn(&PortCounters) -> u64) {
        self.family(name, kind, help);
        for (interface, port) in &self.status.ports {
            self.row(name, &[("port", interface)], value(port));
        }
    }

    fn by_queue(&mut self, name: &str, kind: &str, help: &str, value: fn(&QueueCounters) -> u64) {
        self.family(name, kind, help);
        for (interface, port) in &self.status.ports {
            let used = usize::from(self.status.data_queues) + 1;
            for (number, queue) in port.queues.iter().enumerate().take(used) {
                let priority = priority(number);
                self.row(name, &[("port", interface), ("priority", &priority)], value(queue));
            }
        }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP wellspring_switch_{name} {help}.");
        let _ = writeln!(self.text, "# TYPE wellspring_switch_{name} {kind}");
    }

    fn row(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "wellspring_switch_{name}");
        for (i, (label, of)) in labels.iter().enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escape(of));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }
}

/// The name of a queue: `control`, or the priority of a data queue from 1 on.
pub fn priority(number: usize) -> String {
    if number == 0 { "control".to_owned() } else { number.to_string() }
}

/// The value of a label: interfaces may have quotes in their names.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::recorder::CaptureStatus;
    use super::super::snooping::SnoopingCounters;
    use super::*;

    #[test]
    fn each_port_and_queue_has_its_rows() {
        let mut port = PortCounters { received: 5, overrun: 2, ..PortCounters::default() };
        port.queues[0].dropped = 3;
        port.queues[2].trimmed = 7;
        let ports = vec![("a".to_owned(), port), ("b\"".to_owned(), PortCounters::default())];
        let page = to_prometheus(&SwitchStatus {
            ports,
            data_queues: 2,
            stations: 4,
            snooping: Some((3, SnoopingCounters { malformed: 6, ..Default::default() })),
            capture: Some(CaptureStatus { missed: 8, ..Default::default() }),
        });
        for line in [
            "wellspring_switch_received_packets_total{port=\"a\"} 5",
            "wellspring_switch_received_packets_total{port=\"b\\\"\"} 0",
            "wellspring_switch_dropped_packets_total{port=\"a\",reason=\"ring_full\"} 2",
            "wellspring_switch_dropped_packets_total{port=\"a\",reason=\"control_queue_full\"} 3",
            "wellspring_switch_trimmed_packets_total{port=\"a\",priority=\"2\"} 7",
            "wellspring_switch_queue_bytes{port=\"a\",priority=\"control\"} 0",
            "wellspring_switch_stations 4",
            "wellspring_switch_groups 3",
            "wellspring_switch_uncaptured_packets_total{reason=\"disk_slow\"} 8",
            "wellspring_switch_group_messages_total{kind=\"malformed\"} 6",
        ] {
            assert!(page.lines().any(|row| row == line), "no {line} in:\n{page}");
        }
        assert!(!page.contains("priority=\"3\""), "{page}");
        let families: Vec<&str> = page.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let mut once = families.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), families.len());
    }
}
