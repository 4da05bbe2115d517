//! Fetching with the real binary over loopback.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use crate::support::{Place, listing, object_at, program, random_bytes, run, text};

#[test]
fn one_replica_gives_the_object() {
    let place = Place::new();
    let bytes = random_bytes(3_000_001, 1);
    let server = place.serve(&place.replica("a", &bytes), &[]);
    let out = place.dir("out");
    let got = run(&["get", &object_at(&[&server]), "-o", text(&out)]).success();
    assert_eq!(std::fs::read(out.join("object")).expect("read"), bytes);
    assert_eq!(listing(&out), ["object"]);
    assert_eq!(got.summary["bytes"], 3_000_001);
    assert_eq!(got.summary["digest"], blake3::hash(&bytes).to_hex().as_str());
    // Loopback carries symbols of 8,192 bytes, of which 64 fill a block.
    assert_eq!(got.summary["symbols_needed"], 3_000_001_u64.div_ceil(8_192));
    let short = run(&[
        "get",
        &object_at(&[&server]),
        "-o",
        text(&place.path("short")),
        "--symbol-size",
        "1376",
    ]);
    // Blocks of 128 KiB have 96 symbols.
    let last = 3_000_001_u64 % (128 << 10);
    assert_eq!(short.success().summary["symbols_needed"], 22 * 96 + last.div_ceil(1_376));
}

#[test]
fn one_server_gives_the_object_by_every_protocol() {
    let place = Place::new();
    let bytes = random_bytes(2_000_001, 11);
    let server = place.serve(&place.replica("a", &bytes), &[]);
    for protocol in ["scdp", "lttp", "ndp"] {
        let out = place.path(protocol);
        let from = object_at(&[&server]);
        let got = run(&["get", "--protocol", protocol, &from, "-o", text(&out)]).success();
        assert!(std::fs::read(&out).expect("read") == bytes, "{protocol}");
        assert_eq!(got.summary["digest"], blake3::hash(&bytes).to_hex().as_str());
        assert_eq!(server.wait_for("sent")["object"], "object", "{protocol}");
    }
}

#[test]
fn three_replicas_share_the_work() {
    let place = Place::new();
    let bytes = random_bytes(6_000_000, 2);
    let servers = ["a", "b", "c"].map(|name| {
        let dir = place.replica(name, &bytes);
        place.serve(&dir, &["--inject-send-rate", "100M"])
    });
    let [a, b, c] = &servers;
    let out = place.path("out");
    let got = run(&["get", &object_at(&[a, b, c]), "-o", text(&out)]).success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
    for replica in got.summary["replicas"].as_array().expect("replicas") {
        let share = replica["share"].as_f64().expect("a number");
        assert!((0.15..0.55).contains(&share), "{:#}", got.summary);
    }
}

#[test]
fn loss_is_made_good() {
    let place = Place::new();
    let bytes = random_bytes(2_000_000, 3);
    let servers = ["a", "b", "c"].map(|name| place.serve(&place.replica(name, &bytes), &[]));
    let [a, b, c] = &servers;
    let out = place.path("out");
    let arguments =
        ["get", &object_at(&[a, b, c]), "-o", text(&out), "--inject-loss", "0.1", "--seed", "7"];
    let got = run(&arguments).success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
    assert!(got.summary["blocks_decoded"].as_u64() > Some(0), "{:#}", got.summary);
}

#[test]
fn objects_of_no_byte_and_of_one() {
    let place = Place::new();
    for len in [0, 1] {
        let bytes = random_bytes(len, 4);
        let server = place.serve(&place.replica(&format!("r{len}"), &bytes), &[]);
        let out = place.path(&format!("out{len}"));
        run(&["get", &object_at(&[&server]), "-o", text(&out)]).success();
        assert_eq!(std::fs::read(&out).expect("read"), bytes);
    }
}

#[test]
fn ipv6_works_as_well() {
    let place = Place::new();
    let bytes = random_bytes(300_000, 5);
    let server = place.serve_at(&place.replica("a", &bytes), "[::1]:0", &[]);
    let out = place.path("out");
    run(&["get", &object_at(&[&server]), "-o", text(&out)]).success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
}

#[test]
fn standard_output_gets_the_bytes_in_order() {
    let place = Place::new();
    let bytes = random_bytes(5_000_000, 6);
    let server = place.serve(&place.replica("a", &bytes), &[]);
    for output in [&["-o", "-"][..], &[]] {
        let done = program()
            .args(["get", &object_at(&[&server]), "--inject-loss", "0.05"])
            .args(output)
            .output()
            .expect("runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(done.stdout == bytes, "{} bytes of {}", done.stdout.len(), bytes.len());
    }
}

#[test]
fn a_reader_who_leaves_ends_the_fetch_and_that_is_no_failure() {
    let place = Place::new();
    let bytes = random_bytes(8_000_000, 7);
    let server = place.serve(&place.replica("a", &bytes), &["--inject-send-rate", "200M"]);
    let mut child = program()
        .args(["get", &object_at(&[&server]), "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut first = [0; 1_000];
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut first).expect("the beginning");
    drop(stdout);
    let done = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !said.contains("wellspring:"), "{}: {said}", done.status);
    assert_eq!(first, bytes[..1_000]);
}

#[test]
fn a_sparse_file_stays_sparse_and_needs_no_memory() {
    let place = Place::new();
    let dir = place.dir("a");
    let len = 200 << 20;
    let file = std::fs::File::create(dir.join("object")).expect("create");
    file.set_len(len).expect("length");
    let server = place.serve(&dir, &[]);
    let out = place.path("out");
    let got = run(&["get", &object_at(&[&server]), "-o", text(&out)]).success();
    let meta = std::fs::metadata(&out).expect("stat");
    assert_eq!(meta.len(), len);
    assert!(meta.blocks() < 2_000, "{} blocks on disk", meta.blocks());
    let peak = got.summary["peak_memory_bytes"].as_u64().expect("a number");
    assert!(peak < 128 << 20, "{peak} bytes of memory for {len}");
}

#[test]
fn an_existing_file_is_left_alone() {
    let place = Place::new();
    let server = place.serve(&place.replica("a", b"new"), &[]);
    let out = place.dir("out");
    std::fs::write(out.join("object"), b"old").expect("write");
    let refused = run(&["get", &object_at(&[&server]), "-o", text(&out)]);
    assert_eq!(refused.code, Some(8), "{refused:#?}");
    assert!(refused.text.contains("--force"), "{}", refused.text);
    assert_eq!(std::fs::read(out.join("object")).expect("read"), b"old");
    run(&["get", &object_at(&[&server]), "-o", text(&out), "--force"]).success();
    assert_eq!(std::fs::read(out.join("object")).expect("read"), b"new");
    assert_eq!(listing(&out), ["object"]);
}

#[test]
fn what_no_host_has_is_said_at_once() {
    let place = Place::new();
    let server = place.serve(&place.replica("a", b"x"), &[]);
    let out = place.dir("out");
    let from = format!("{}/other", server.address);
    let refused = run(&["get", &from, "-o", text(&out)]);
    assert_eq!(refused.code, Some(4), "{refused:#?}");
    assert!(refused.text.contains("no object named other"), "{}", refused.text);
    assert_eq!(listing(&out), [""; 0]);
}

#[test]
fn a_host_that_is_not_there_is_waited_for_no_longer_than_told() {
    let place = Place::new();
    let mut server = place.serve(&place.dir("a"), &[]);
    let from = object_at(&[&server]);
    let out = place.path("out");
    let get = ["get", &from, "-o", text(&out), "--timeout", "0.5"];
    server.pause();
    let refused = run(&get);
    assert_eq!(refused.code, Some(4), "{refused:#?}");
    assert!(refused.text.contains("no answer within 0.5 s"), "{}", refused.text);
    // A closed port is known at once.
    server.kill();
    let refused = run(&get);
    assert_eq!(refused.code, Some(4), "{refused:#?}");
    assert!(refused.text.contains("nobody listens at that port"), "{}", refused.text);
}

#[test]
fn replicas_that_differ_are_named_and_not_mixed() {
    let place = Place::new();
    let (mine, other) = (random_bytes(100_000, 8), random_bytes(100_000, 9));
    let a = place.serve(&place.replica("a", &mine), &[]);
    let b = place.serve(&place.replica("b", &other), &[]);
    let c = place.serve(&place.replica("c", &mine), &[]);
    // Each knows its digest before: one that is still reading when others have answered is compared
    // later, when the transfer is under way.
    for server in [&a, &b, &c] {
        run(&["get", &object_at(&[server]), "-o", text(&place.path("warm")), "--force"]).success();
    }
    let out = place.dir("out");
    let from = object_at(&[&a, &b, &c]);
    let refused = run(&["get", &from, "-o", text(&out)]);
    assert_eq!(refused.code, Some(5), "{refused:#?}");
    for server in [&a, &b, &c] {
        assert!(refused.text.contains(&server.address.to_string()), "{}", refused.text);
    }
    assert!(refused.text.contains(blake3::hash(&other).to_hex().as_str()), "{}", refused.text);
    assert_eq!(listing(&out), [""; 0]);
    // With the digest given, it uses the host that has it and not the other one.
    let digest = blake3::hash(&other).to_hex();
    let got = run(&["get", &from, "-o", text(&out), "--digest", &digest]).success();
    assert_eq!(std::fs::read(out.join("object")).expect("read"), other);
    assert_eq!(got.summary["replicas"][0]["state"], "unused");
}

#[test]
fn a_second_fetch_computes_no_digest() {
    let place = Place::new();
    let dir = place.replica("a", &random_bytes(1_000_000, 10));
    let server = place.serve(&dir, &[]);
    run(&["get", &object_at(&[&server]), "-o", text(&place.path("first"))]).success();
    drop(server);
    let server = place.serve(&dir, &[]);
    run(&["get", &object_at(&[&server]), "-o", text(&place.path("second"))]).success();
    let event = server.wait_for("sending");
    assert_eq!(event["object"], "object", "and no `hashing` before it would have been skipped");
    drop(server);
    let cache = std::fs::read_to_string(place.path("cache").join("digests")).expect("cache");
    assert_eq!(cache.lines().count(), 1, "{cache}");
}

#[test]
fn a_range_goes_to_a_file_or_to_standard_output_and_is_no_whole_object() {
    let place = Place::new();
    let bytes = random_bytes(3_000_000, 12);
    let servers = ["a", "b", "c"].map(|name| place.serve(&place.replica(name, &bytes), &[]));
    let [a, b, c] = &servers;
    let (from, dir) = (object_at(&[a, b, c]), place.dir("out"));
    let out = dir.join("part");
    let got = run(&["get", "--range", "1000-200000", &from, "-o", text(&out)]).success();
    assert!(std::fs::read(&out).expect("read") == bytes[1_000..=200_000]);
    assert_eq!(listing(&dir), ["part"]);
    let number = |key: &str| got.summary[key].as_u64();
    assert_eq!(
        ["bytes", "first_byte", "object_bytes", "blocks", "symbols_needed"].map(number),
        [199_001, 1_000, 3_000_000, 2, 192].map(Some)
    );
    for (range, expected) in [("2999990-", 2_999_990..3_000_000), ("-500", 2_999_500..3_000_000)] {
        let done = program().args(["get", "--range", range, &from, "-o", "-"]).output();
        let done = done.expect("runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(done.stdout == bytes[expected], "{} bytes for {range}", done.stdout.len());
    }
    for (arguments, said) in [
        (&["--range", "3000000-", "-o", "-"][..], "3000000 bytes, and none in the range 3000000-"),
        (&["--range", "9-3", "-o", "-"], "no range of bytes"),
        (&["--range", "0-9", "--protocol", "ndp", "-o", "-"], "--protocol scdp"),
        (&["--range", "0-9", "-o", text(&dir)], "the name of a file"),
        (&["--range", "0-9", "-o", "-", "127.0.0.1/other"], "of one object"),
    ] {
        let refused = program().args(["get", &from]).args(arguments).output().expect("runs");
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(said) && refused.stdout.is_empty(), "{arguments:?}: {text}");
    }
    assert_eq!(listing(&dir), ["part"]);
}

#[test]
fn a_stream_that_has_no_room_for_what_is_early_says_where_it_looked() {
    let place = Place::new();
    let server = place.serve(&place.replica("a", &random_bytes(5_000_000, 22)), &[]);
    let mut command = program();
    command.args(["get", &object_at(&[&server]), "-o", "-"]).env("TMPDIR", "/none");
    let ended = command.output().expect("runs");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("a temporary file in /none") && said.contains("TMPDIR"), "{said}");
}

#[test]
fn a_link_among_several_objects_is_named_and_does_not_come() {
    let place = Place::new();
    let (served, to) = (place.dir("served"), place.dir("here"));
    for name in ["model", "config"] {
        std::fs::write(served.join(name), name).expect("write");
    }
    std::fs::write(served.join("void"), "").expect("write");
    std::os::unix::fs::symlink("model", served.join("latest")).expect("linked");
    std::fs::write(to.join("latest"), "mine").expect("write");
    let server = place.serve(&served, &[]);
    let at = |name: &str| format!("{}/{name}", server.address);
    let (objects, to) = (["latest", "config", "void"].map(at), text(&to));
    let got = run(&["get", &objects[0], &objects[1], &objects[2], "-o", to, "--force"]);
    assert_eq!(got.code, Some(4), "{got:?}");
    assert!(got.text.contains("latest: is a symbolic link: name the file"), "{}", got.text);
    let read = |name: &str| std::fs::read_to_string(place.path("here").join(name)).expect(name);
    assert_eq!([read("latest"), read("config"), read("void")], ["mine", "config", ""]);
    assert!(!place.path("here/latest").is_symlink());
}
