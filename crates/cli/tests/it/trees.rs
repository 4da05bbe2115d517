//! Directories and many objects with the real binary over loopback.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::support::{Place, Transfer, listing, program, random_bytes, run, text};

fn write(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    std::fs::write(&path, bytes).expect("write");
}

fn output(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("runs")
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_directory_is_listed_fetched_and_fetched_again() {
    let place = Place::new();
    let served = place.dir("served");
    write(&served, "d/a", b"first");
    write(&served, "d/e/b", b"second");
    write(&served, "c", b"third");
    let server = place.serve(&served, &[]);
    let (root, directory) = (format!("{}/", server.address), format!("{}/d/", server.address));
    let ls = output(&["ls", &root]);
    assert_eq!(shown(&ls.stdout), "c\nd/\n", "{}", shown(&ls.stderr));
    let ls = shown(&output(&["ls", "--digests", &directory]).stdout);
    let digest = blake3::hash(b"first").to_hex();
    assert!(ls.lines().next().is_some_and(|l| l.contains(digest.as_str()) && l.ends_with(" a")));
    let to = place.path("here");
    let fetched = run(&["get", &directory, "-o", text(&to)]).success().summary;
    assert_eq!((fetched["files"].as_u64(), fetched["files_fetched"].as_u64()), (Some(2), Some(2)));
    assert_eq!(std::fs::read(to.join("e/b")).expect("read"), b"second");
    write(&served, "d/a", b"changed");
    let dry = output(&["get", &directory, "-o", text(&to), "--dry-run"]);
    assert_eq!(shown(&dry.stdout), "fetch   a (7 B)\n");
    assert_eq!(std::fs::read(to.join("a")).expect("read"), b"first");
    let again = run(&["get", &directory, "-o", text(&to)]).success().summary;
    assert_eq!(again["files_fetched"], 1);
    assert_eq!(std::fs::read(to.join("a")).expect("read"), b"changed");
    let none = run(&["get", &format!("{}/none/", server.address), "-o", text(&to)]);
    assert_eq!(none.code, Some(4), "{none:?}");
}

#[test]
fn a_fetch_that_is_killed_goes_on() {
    let place = Place::new();
    let served = place.dir("served");
    for number in 0..100 {
        write(&served, &format!("{number}"), &random_bytes(200_000, number));
    }
    write(&served, "large", &random_bytes(20_000_000, 1_000));
    let server = place.serve(&served, &["--inject-send-rate", "200M"]);
    let (root, to) = (format!("{}/", server.address), place.path("here"));
    let killed = Transfer::start(&["get", &root, "-o", text(&to)]);
    killed.wait_for_part(0.5);
    killed.kill();
    let ended = run(&["get", &root, "-o", text(&to)]).success();
    let bytes = ended.summary["bytes_fetched"].as_u64().expect("a number");
    assert!(bytes < 40_000_000, "{ended:?}");
    let mut names = listing(&served);
    names.sort();
    assert_eq!(listing(&to), names, "no part file is left");
    for name in names {
        let read = |dir: &Path| std::fs::read(dir.join(&name)).expect("read");
        assert!(read(&served) == read(&to), "{name}");
    }
}

#[test]
fn many_objects_come_by_one_call_and_those_that_are_missing_are_named() {
    let place = Place::new();
    let served = place.dir("served");
    for number in 0..50 {
        write(&served, &format!("d/{number}"), &random_bytes(4_096, number));
    }
    write(&served, "large", &random_bytes(2_000_000, 99));
    write(&served, "void", b"");
    let server = place.serve(&served, &[]);
    let at = |name: &str| format!("{}/{name}", server.address);
    let to = place.dir("here");
    let mut child = program()
        .args(["get", "--from", "-", &at("large"), &at("void"), "--json", "-o", text(&to)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let list: String = (0..50).map(|number| at(&format!("d/{number}")) + "\n").collect();
    child.stdin.take().expect("piped").write_all(list.as_bytes()).expect("written");
    let ended = child.wait_with_output().expect("ends");
    assert!(ended.status.success(), "{}", shown(&ended.stdout));
    assert_eq!(listing(&to).len(), 52);
    for number in 0..50 {
        let bytes = std::fs::read(to.join(number.to_string())).expect("read");
        assert!(bytes == random_bytes(4_096, number), "{number}");
    }
    let exists = run(&["get", &at("d/1"), &at("d/2"), "-o", text(&to)]);
    assert_eq!(exists.code, Some(8), "{exists:?}");
    let other = place.dir("other");
    let missing = run(&["get", &at("d/1"), &at("d/none"), &at("no/where"), "-o", text(&other)]);
    assert_eq!(missing.code, Some(4), "{missing:?}");
    assert_eq!(
        (&missing.summary["objects"], &missing.summary["objects_failed"]),
        (&3.into(), &2.into())
    );
    assert!(
        missing.text.contains("d/none") && missing.text.contains("no/where"),
        "{}",
        missing.text
    );
    assert_eq!(listing(&other), ["1"]);
}
