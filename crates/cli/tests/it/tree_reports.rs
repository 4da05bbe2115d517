//! Reports of commands about directories: the same for people and for programs.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::{Place, hosts, output, shown, text, write};

/// The lines that people are shown, and the account of the same with `--json`.
fn both(args: &[&str]) -> (Vec<String>, Value) {
    let people = output(args);
    assert!(people.status.success(), "{}", shown(&people.stderr));
    let programs = output(&[args, &["--json"]].concat());
    assert!(programs.status.success(), "{}", shown(&programs.stderr));
    let lines = shown(&people.stdout).lines().map(str::to_owned).collect();
    (lines, serde_json::from_str(&shown(&programs.stdout)).expect("one object"))
}

fn set_time(path: &Path, after: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + after);
    let file = std::fs::File::open(path).expect("open");
    file.set_modified(time).expect("a time");
}

#[test]
fn a_dry_run_of_a_put_names_what_is_removed_and_where() {
    let place = Place::new();
    let here = place.dir("here");
    write(&here, "new", b"bytes");
    let served = [place.dir("one"), place.dir("two")];
    write(&served[0], "t/old", b"old");
    write(&served[0], "t/both", b"old");
    write(&served[1], "t/both", b"old");
    let flags = ["--allow-put", "--allow-overwrite"];
    let servers = served.each_ref().map(|dir| place.serve(dir, &flags));
    let (one, two) = (servers[0].address.to_string(), servers[1].address.to_string());
    let to = format!("{one},{two}/t/");
    let (lines, account) = both(&["put", text(&here), &to, "--force", "--delete", "--dry-run"]);
    assert_eq!(lines, ["send    new (5 B)", "remove  both", &format!("remove  old at {one}")]);
    let changes = json!([
        {"change": "send", "path": "new", "bytes": 5, "hosts": [one, two]},
        {"change": "remove", "path": "both", "hosts": [one, two]},
        {"change": "remove", "path": "old", "hosts": [one]},
    ]);
    assert_eq!(account["changes"], changes);
    let removed = [0, 1].map(|host: usize| account["receivers"][host]["removed"].clone());
    assert_eq!(removed, [json!(2), json!(1)]);
    assert!(served[0].join("t/old").exists(), "nothing is done");
}

#[test]
fn a_dry_run_of_a_get_names_the_same_for_people_and_programs() {
    let place = Place::new();
    let (served, here) = (place.dir("served"), place.dir("here"));
    write(&served, "d/new", b"bytes");
    write(&here, "old", b"old");
    let server = place.serve(&served, &[]);
    let from = format!("{}/", server.address);
    let get = ["get", &from, "-o", text(&here), "--delete"];
    let (lines, account) = both(&[&get[..], &["--dry-run"]].concat());
    let changes = account["changes"].as_array().expect("a list").clone();
    let of_programs = changes.iter().map(|change| {
        let what = change["change"].as_str().expect("text");
        let size = change["bytes"].as_u64().map(|size| format!(" ({size} B)"));
        let path = change["path"].as_str().expect("text");
        format!("{what:<7} {path}{}", size.unwrap_or_default())
    });
    assert_eq!(of_programs.collect::<Vec<_>>(), lines);
    for change in [
        json!({"change": "fetch", "path": "d/new", "bytes": 5}),
        json!({"change": "remove", "path": "old"}),
    ] {
        assert!(changes.contains(&change), "no {change} in {changes:?}");
    }
    assert_eq!(account["removed"], 1);
    let done = output(&[&get[..], &["--json"]].concat());
    let done: Value = serde_json::from_str(&shown(&done.stdout)).expect("JSON");
    assert_eq!(done["changes"], Value::Null, "only of dry runs");
}

#[test]
fn stat_has_an_object_for_each_host_and_tells_that_the_others_differ() {
    let place = Place::new();
    let replicas = [("a", b"one"), ("b", b"two"), ("c", b"two")];
    let replicas = replicas.map(|(name, bytes)| place.serve(&place.replica(name, bytes), &[]));
    let without = place.serve(&place.dir("d"), &[]);
    let stat = |servers: &[&crate::support::Server]| {
        let ended = output(&["stat", "--json", &format!("{}/object", hosts(servers))]);
        let lines = shown(&ended.stdout);
        let objects = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        (ended.status.code(), objects.collect::<Vec<_>>())
    };
    let [a, b, c] = replicas.each_ref();
    let (status, objects) = stat(&[a, &without, b]);
    assert_eq!((status, objects.len()), (Some(5), 3), "{objects:?}");
    let failed = &objects[1];
    assert_eq!(failed["host"], without.address.to_string());
    assert_eq!(failed["error"]["status"], 4);
    assert!(failed["error"]["reason"].as_str().is_some_and(|text| !text.is_empty()), "{failed}");
    assert!(objects[0]["digest"].is_string() && objects[0]["error"].is_null());
    let (status, objects) = stat(&[b, c, &without]);
    assert_eq!((status, objects.len()), (Some(4), 3), "those that have it have the same");
    let (status, objects) = stat(&[&without]);
    assert_eq!((status, &objects[0]["error"]["status"]), (Some(4), &json!(4)));
}

#[test]
fn hosts_whose_directories_have_other_times_have_the_same_files() {
    let place = Place::new();
    let [one, two, here] = ["one", "two", "here"].map(|name| {
        let dir = place.dir(name);
        write(&dir, "t/d/a", b"bytes");
        set_time(&dir.join("t/d/a"), 0);
        set_time(&dir.join("t/d"), 0);
        dir
    });
    let servers = [&one, &two].map(|dir| place.serve(dir, &[]));
    let from = format!("{}/t/", hosts(&[&servers[0], &servers[1]]));
    let (here, directory) = (here.join("t"), two.join("t/d"));
    let verify = || output(&["verify", text(&here), &from]);
    set_time(&directory, 9);
    let same = verify();
    assert!(same.status.success(), "{}", shown(&same.stderr));
    // `ls` shows times, and tells where they differ.
    let listed = output(&["ls", "-R", &from]);
    let said = shown(&listed.stderr);
    assert_eq!(listed.status.code(), Some(5), "{said}");
    assert!(said.contains("differ in d:") && said.contains("Name one of the hosts"), "{said}");
    assert!(!said.contains("t//") && !said.contains("--digest"), "{said}");
    let level = output(&["ls", &from]);
    assert!(shown(&level.stderr).contains("differ in d:"), "{}", shown(&level.stderr));
    // Other bytes are told by their path, and a host without the directory is left out.
    write(&two, "t/d/a", b"other");
    let differ = verify();
    let said = shown(&differ.stderr);
    assert_eq!(differ.status.code(), Some(5), "{said}");
    assert!(said.contains("the hosts differ in d/a:") && !said.contains("t//"), "{said}");
    std::fs::remove_dir_all(two.join("t")).expect("removed");
    let alone = verify();
    let said = shown(&alone.stderr);
    assert!(alone.status.success() && said.contains("is left out"), "{said}");
}

#[test]
fn a_put_of_a_directory_with_hidden_files_says_how_it_can_go() {
    let place = Place::new();
    let (here, served) = (place.dir("here"), place.dir("served"));
    write(&here, ".git/config", b"mine");
    write(&here, "a", b"bytes");
    let server = place.serve(&served, &["--allow-put"]);
    let to = format!("{}/t/", server.address);
    let put = ["put", text(&here), &to];
    let refused = output(&put);
    let said = shown(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    for words in ["--exclude '.*'", "serve --allow-hidden", "--allow-odd-names"] {
        assert!(said.contains(words), "no {words}: {said}");
    }
    assert!(!said.contains("HOST/NAME."), "{said}");
    let sent = output(&[&put[..], &["--exclude", ".*"]].concat());
    assert!(sent.status.success(), "{}", shown(&sent.stderr));
    assert!(served.join("t/a").exists() && !served.join("t/.git").exists());
}

#[test]
fn a_list_shows_no_characters_that_turn_the_direction_of_writing() {
    let place = Place::new();
    let served = place.dir("served");
    write(&served, "a\u{202e}exe.txt", b"theirs");
    std::os::unix::fs::symlink("a\u{202e}exe.txt", served.join("link")).expect("linked");
    let server = place.serve(&served, &[]);
    let root = format!("{}/", server.address);
    for how in [&[][..], &["-l"], &["--digests"]] {
        let listed = shown(&output(&[&["ls", &root], how].concat()).stdout);
        assert_eq!(listed.matches("a\\u{202e}exe.txt").count(), 2, "{listed}");
        assert!(!listed.contains('\u{202e}'), "{listed}");
    }
    let json = shown(&output(&["ls", "--json", &root]).stdout);
    let first: Value = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["path"], "a\u{202e}exe.txt", "programs get the name");
}
