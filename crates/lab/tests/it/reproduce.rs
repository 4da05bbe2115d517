//! `wellspring-lab reproduce` on real traffic: through `lab/maelstrom`. Needs root, iproute2, iperf3,
//! util-linux and Python.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use crate::support::{program, signal, wellspring};
use rustix::process::Signal;
use serde_json::Value;
use wellspring_testkit::wait::wait_until;

/// What the lab leaves if it does not clean up: its namespaces begin with that.
fn namespaces() -> BTreeSet<String> {
    let listed = Command::new("ip").args(["netns", "list"]).output().expect("iproute2");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| name.starts_with("ml")).map(str::to_owned).collect()
}

fn reproduce(figure: &str) -> Child {
    let mut command = program();
    command.env("WELLSPRING", wellspring());
    command.args(["--quiet", "reproduce", figure, "--quick", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
}

/// The rows that came of it; none where such traffic cannot be measured.
fn rows(child: Child) -> Option<Vec<Value>> {
    let ended = child.wait_with_output().expect("ended");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&ended.stdout).expect("JSON");
    let first = rows[0]["ours"].as_str().expect("a text");
    if first.starts_with("not measured") {
        assert!(std::env::var_os("CI").is_none(), "{first}");
        eprintln!("skipped: {first}");
        return None;
    }
    Some(rows)
}

#[test]
fn figures_on_real_traffic_clean_up_whether_they_end_or_are_interrupted() {
    let before = namespaces();
    let Some(rows) = rows(reproduce("maelstrom-4.7")) else { return };
    assert_eq!(namespaces(), before);
    let memory: Vec<_> = rows.iter().filter(|row| row["verdict"] != "-").collect();
    assert_eq!(memory.len(), 2, "{rows:?}");
    for row in memory {
        assert_eq!(row["verdict"], "reproduced", "{row}");
        let megabytes: f64 = row["ours"].as_str().and_then(|t| t.parse().ok()).expect("a number");
        assert!(megabytes > 1.0, "{row}");
    }

    let mut child = reproduce("maelstrom-9");
    wait_until(|| "the lab's namespaces", || namespaces() != before);
    signal(&child, Signal::INT);
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    assert_eq!(namespaces(), before, "left behind");
}
