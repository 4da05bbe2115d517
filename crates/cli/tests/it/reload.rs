//! Settings of a server that are read again.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use crate::operation::{configured, http, write_config};
use crate::support::{Place, Server, Transfer, object_at, random_bytes, run, text};

#[test]
fn a_reload_names_what_needs_a_restart() {
    let place = Place::new();
    let server = Server::start(configured(&place, "max-puts = 5\nrate = \"1M\""));
    let reloaded = |lines: &str| {
        write_config(&place, lines);
        server.signal(Signal::HUP);
        server.wait_for("reloaded")["needs_restart"].clone()
    };
    assert_eq!(reloaded("max-puts = 5\nrate = \"1M\""), json!([]), "nothing has changed");
    let live =
        "max-puts = 5\nallow-put = true\nallow-hidden = true\naddress-quota = \"max-files=9\"";
    assert_eq!(reloaded(live), json!([]), "all of it changes at once");
    let both = "max-puts = 6\nallow-put = true\nkeep-free = \"1G\"\ngroups = [\"239.1.2.3\"]";
    assert_eq!(reloaded(both), json!(["groups", "keep-free", "max-puts"]));
    assert_eq!(reloaded(both), json!(["groups", "keep-free", "max-puts"]), "still not in force");
    assert_eq!(reloaded("max-puts = 5"), json!([]), "as it was started");
}

#[test]
fn another_address_to_listen_at_needs_a_restart() {
    let place = Place::new();
    let mut command = configured(&place, "");
    command.stderr(Stdio::piped());
    let mut server = Server::start(command);
    let file = place.path("wellspring.toml");
    let other = std::fs::read_to_string(&file).expect("read").replace("127.0.0.1:0", "127.0.0.2:0");
    std::fs::write(&file, other).expect("written");
    server.signal(Signal::HUP);
    assert_eq!(server.wait_for("reloaded")["needs_restart"], json!(["bind"]));
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let said = server.said();
    assert!(said.contains("a restart is needed for bind"), "{said}");
}

#[test]
fn the_quota_of_addresses_changes_at_once() {
    let place = Place::new();
    place.dir("a");
    let server = Server::start(configured(&place, "allow-put = true"));
    let object = place.path("object");
    std::fs::write(&object, random_bytes(5_000, 1)).expect("written");
    let to = |name: &str| format!("{}/{name}", server.address);
    run(&["put", text(&object), &to("one")]).success();
    write_config(&place, "allow-put = true\naddress-quota = \"max-bytes=1K\"");
    server.signal(Signal::HUP);
    server.wait_for("reloaded");
    let refused = run(&["put", text(&object), &to("two")]);
    assert!(refused.code != Some(0) && refused.text.contains("max-bytes"), "{refused:?}");
    assert!(!place.path("a/two").exists());
    write_config(&place, "allow-put = true");
    server.signal(Signal::HUP);
    server.wait_for("reloaded");
    run(&["put", text(&object), &to("two")]).success();
}

#[test]
fn a_time_zone_that_is_not_known_is_told() {
    let place = Place::new();
    place.dir("a");
    for (zone, rate, warns) in [
        ("Asia/Tokio", "1M; 22:00-06:00 none", true),
        ("Asia/Tokio", "1M", false),
        ("Asia/Tokyo", "1M; 22:00-06:00 none", false),
    ] {
        let mut command = configured(&place, &format!("rate = \"{rate}\""));
        command.env("TZ", zone).stderr(Stdio::piped());
        let mut server = Server::start(command);
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        let said = server.said();
        assert_eq!(said.contains("time zone is not known"), warns, "{zone} {rate}: {said}");
    }
}

#[test]
fn puts_come_no_faster_than_they_are_allowed_to_and_that_is_read_again() {
    let place = Place::new();
    place.dir("a");
    let object = place.path("object");
    std::fs::write(&object, random_bytes(4_000_000, 2)).expect("written");
    // All day long as slow: the put would take minutes.
    let slow = "receive-rate = \"none; 00:00-12:00 100k; 12:00-24:00 100k\"";
    let server = Server::start(configured(&place, &format!("allow-put = true\n{slow}")));
    let put = Transfer::start(&["put", text(&object), &server.address.to_string()]);
    server.wait_for("receiving");
    let other = place.serve(&place.dir("b"), &["--allow-put"]);
    run(&["put", text(&object), &other.address.to_string()]).success();
    assert!(!place.path("a/object").exists(), "as fast as without a limit");
    write_config(&place, "allow-put = true");
    server.signal(Signal::HUP);
    let reloaded = server.wait_for("reloaded");
    assert_eq!((&reloaded["receive_rate"], &reloaded["needs_restart"]), (&json!(null), &json!([])));
    put.end().success();
    assert!(std::fs::read(place.path("a/object")).expect("read") == random_bytes(4_000_000, 2));
    write_config(&place, "allow-put = true\nreceive-rate = \"30M\"");
    server.signal(Signal::HUP);
    assert_eq!(server.wait_for("reloaded")["receive_rate"], 30_000_000);
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_of_several_event_loops_keeps_its_settings_if_they_have_a_rate() {
    let place = Place::new();
    let bytes = random_bytes(2_000_000, 6);
    place.replica("a", &bytes);
    let server = Server::start(configured(&place, "loops = 3\nallow-put = true"));
    let out = place.path("out");
    run(&["get", &object_at(&[&server]), "-o", text(&out)]).success();
    assert!(std::fs::read(&out).expect("read") == bytes, "other bytes");
    run(&["put", text(&out), &server.address.to_string(), "--name", "again"]).success();
    let sent = http(&server, "GET /metrics").1;
    let sent = sent.lines().find_map(|line| line.strip_prefix("wellspring_sent_bytes_total "));
    let sent: f64 = sent.expect("a metric").parse().expect("a number");
    assert!(sent > 2_000_000.0, "of all loops: {sent}");
    let failed = |lines: &str| {
        write_config(&place, lines);
        server.signal(Signal::HUP);
        server.wait_for("reload_failed")["reason"].as_str().expect("text").to_owned()
    };
    let reason = failed("loops = 3\nrate = \"none; 00:00-12:00 none; 12:00-24:00 1G\"");
    assert!(reason.contains("--rate needs --loops 1"), "{reason}");
    let reason = failed("loops = 1\nrate = \"1G\"");
    assert!(reason.contains("several event loops has no send rate"), "{reason}");
    write_config(&place, "loops = 2");
    server.signal(Signal::HUP);
    assert_eq!(server.wait_for("reloaded")["needs_restart"], json!(["loops"]));
}
