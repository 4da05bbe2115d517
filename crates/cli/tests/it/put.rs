//! Putting with the real binary over loopback.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;

use crate::support::{
    Place, Server, Transfer, hosts, listing, random_bytes, run, text, wait_until_empty,
};
use wellspring_testkit::wait::wait_until;

const TAKES: &[&str] = &["--allow-put", "--interface", "127.0.0.1"];

fn takers<const N: usize>(place: &Place) -> [Server; N] {
    std::array::from_fn(|i| place.serve(&place.dir(&format!("taker{i}")), TAKES))
}

fn file(place: &Place, bytes: &[u8]) -> std::path::PathBuf {
    let path = place.path("file");
    std::fs::write(&path, bytes).expect("write");
    path
}

/// A multicast group with a port nobody uses.
fn group() -> String {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = socket.local_addr().expect("bound").port();
    let [high, low] = port.to_be_bytes();
    format!("239.255.{high}.{low}:{port}")
}

#[track_caller]
fn assert_holds(dir: &Path, name: &str, bytes: &[u8]) {
    assert!(std::fs::read(dir.join(name)).expect("read") == bytes, "other bytes");
    assert_eq!(listing(dir), [name]);
}

#[test]
fn each_host_gets_the_object_by_unicast() {
    let place = Place::new();
    let bytes = random_bytes(2_000_000, 1);
    let [a, b] = &takers(&place);
    let file = file(&place, &bytes);
    let cache = place.path("cache");
    let done =
        run(&["put", text(&file), &hosts(&[a, b]), "--name", "object", "--cache", text(&cache)])
            .success();
    assert_eq!(done.summary["receivers_complete"], 2);
    // A copy for each host is needed, and no overhead.
    let needed = done.summary["symbols_needed"].as_u64().expect("a number");
    assert!(needed >= 2 * (bytes.len() as u64).div_ceil(8_192), "{}", done.summary);
    let over = done.summary["overhead_sent"].as_f64().expect("a number");
    assert!(over < 0.5, "{}", done.summary);
    for taker in ["taker0", "taker1"] {
        assert_holds(&place.path(taker), "object", &bytes);
    }
}

#[test]
fn directories_that_are_missing_there_are_made_and_go_with_an_object_that_does_not_come() {
    let place = Place::new();
    let bytes = random_bytes(300_000, 6);
    let [a, b] = &takers(&place);
    let (file, cache) = (file(&place, &bytes), place.path("cache"));
    let put = |to: &str, more: &[&str]| {
        let to = format!("{}/{to}", hosts(&[a, b]));
        run(&[&["put", text(&file), &to, "--cache", text(&cache)], more].concat())
    };
    put("sets/7b/part", &[]).success();
    let below_a_file = put("sets/7b/part/of/it", &[]);
    assert_eq!(below_a_file.code, Some(4));
    assert!(below_a_file.text.contains("is not a directory"), "{}", below_a_file.text);
    // It is longer than what the hosts take.
    let limited = place.serve(&place.dir("limited"), &[TAKES, &["--max-object", "100kB"]].concat());
    let to = format!("{}/other/object", hosts(&[&limited]));
    let too_long = run(&["put", text(&file), &to, "--cache", text(&cache)]);
    assert_eq!(too_long.code, Some(4), "{}", too_long.text);
    assert_eq!(listing(&place.path("limited")), [""; 0]);
    for taker in ["taker0", "taker1"].map(|taker| place.path(taker)) {
        assert_holds(&taker.join("sets/7b"), "part", &bytes);
        assert_eq!(listing(&taker), ["sets"]);
    }
}

#[test]
fn a_host_that_cannot_be_resolved_is_named_with_what_to_do_also_beside_one_that_takes_a_tree() {
    let place = Place::new();
    let [a] = &takers(&place);
    let tree = place.dir("tree");
    std::fs::write(tree.join("x"), b"x").expect("write");
    let cache = place.path("cache");
    let to = format!("{}/tree/", hosts(&[a]));
    let put = run(&["put", text(&tree), "none.invalid", &to, "--cache", text(&cache)]);
    assert_eq!(put.code, Some(4), "{}", put.text);
    assert!(put.text.contains("Check the spelling of the host"), "{}", put.text);
    assert_eq!(listing(&place.path("taker0")), [""; 0]);
}

#[test]
fn one_copy_by_multicast_reaches_all() {
    let place = Place::new();
    let bytes = random_bytes(4_000_000, 2);
    let [a, b, c] = &takers(&place);
    let file = file(&place, &bytes);
    let cache = place.path("cache");
    let done = run(&[
        "put",
        text(&file),
        &hosts(&[a, b, c]),
        "--group",
        &group(),
        "--interface",
        "127.0.0.1",
        "--cache",
        text(&cache),
    ])
    .success();
    for taker in ["taker0", "taker1", "taker2"] {
        assert_holds(&place.path(taker), "file", &bytes);
    }
    let needed = done.summary["symbols_needed"].as_u64().expect("a number");
    let sent = done.summary["symbols_sent"].as_u64().expect("a number");
    assert!(sent < needed * 2, "{sent} sent for {needed}: that was no multicast");
}

#[test]
fn objects_of_no_byte_and_of_one() {
    let place = Place::new();
    let [a] = &takers(&place);
    let cache = place.path("cache");
    for len in [0, 1] {
        let bytes = random_bytes(len, 3);
        let file = file(&place, &bytes);
        let name = format!("object{len}");
        run(&["put", text(&file), &hosts(&[a]), "--name", &name, "--cache", text(&cache)])
            .success();
        assert_eq!(std::fs::read(place.path("taker0").join(&name)).expect("read"), bytes);
    }
    assert_eq!(listing(&place.path("taker0")), ["object0", "object1"]);
}

#[test]
fn a_quorum_is_enough() {
    for group in [None, Some(group())] {
        put_with_a_frozen_receiver(group.as_deref());
    }
}

/// The command ends when two of three have the object: it does not wait for the third one's silence to count.
fn put_with_a_frozen_receiver(group: Option<&str>) {
    let place = Place::new();
    let bytes = random_bytes(8_000_000, 4);
    let [a, b, c] = &takers(&place);
    let file = file(&place, &bytes);
    let cache = place.path("cache");
    let all = hosts(&[a, b, c]);
    let mut arguments = vec!["put", text(&file), &all, "--quorum", "2", "--timeout", "60"];
    arguments.extend(["--inject-send-rate", "100M", "--cache", text(&cache)]);
    if let Some(group) = group {
        arguments.extend(["--group", group, "--interface", "127.0.0.1"]);
    }
    let put = Transfer::start(&arguments);
    put.wait_for_event("started");
    c.pause();
    let done = put.end().success();
    assert!(done.has_step("quorum"), "{done:#?}");
    assert_eq!(done.summary["receivers_complete"], 2);
    assert_holds(&place.path("taker0"), "file", &bytes);
    assert_holds(&place.path("taker1"), "file", &bytes);
    assert_eq!(done.summary["receivers"][2]["state"], "unfinished", "{:#}", done.summary);
    assert_eq!(done.summary["receivers"][2]["host"], c.address.to_string());
}

#[test]
fn the_rest_is_finished_if_asked() {
    let place = Place::new();
    let bytes = random_bytes(4_000_000, 6);
    let [a, b, c] = &takers(&place);
    let file = file(&place, &bytes);
    let cache = place.path("cache");
    let all = hosts(&[a, b, c]);
    let arguments = ["put", text(&file), &all, "--quorum", "1", "--finish-rest", "--cache"];
    let done = Transfer::start(&[&arguments[..], &[text(&cache)]].concat()).end().success();
    assert!(done.has_step("quorum"), "{done:#?}");
    assert_eq!(done.summary["receivers_complete"], 3);
    assert_holds(&place.path("taker2"), "file", &bytes);
}

#[test]
fn a_receiver_that_dies_is_named_and_costs_the_exit_status() {
    let place = Place::new();
    let bytes = random_bytes(8_000_000, 5);
    let [a, mut b] = takers(&place);
    let file = file(&place, &bytes);
    let cache = place.path("cache");
    let put = Transfer::start(&[
        "put",
        text(&file),
        &hosts(&[&a, &b]),
        "--timeout",
        "2",
        "--inject-send-rate",
        "60M",
        "--cache",
        text(&cache),
    ]);
    put.wait_for_event("started");
    b.kill();
    let done = put.end();
    assert_eq!(done.code, Some(9), "{done:#?}");
    assert!(done.text.contains(&b.address.to_string()), "{}", done.text);
    assert_holds(&place.path("taker0"), "file", &bytes);
}

#[test]
fn a_host_that_takes_nothing_says_so() {
    let place = Place::new();
    let server = place.serve(&place.dir("a"), &[]);
    let file = file(&place, b"x");
    let refused = run(&["put", text(&file), &hosts(&[&server])]);
    assert_eq!(refused.code, Some(4), "{refused:#?}");
    assert!(refused.text.contains("--allow-put"), "{}", refused.text);
    assert_eq!(listing(&place.path("a")), [""; 0]);
}

#[test]
fn an_existing_object_is_left_alone_unless_both_sides_say_so() {
    let place = Place::new();
    let cautious = place.dir("cautious");
    let willing = place.dir("willing");
    for dir in [&cautious, &willing] {
        std::fs::write(dir.join("file"), b"old").expect("write");
    }
    let a = place.serve(&cautious, &["--allow-put"]);
    let b = place.serve(&willing, &["--allow-put", "--allow-overwrite"]);
    let file = file(&place, b"new");
    for (server, extra, code) in
        [(&a, &[][..], 4), (&a, &["--force"][..], 4), (&b, &[][..], 4), (&b, &["--force"][..], 0)]
    {
        let mut arguments = vec!["put", text(&file)];
        let to = hosts(&[server]);
        arguments.push(&to);
        arguments.extend_from_slice(extra);
        let ended = run(&arguments);
        assert_eq!(ended.code, Some(code), "{ended:#?}");
    }
    assert_holds(&cautious, "file", b"old");
    assert_holds(&willing, "file", b"new");
}

#[test]
fn what_is_there_already_need_not_move() {
    let place = Place::new();
    let bytes = random_bytes(500_000, 6);
    let [a] = &takers(&place);
    let file = file(&place, &bytes);
    let cache = place.path("cache");
    let arguments = ["put", text(&file), &hosts(&[a]), "--cache", text(&cache)];
    run(&arguments).success();
    let again = run(&arguments).success();
    assert_eq!(again.summary["symbols_sent"], 0, "{:#}", again.summary);
}

#[test]
fn what_a_host_had_before_it_was_started_again_need_not_move() {
    let place = Place::new();
    let dir = place.dir("a");
    // It was killed when the object had its name, and before it could say so.
    let bytes = random_bytes(500_000, 6);
    std::fs::write(dir.join("file"), &bytes).expect("write");
    let server = place.serve(&dir, &["--allow-put"]);
    let file = file(&place, &bytes);
    let again = run(&["put", text(&file), &hosts(&[&server])]).success();
    assert_eq!(again.summary["symbols_sent"], 0, "{:#}", again.summary);
    std::fs::write(dir.join("file"), random_bytes(500_000, 7)).expect("write");
    let other = run(&["put", text(&file), &hosts(&[&server])]);
    assert_eq!(other.code, Some(4), "{other:#?}");
}

#[test]
fn caps_are_kept() {
    let place = Place::new();
    let dir = place.dir("a");
    let server = place.serve(&dir, &["--allow-put", "--max-object", "1k"]);
    let file = file(&place, &random_bytes(2_000, 7));
    let refused = run(&["put", text(&file), &hosts(&[&server])]);
    assert_eq!(refused.code, Some(4), "{refused:#?}");
    assert!(refused.text.contains("the limit is 1000"), "{}", refused.text);
    assert_eq!(listing(&dir), [""; 0]);
}

/// A put of 8 MB that is interrupted after a tenth, and what it says.
fn interrupt_a_put(place: &Place, receiver: &Server, seed: u64, more: &[&str]) -> String {
    let file = file(place, &random_bytes(8_000_000, seed));
    let to = hosts(&[receiver]);
    let put = [&["put", text(&file), &to, "--inject-send-rate", "40M"], more].concat();
    let put = Transfer::start(&put);
    put.wait_for_part(0.1);
    put.interrupt();
    let ended = put.end();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    receiver.wait_for("receive_failed");
    ended.text
}

fn holds_one_kept_part(place: &Place) -> bool {
    let files = listing(&place.path("taker0"));
    files.len() == 1 && files[0].ends_with(".kept.part")
}

#[test]
fn an_interrupted_put_leaves_what_the_next_needs() {
    let place = Place::new();
    let [a] = &takers(&place);
    let said = interrupt_a_put(&place, a, 8, &[]);
    assert!(said.contains("run it again to send what is missing"), "{said}");
    wait_until(|| "a part that is kept", || holds_one_kept_part(&place));
}

#[test]
fn an_interrupted_put_that_is_not_to_be_resumed_leaves_nothing_at_the_receiver() {
    let place = Place::new();
    let [a] = &takers(&place);
    let said = interrupt_a_put(&place, a, 8, &["--no-resume"]);
    assert!(said.contains("nothing is left behind"), "{said}");
    wait_until_empty(&place.path("taker0"));
}

#[test]
fn an_interrupted_server_leaves_what_the_next_put_needs() {
    let place = Place::new();
    let [mut a] = takers(&place);
    let file = file(&place, &random_bytes(8_000_000, 9));
    let put = Transfer::start(&[
        "put",
        text(&file),
        &hosts(&[&a]),
        "--inject-send-rate",
        "40M",
        "--timeout",
        "1",
    ]);
    put.wait_for_part(0.1);
    assert!(a.interrupt().success());
    assert!(holds_one_kept_part(&place), "{:?}", listing(&place.path("taker0")));
    assert_eq!(put.end().code, Some(9));
}
