//! `wellspring top`, which looks at a running server.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use wellspring_testkit::loopback::own_address;
use wellspring_testkit::wait::wait_until;

use crate::operation::http;
use crate::support::{Place, Server, Transfer, object_at, program, random_bytes, signal, text};
use crate::terminal::OnTerminal;

/// A server with metrics that sends slowly, and a fetch from it.
fn busy(place: &Place) -> (Server, Transfer) {
    let served = place.replica("served", &random_bytes(3_000_000, 1));
    let server = place.serve(&served, &["--metrics", "127.0.0.1:0", "--rate", "2M"]);
    let to = place.path("here");
    let fetch = Transfer::start(&["get", &object_at(&[&server]), "-o", text(&to)]);
    server.wait_for("sending");
    (server, fetch)
}

fn metrics(server: &Server) -> String {
    server.listening["metrics"].as_str().expect("an address").to_owned()
}

fn output(args: &[&str]) -> (Option<i32>, String, String) {
    let output = program().args(args).output().expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn one_look_shows_a_fetch_as_text_and_as_json() {
    let place = Place::new();
    let (server, _fetch) = busy(&place);
    let once = ["top", &metrics(&server), "--once", "--interval", "0.5"];
    let (code, shown, said) = output(&once);
    assert_eq!(code, Some(0), "{said}");
    assert!(shown.lines().nth(1).is_some_and(|line| line.starts_with("1 fetch, 0 puts; out")));
    assert!(shown.contains("← object"), "{shown}");
    let (code, shown, said) = output(&[&once[..], &["--json"]].concat());
    assert_eq!(code, Some(0), "{said}");
    let look: Value = serde_json::from_str(&shown).expect("one object");
    assert_eq!(look["server"], server.address.to_string());
    let transfer = &look["transfers"][0];
    assert_eq!((&transfer["object"], &transfer["size"]), (&"object".into(), &3_000_000.into()));
    assert!(transfer["done"].as_u64().expect("a number") > 0, "{look}");
    assert!(transfer["rate"].as_f64().expect("a number") > 0.0, "{look}");
    assert_eq!(transfer["share"], 1.0);
}

#[test]
fn the_view_has_the_terminal_until_a_key_or_a_signal_ends_it() {
    let place = Place::new();
    let (server, _fetch) = busy(&place);
    let top = |arguments: &[&str]| {
        OnTerminal::start(arguments, |command: &mut Command, terminal| {
            command.stdin(terminal()).stdout(terminal()).stderr(terminal());
        })
    };
    let metrics = metrics(&server);
    let mut view = top(&["top", &metrics, "--interval", "0.2"]);
    for shown in ["object", "█", "bit/s", "sends", "q ends"] {
        wait_until(|| format!("no {shown}"), || view.has_shown(shown));
    }
    view.press("xq");
    let (code, _, behind) = view.end();
    // Nothing but the cursor, which is shown again.
    assert_eq!((code, behind.replace("\u{1b}[?25h", "").trim()), (Some(0), ""));
    let view = top(&["top", &metrics]);
    wait_until(|| "no view".to_owned(), || view.has_shown("q ends"));
    view.signal(Signal::TERM);
    assert_eq!(view.end().0, Some(0));
}

#[test]
fn a_server_that_ends_is_told_by_looks_that_go_on() {
    let place = Place::new();
    let (mut server, _fetch) = busy(&place);
    let metrics = metrics(&server);
    let mut command = program();
    command.args(["top", &metrics, "--json", "--interval", "0.2"]).stdout(Stdio::piped());
    let mut top = command.spawn().expect("starts");
    let lines = BufReader::new(top.stdout.take().expect("piped")).lines();
    let mut looks =
        lines.map(|line| -> Value { serde_json::from_str(&line.expect("a line")).expect("JSON") });
    let look = looks.next().expect("a look");
    assert_eq!((&look["error"], &look["sending"]), (&Value::Null, &1.into()));
    server.signal(Signal::INT);
    assert!(server.wait().success());
    assert!(looks.any(|look| look["error"].is_string()));
    signal(&top, Signal::TERM);
    assert_eq!(top.wait().expect("ends").code(), Some(130));
}

#[test]
fn what_cannot_be_looked_at_is_said_with_advice() {
    let closed = TcpListener::bind(own_address()).and_then(|port| port.local_addr());
    let closed = closed.expect("a port").to_string();
    let (code, _, said) = output(&["top", &closed, "--once"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("refused") && said.contains("--metrics"), "{said}");
    let (code, _, said) = output(&["top", &closed]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not a terminal") && said.contains("--once"), "{said}");
    // The port of transfers is none of metrics.
    let place = Place::new();
    let server = place.serve(&place.dir("served"), &[]);
    let (code, _, said) = output(&["top", &server.address.to_string(), "--once"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("--metrics"), "{said}");
}

#[test]
fn transfers_are_told_to_who_asks_by_the_address() {
    let place = Place::new();
    let server = place.serve(&place.dir("served"), &["--metrics", "127.0.0.1:0"]);
    // The test's own requests name a host.
    let (status, said) = http(&server, "GET /transfers");
    assert_eq!(status, 403, "{said}");
    assert_eq!(http(&server, "GET /metrics").0, 200);
}
