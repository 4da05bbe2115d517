//! Replicas that die, stall, restart and come late.

mod support;

use support::{Place, Server, Transfer, listing, object_at, random_bytes, text};

/// Slow enough that something can happen half way.
const SLOW: &[&str] = &["--inject-send-rate", "40M"];
const LEN: usize = 12_000_000;

fn three(place: &Place, bytes: &[u8]) -> [Server; 3] {
    ["a", "b", "c"].map(|name| place.serve(&place.replica(name, bytes), SLOW))
}

#[test]
fn all_but_one_may_die() {
    let place = Place::new();
    let bytes = random_bytes(LEN, 1);
    let [a, mut b, mut c] = three(&place, &bytes);
    let out = place.path("out");
    let get = Transfer::start(&[
        "get",
        &object_at(&[&a, &b, &c]),
        "-o",
        text(&out),
        "--inject-loss",
        "0.02",
        // Less than what is left takes one server alone.
        "--timeout",
        "1",
    ]);
    get.wait_for_part(0.1);
    b.kill();
    get.wait_for_part(0.2);
    c.kill();
    let got = get.end().success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
    let states: Vec<_> = (0..3).map(|i| got.summary["replicas"][i]["state"].clone()).collect();
    assert_eq!(states, ["served", "lost", "lost"], "{:#}", got.summary);
}

#[test]
fn a_replica_that_stalls_is_gone_on_without() {
    let place = Place::new();
    let bytes = random_bytes(LEN, 2);
    let [a, b, c] = three(&place, &bytes);
    let out = place.path("out");
    let get =
        Transfer::start(&["get", &object_at(&[&a, &b, &c]), "-o", text(&out), "--timeout", "2"]);
    get.wait_for_part(0.2);
    b.pause();
    get.end().success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
}

#[test]
fn a_replica_that_stalls_and_goes_on_is_won_back() {
    let place = Place::new();
    let bytes = random_bytes(LEN, 3);
    let a = place.serve(&place.replica("a", &bytes), &["--inject-send-rate", "15M"]);
    let b = place.serve(&place.replica("b", &bytes), &["--inject-send-rate", "15M"]);
    let out = place.path("out");
    let get = Transfer::start(&["get", &object_at(&[&a, &b]), "-o", text(&out), "--timeout", "3"]);
    get.wait_for_part(0.1);
    b.pause();
    let lost = get.wait_for_event("lost");
    assert_eq!(lost["host"], b.address.to_string());
    b.resume();
    get.wait_for_event("back");
    get.end().success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
}

#[test]
fn a_replica_that_restarts_is_won_back() {
    let place = Place::new();
    let bytes = random_bytes(LEN, 4);
    let slow = ["--inject-send-rate", "15M"];
    let a = place.serve(&place.replica("a", &bytes), &slow);
    let dir = place.replica("b", &bytes);
    let mut b = place.serve(&dir, &slow);
    let out = place.path("out");
    let get = Transfer::start(&["get", &object_at(&[&a, &b]), "-o", text(&out), "--timeout", "2"]);
    get.wait_for_part(0.1);
    b.kill();
    let b = place.serve_at(&dir, &b.address.to_string(), &slow);
    let back = get.wait_for_event("back");
    assert_eq!(back["host"], b.address.to_string());
    let got = get.end().success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
    assert_eq!(got.summary["replicas"][1]["returns"], 1, "{:#}", got.summary);
    b.wait_for("sending");
}

#[test]
fn a_replica_that_restarts_with_other_bytes_is_not_used_again() {
    let place = Place::new();
    let bytes = random_bytes(LEN, 5);
    let a = place.serve(&place.replica("a", &bytes), SLOW);
    let dir = place.replica("b", &bytes);
    let mut b = place.serve(&dir, SLOW);
    let out = place.path("out");
    let get = Transfer::start(&["get", &object_at(&[&a, &b]), "-o", text(&out), "--timeout", "2"]);
    get.wait_for_part(0.1);
    b.kill();
    std::fs::write(dir.join("object"), random_bytes(LEN, 6)).expect("write");
    let _b = place.serve_at(&dir, &b.address.to_string(), SLOW);
    let got = get.end().success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
    let reason = got.summary["replicas"][1]["reason"].as_str().expect("a reason");
    assert!(reason.contains("holds other bytes now"), "{reason}");
}

#[test]
fn a_replica_that_comes_late_joins() {
    let place = Place::new();
    let bytes = random_bytes(LEN, 7);
    let slow = ["--inject-send-rate", "15M"];
    let a = place.serve(&place.replica("a", &bytes), &slow);
    let dir = place.replica("b", &bytes);
    let mut b = place.serve(&dir, &slow);
    let address = b.address.to_string();
    b.kill();
    let out = place.path("out");
    let get = Transfer::start(&["get", &object_at(&[&a, &b]), "-o", text(&out), "--timeout", "2"]);
    get.wait_for_part(0.05);
    let _b = place.serve_at(&dir, &address, &slow);
    get.wait_for_event("back");
    let got = get.end().success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
    let useful = got.summary["replicas"][1]["symbols_useful"].as_u64();
    assert!(useful > Some(0), "{:#}", got.summary);
}

#[test]
fn with_no_replica_left_it_says_so() {
    let place = Place::new();
    let bytes = random_bytes(LEN, 8);
    let [mut a, mut b, mut c] = three(&place, &bytes);
    let out = place.dir("out");
    let get =
        Transfer::start(&["get", &object_at(&[&a, &b, &c]), "-o", text(&out), "--timeout", "2"]);
    get.wait_for_part(0.2);
    [&mut a, &mut b, &mut c].into_iter().for_each(Server::kill);
    let ended = get.end();
    assert_eq!(ended.code, Some(6), "{ended:#?}");
    assert!(ended.text.contains("no replica is left"), "{}", ended.text);
    assert_eq!(listing(&out), [""; 0]);
}

#[test]
fn a_file_that_changes_under_its_transfer_is_not_delivered() {
    let place = Place::new();
    let bytes = random_bytes(LEN, 9);
    let dir = place.replica("a", &bytes);
    let a = place.serve(&dir, SLOW);
    let out = place.dir("out");
    let get = Transfer::start(&["get", &object_at(&[&a]), "-o", text(&out), "--timeout", "2"]);
    get.wait_for_part(0.2);
    std::fs::write(dir.join("object"), random_bytes(LEN, 10)).expect("write");
    let ended = get.end();
    assert_eq!(ended.code, Some(6), "{ended:#?}");
    assert_eq!(listing(&out), [""; 0]);
}

#[test]
fn an_interrupted_fetch_leaves_nothing() {
    let place = Place::new();
    let a = place.serve(&place.replica("a", &random_bytes(LEN, 11)), SLOW);
    let out = place.dir("out");
    let get = Transfer::start(&["get", &object_at(&[&a]), "-o", text(&out)]);
    get.wait_for_part(0.2);
    assert_eq!(listing(&out).len(), 1, "the part file");
    get.interrupt();
    let ended = get.end();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert_eq!(listing(&out), [""; 0]);
    a.wait_for("send_failed");
}
