//! Metrics of an appliance, and the dashboard and the alert rules of packaging/ that use them; what an appliance says
//! to systemd. Needs root, iproute2 and nftables; without root it says so and passes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::lab::{self, Lab, NO_LOSS, PATIENCE, WELLSPRING};

/// The test that is the program that scrapes.
const HOST: &str = concat!(module_path!(), "::program_that_scrapes");
const METRICS: &str = "127.0.0.1:9714";
const PREFIX: &str = "wellspring_maelstrom_";
/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["instance", "job"];
/// Scrapes at a time.
const TOGETHER: usize = 40;

/// Scrapes an appliance in its namespace, many times at once, and prints what the last one gave.
#[test]
#[ignore = "no test: the tests of this file start it as a host"]
fn program_that_scrapes() {
    lab::role();
    let ask = || {
        let mut stream = TcpStream::connect(METRICS).expect("connected");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("written");
        stream
    };
    // None of them reads before all have asked.
    let streams: Vec<TcpStream> = (0..TOGETHER).map(|_| ask()).collect();
    let mut page = String::new();
    for mut stream in streams.into_iter().rev() {
        page.clear();
        stream.read_to_string(&mut page).expect("answered");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    }
    println!("{page}");
}

/// Series by name: of each label the values that there are.
type Series = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// `name="value",...`.
fn labels(text: &str) -> Vec<(&str, &str, &str)> {
    let parts = text.split("\",").filter_map(label_text).filter_map(move |part| {
        let (name, rest) = part.split_at(part.find(['=', '!'])?);
        let (operator, value) = rest.split_once('"')?;
        Some((name, operator, value.trim_end_matches('"')))
    });
    parts.collect()
}

fn label_text(part: &str) -> Option<&str> {
    Some(part.trim()).filter(|part| !part.is_empty())
}

fn series(page: &str, all: &mut Series) {
    for line in page.lines().filter(|line| line.starts_with(PREFIX)) {
        let (name, rest) = line.split_once('{').expect("labels");
        let (text, _) = rest.rsplit_once('}').expect("labels");
        let known = all.entry(name.to_owned()).or_default();
        for (label, _, value) in labels(text) {
            known.entry(label.to_owned()).or_default().insert(value.to_owned());
        }
    }
}

/// Checks that an expression names series, labels and values that there are; gives back the labels of what it names.
fn check(expression: &str, series: &Series, named: &mut BTreeSet<String>) -> BTreeSet<String> {
    let mut known: BTreeSet<String> = ADDED.map(str::to_owned).into();
    for (at, _) in expression.match_indices(PREFIX) {
        let text = &expression[at..];
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let there = series.get(name).unwrap_or_else(|| panic!("no metric {name}: {expression}"));
        named.insert(name.to_owned());
        known.extend(there.keys().cloned());
        let Some((matchers, _)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'))
        else {
            continue;
        };
        for (label, operator, value) in labels(matchers) {
            if ADDED.contains(&label) {
                continue;
            }
            let values = there.get(label).unwrap_or_else(|| panic!("{name} has no label {label}"));
            let exact = matches!(operator, "=" | "!=") && !value.contains('$');
            assert!(!exact || values.contains(value), "{name} has no {label} {value}: {values:?}");
        }
    }
    known
}

/// Labels that a text shows, between those marks.
fn shown<'a>(text: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| Some(rest.split_once(after)?.0.trim())).collect()
}

fn packaging(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path);
    std::fs::read_to_string(path).expect("a file of packaging/")
}

#[test]
fn the_dashboard_and_the_alerts_name_what_appliances_export() {
    if Command::new("nft").arg("--version").output().is_err() {
        return lab::skip("split mode needs nft, of nftables");
    }
    let Some(mut lab) = Lab::new(NO_LOSS) else { return };
    // One of a site's appliances, and one in split mode: what one has the other cannot.
    let shares =
        ["--failover-listen", "127.0.0.1:4801", "--failover-peer", "127.0.0.1:4802", "--metrics"];
    lab.start_appliance_with("aa", "aa", "10.82.0.2", &[&shares[..], &[METRICS]].concat());
    let split = ["--mode", "split", "--remote", "10.82.1.0/24", "--partitions", "2", "--metrics"];
    lab.start_appliance_with("ab", "ab", "10.82.0.1", &[&split[..], &[METRICS]].concat());
    lab.wait_for_peers();
    lab.wait_until("a load that is known", |lab| {
        lab.status("aa").pointer("/failover/appliances/1/alive") == Some(&Value::Bool(false))
    });
    let mut exported = Series::new();
    for part in ["aa", "ab"] {
        let output = lab.host(HOST, part, "scrape").wait_with_output().expect("scraped");
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{page}");
        series(&page, &mut exported);
    }
    assert!(exported.len() > 30, "{exported:?}");

    let dashboard: Value =
        serde_json::from_str(&packaging("grafana/maelstrom.json")).expect("JSON");
    let mut named = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("an expression");
            let known = check(expression, &exported, &mut named);
            for label in shown(target["legendFormat"].as_str().expect("a legend"), "{{", "}}") {
                assert!(known.contains(label), "no label {label}: {expression}");
            }
        }
    }
    assert!(named.len() > 20, "{named:?}");
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        if let Some(query) = variable["query"]["query"].as_str() {
            check(query, &exported, &mut named);
        }
    }

    let alerts = packaging("prometheus/maelstrom-alerts.yml");
    let mut rules = 0;
    for rule in alerts.split("- alert: ").skip(1) {
        let (_, rest) = rule.split_once("expr:").expect("an expression");
        let (expression, rest) = rest.split_once("\n        for:").expect("how long");
        let known = check(expression, &exported, &mut named);
        for label in shown(rest, "{{ $labels.", "}}") {
            assert!(known.contains(label), "no label {label}: {expression}");
        }
        rules += 1;
    }
    assert_eq!(rules, alerts.matches("summary:").count());
}

#[test]
fn systemd_hears_of_an_appliance_that_is_alive() {
    let Some(mut lab) = Lab::new(NO_LOSS) else { return };
    let path = lab.path("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(PATIENCE)).expect("set");
    let heard = || {
        let mut buffer = [0; 64];
        let len = manager.recv(&mut buffer).expect("said within the time that a test waits");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    // As systemd starts it, with a tenth of the unit's limit.
    let (socket, limit) = (format!("NOTIFY_SOCKET={path}"), "WATCHDOG_USEC=1000000");
    let (key, folder) = (lab.path("key"), lab.path(""));
    let options = format!(
        "maelstrom up --lan lan --wan wan --peer 10.82.0.2 --key {key} --run-dir {folder} --name aa"
    );
    let mut command = vec![&*socket, limit, WELLSPRING];
    command.extend(options.split(' '));
    lab.start_program("aa", "aa", "env", &command);
    assert_eq!(heard(), "READY=1");
    for _ in 0..3 {
        assert_eq!(heard(), "WATCHDOG=1");
    }
    lab.down("aa");
    let mut last = heard();
    while last == "WATCHDOG=1" {
        last = heard();
    }
    assert_eq!(last, "STOPPING=1");
}
