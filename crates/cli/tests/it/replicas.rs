//! Replicas that die, stall, restart and come late.

use crate::support::{
    Place, Server, Transfer, listing, object_at, program, random_bytes, run, text,
};

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
    assert_eq!(listing(&out).len(), 1, "what had arrived");
    assert!(program().args(["clean", text(&out)]).status().expect("run").success());
    assert_eq!(listing(&out), [""; 0]);
}

#[test]
fn what_a_killed_fetch_of_a_range_leaves_is_cleaned_away() {
    let place = Place::new();
    let a = place.serve(&place.replica("a", &random_bytes(LEN, 12)), SLOW);
    let (from, out) = (object_at(&[&a]), place.dir("out"));
    let file = out.join("tail");
    let get = Transfer::start(&["get", "--range", "1000-", &from, "-o", text(&file)]);
    get.wait_for_part(0.2);
    let cleaned = || program().args(["clean", text(&out)]).output().expect("run").stdout;
    assert!(cleaned().starts_with(b"0 part files"), "it is being written");
    assert_eq!(listing(&out).len(), 1);
    get.kill();
    assert!(cleaned().starts_with(b"1 part file removed"));
    assert_eq!(listing(&out), [""; 0]);
}

#[test]
fn a_file_that_changes_under_its_transfer_is_not_delivered() {
    let place = Place::new();
    let bytes = random_bytes(LEN, 9);
    let dir = place.replica("a", &bytes);
    let a = place.serve(&dir, SLOW);
    let out = place.dir("out");
    let from = object_at(&[&a]);
    let get = Transfer::start(&["get", &from, "-o", text(&out), "--timeout", "2", "--no-resume"]);
    get.wait_for_part(0.2);
    std::fs::write(dir.join("object"), random_bytes(LEN, 10)).expect("write");
    let ended = get.end();
    assert_eq!(ended.code, Some(6), "{ended:#?}");
    assert_eq!(listing(&out), [""; 0]);
}

#[test]
fn an_interrupted_fetch_leaves_nothing_if_it_is_not_to_be_resumed() {
    let place = Place::new();
    let a = place.serve(&place.replica("a", &random_bytes(LEN, 11)), SLOW);
    let out = place.dir("out");
    let get = Transfer::start(&["get", &object_at(&[&a]), "-o", text(&out), "--no-resume"]);
    get.wait_for_part(0.2);
    assert_eq!(listing(&out).len(), 1, "the part file");
    get.interrupt();
    let ended = get.end();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert_eq!(listing(&out), [""; 0]);
    a.wait_for("send_failed");
}

#[test]
fn a_fetch_that_is_killed_or_interrupted_goes_on_from_there() {
    let place = Place::new();
    let bytes = random_bytes(LEN, 12);
    let a = place.serve(&place.replica("a", &bytes), SLOW);
    for is_killed in [true, false] {
        let out = place.dir(if is_killed { "killed" } else { "interrupted" });
        let get = Transfer::start(&["get", &object_at(&[&a]), "-o", text(&out)]);
        get.wait_for_part(0.5);
        if is_killed {
            get.kill();
        } else {
            get.interrupt();
            let ended = get.end();
            assert_eq!(ended.code, Some(130), "{ended:#?}");
            assert!(ended.text.contains("run it again"), "{}", ended.text);
        }
        assert_eq!(listing(&out).len(), 1, "the part file");
        let got = run(&["get", &object_at(&[&a]), "-o", text(&out)]).success();
        assert!(std::fs::read(out.join("object")).expect("read") == bytes);
        assert_eq!(listing(&out), ["object"]);
        let count = |key: &str| got.summary[key].as_u64().expect("a number");
        let (resumed, needed) = (count("bytes_resumed"), count("symbols_needed"));
        // No more than a hundredth of the half that was there is fetched again.
        assert!(resumed >= LEN as u64 / 2 * 99 / 100, "{:#}", got.summary);
        assert!(needed <= (LEN as u64 - resumed).div_ceil(128 << 10) * 96, "{:#}", got.summary);
    }
}
