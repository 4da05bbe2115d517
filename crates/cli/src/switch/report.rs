//! Counters of a port as text and as JSON.

use serde_json::json;
use wellspring_appliance::switch::{PortCounters, priority};

/// Counters of a port as a JSON object; it has so many queues of data.
pub fn to_json(name: &str, port: &PortCounters, data_queues: u8) -> serde_json::Value {
    let queues = port.queues.iter().enumerate().take(usize::from(data_queues) + 1);
    let queues = queues.map(|(number, queue)| {
        json!({
            "priority": priority(number), "sent": queue.sent, "sent_bytes": queue.sent_bytes,
            "trimmed": queue.trimmed, "marked": queue.marked, "dropped": queue.dropped,
            "longest_bytes": queue.most_bytes,
        })
    });
    json!({
        "interface": name, "received": port.received, "received_bytes": port.received_bytes,
        "unwanted": port.unwanted(), "overrun": port.overrun, "unlike": port.unlike,
        "wrong_vlan": port.wrong_vlan, "not_handed_over": port.not_handed_over,
        "filtered": port.filtered, "sent": port.sent,
        "sent_bytes": port.sent_bytes, "refused": port.refused, "trimmed": port.trimmed(),
        "marked": port.marked(), "dropped": port.dropped(),
        "dropped_control": port.dropped_control(), "longest_queue": port.longest,
        "queues": queues.collect::<Vec<_>>(),
    })
}

/// The same in one line.
pub fn to_text(name: &str, port: &PortCounters) -> String {
    format!(
        "{name}: {} in ({} lost on the way), {} out ({} refused); of what was to leave {} trimmed, \
         {} marked, {} dropped, {} of control; {} waited at most",
        port.received,
        port.unwanted(),
        port.sent,
        port.refused,
        port.trimmed(),
        port.marked(),
        port.dropped(),
        port.dropped_control(),
        port.longest,
    )
}
