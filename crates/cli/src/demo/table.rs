//! Result table of the demo.

use serde_json::Value;
use wellspring_console::output::table;
use wellspring_console::units::{bit_rate, bytes, percent};

pub fn closing(size: u64, loss: f64, get: &Value, put: &Value) -> String {
    let mut text = String::new();
    let head = ["", "get from 3", "put to 3 (multicast)"];
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let count = |value: &Value| value.as_u64().map_or("-".to_owned(), |n| n.to_string());
    let both = |name: &str, shown: &dyn Fn(&Value) -> String, g: &str, p: &str| {
        vec![name.to_owned(), shown(&get[g]), shown(&put[p])]
    };
    let rate = |value: &Value| bit_rate(number(value));
    let part = |value: &Value| percent(number(value));
    let time = |value: &Value| format!("{:.2} s", number(value));
    let received: Vec<&Value> = put["received"].as_array().into_iter().flatten().collect();
    let over_receivers = |key: &str| {
        let counts: Vec<String> = received.iter().map(|r| count(&r[key])).collect();
        counts.join(" / ")
    };
    let rows = vec![
        head.map(str::to_owned).to_vec(),
        vec!["object".to_owned(), bytes(size), bytes(size)],
        vec!["loss injected".to_owned(), percent(loss), percent(0.0)],
        both("time", &time, "seconds", "seconds_to_quorum"),
        both("goodput", &rate, "goodput_bits_per_second", "goodput_bits_per_second"),
        both("symbols needed", &count, "symbols_needed", "symbols_needed"),
        both("symbols sent", &count, "symbols_asked", "symbols_sent"),
        vec![
            "sent beyond need".to_owned(),
            beyond(get, "symbols_asked"),
            beyond(put, "symbols_sent"),
        ],
        vec!["used beyond need".to_owned(), beyond(get, "symbols_useful"), "-".to_owned()],
        vec![
            "blocks decoded".to_owned(),
            count(&get["blocks_decoded"]),
            over_receivers("blocks_decoded"),
        ],
        vec![
            "blocks decode-free".to_owned(),
            count(&get["blocks_decode_free"]),
            over_receivers("blocks_decode_free"),
        ],
        vec![
            "dropped at full sockets".to_owned(),
            "-".to_owned(),
            over_receivers("datagrams_dropped"),
        ],
    ];
    text.push_str(&table(&rows));
    text.push('\n');
    let mut rows =
        vec![["replica", "share", "symbols", "lost", "state"].map(str::to_owned).to_vec()];
    for replica in get["replicas"].as_array().into_iter().flatten() {
        let state = replica["state"].as_str().unwrap_or("?");
        let state = match replica["reason"].as_str() {
            Some(reason) => format!("{state}: {reason}"),
            None => state.to_owned(),
        };
        rows.push(vec![
            replica["host"].as_str().unwrap_or("?").to_owned(),
            part(&replica["share"]),
            count(&replica["symbols_useful"]),
            count(&replica["symbols_lost"]),
            state,
        ]);
    }
    text.push_str(&table(&rows));
    text.push('\n');
    let mut rows = vec![["receiver", "after", "state"].map(str::to_owned).to_vec()];
    for receiver in put["receivers"].as_array().into_iter().flatten() {
        rows.push(vec![
            receiver["host"].as_str().unwrap_or("?").to_owned(),
            time(&receiver["seconds"]),
            match (receiver["state"].as_str().unwrap_or("?"), receiver["detached_because"].as_str())
            {
                (state, Some(cause)) => format!("{state}, by unicast in the end: {cause}"),
                (state, None) => state.to_owned(),
            },
        ]);
    }
    text.push_str(&table(&rows));
    text.push_str(
        "\nsent beyond need: symbols sent beyond the object's own, for whatever reason (loss, the killed\n\
         replica, a receiver that went on by unicast, symbols under way at the end);\n\
         used beyond need: symbols that decoding took beyond them",
    );
    text
}

/// Symbols beyond those needed, and their part of these.
fn beyond(transfer: &Value, key: &str) -> String {
    match (transfer[key].as_i64(), transfer["symbols_needed"].as_i64()) {
        (Some(count), Some(needed)) if needed > 0 => {
            let beyond = count - needed;
            format!("{beyond} ({})", percent(beyond as f64 / needed as f64))
        }
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_group_was_sent_too_much_is_in_the_table() {
        let get = json!({"symbols_needed": 1_000, "symbols_asked": 1_060, "symbols_useful": 1_010});
        let receiver = json!({"host": "a", "seconds": 1.0, "state": "complete",
            "detached_because": "silent for 1000 ms"});
        let put = json!({"symbols_needed": 1_000, "symbols_sent": 2_070, "receivers": [receiver]});
        let text = closing(1_376_000, 0.05, &get, &put);
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).expect("a row");
        assert!(row("sent beyond need").contains("60 (6.0 %)"), "{text}");
        assert!(row("sent beyond need").contains("1070 (107.0 %)"), "{text}");
        assert!(row("used beyond need").contains("10 (1.0 %)"), "{text}");
        assert!(text.contains("complete, by unicast in the end: silent"), "{text}");
    }
}
