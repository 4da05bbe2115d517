//! `--ui` on a terminal.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use wellspring_testkit::wait::wait_until;

use crate::support::{Place, program, random_bytes, text};
use crate::terminal::OnTerminal;

/// The program, whose standard error is a terminal.
fn ui(args: &[&str]) -> OnTerminal {
    OnTerminal::start(args, |command: &mut Command, terminal| {
        command.stdout(Stdio::null()).stderr(terminal());
    })
}

#[test]
fn a_fetch_has_a_row_for_each_host_and_leaves_the_terminal_as_it_was() {
    let place = Place::new();
    let bytes = random_bytes(6_000_000, 1);
    let served = place.replica("served", &bytes);
    let servers = [(); 2].map(|()| place.serve(&served, &["--rate", "100M"]));
    let hosts = servers.each_ref().map(|server| server.address.to_string());
    let (from, to) = (format!("{}/object", hosts.join(",")), place.path("here"));
    let fetch = ui(&["get", &from, "-o", text(&to), "--ui"]);
    let (code, view, behind) = fetch.end();
    assert_eq!(code, Some(0), "{behind}");
    for shown in [&hosts[0], &hosts[1], "share", "sends", "bit/s", "blocks", "█"] {
        assert!(view.contains(shown), "no {shown} in {view:?}");
    }
    assert!(behind.contains("6.0 MB"), "the summary: {behind}");
    assert_eq!(std::fs::read(&to).expect("read"), bytes);
}

#[test]
fn an_interrupted_put_gives_the_terminal_back() {
    let place = Place::new();
    let server = place.serve(&place.dir("taken"), &["--allow-put"]);
    std::fs::write(place.path("object"), random_bytes(5_000_000, 2)).expect("write");
    let (file, host) = (place.path("object"), server.address.to_string());
    let slow = ["--inject-send-rate", "200k", "--ui"];
    let put = ui(&[&["put", text(&file), &host][..], &slow].concat());
    wait_until(|| "no view of a receiver".to_owned(), || put.has_shown("receives"));
    put.signal(Signal::INT);
    let (code, view, behind) = put.end();
    assert_eq!(code, Some(130), "{behind}");
    assert!(view.contains(&host), "{view:?}");
    assert!(behind.contains("interrupted"), "{behind}");
}

#[test]
fn a_view_needs_a_terminal() {
    let output = program().args(["get", "127.0.0.1:1/x", "-o", "x", "--ui"]).output();
    let output = output.expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("not a terminal") && said.contains("--json-progress"), "{said}");
}
